"""`health`: asks a running reconciler whether it lives, for a container's HEALTHCHECK and for scripts.

It runs every few seconds beside what it asks, so it loads as little as it can and waits for nobody.
"""

from __future__ import annotations

import argparse
import sys
from http.client import HTTPException
from typing import Final
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

from poseidon_reconciler.app.errors import NOBODY_THERE, UsageError

_TIMEOUT_S: Final = 3.0
_MOST_BYTES: Final = 200


def health(options: argparse.Namespace) -> int:
    """Runs the command: exit status 0 where the answer is good, 1 where it is another, or none.

    Raises:
        UsageError: there is nobody to ask by these settings, or the URL is none.
    """
    url = options.url if options.url is not None else _own_url(options)
    if not url.startswith(("http://", "https://")):
        raise UsageError("--url: not a URL such as http://127.0.0.1:8646")
    problem = _problem(f"{url.rstrip('/')}/{'readyz' if options.ready else 'healthz'}")
    if problem is not None:
        print(f"{url}: {problem}", file=sys.stderr)
        return 1
    return 0


def _own_url(options: argparse.Namespace) -> str:
    from poseidon_reconciler.app.settings import local_url

    return local_url(options.config)


def _problem(url: str) -> str | None:
    """What is wrong with the answer; None if nothing is."""
    try:
        # No proxy of the environment stands between a machine and itself.
        with build_opener(ProxyHandler({})).open(url, timeout=_TIMEOUT_S):
            return None
    except HTTPError as error:
        with error:
            said = error.read(_MOST_BYTES).decode("utf-8", "replace").strip().replace("\n", " ")
        return f"answers {error.code}: {said}"
    except TimeoutError:
        return f"no answer within {_TIMEOUT_S:g} s"
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ConnectionRefusedError):
            return NOBODY_THERE
        return f"no answer: {reason}"
