"""Asks a reconciler that runs, over its own HTTP API."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote, urlsplit

import msgspec
import orjson
import requests

from poseidon_reconciler.app.errors import NOBODY_THERE, UsageError
from poseidon_reconciler.core.explanation import (
    EnvironmentExplanation,
    Explanation,
    JobExplanation,
    OrderExplanation,
)
from poseidon_reconciler.core.printable import printable
from poseidon_reconciler.policy import quoted

_TIMEOUT_S: Final = 10.0
_MAX_ANSWER_BYTES: Final = 16 << 20
_MAX_ERROR_CHARS: Final = 300


def ask_explanation(url: str, subject: str) -> Explanation:
    """What the reconciler at `url` says of a job or an environment.

    Raises:
        UsageError: it cannot be asked, is none, or knows nothing of the subject.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"--url: {quoted(url)} is not a URL such as http://127.0.0.1:8646")
    status, answer = _get(url, f"{url.rstrip('/')}/v1/explain/{quote(subject, safe='')}")
    if status == 404 and isinstance(answer.get("near"), list):
        near = answer["near"]
        hint = f"; did you mean {printable(str(near[0]))}?" if near else ""
        raise UsageError(f"{url}: {_error(answer)}{hint}")
    if status != 200:
        raise UsageError(f"{url} answers {status}: {_error(answer)}")
    explanation = answer.get("explanation")
    try:
        if answer.get("kind") == "job":
            return msgspec.convert(explanation, JobExplanation)
        if answer.get("kind") == "order":
            return msgspec.convert(explanation, OrderExplanation)
        return msgspec.convert(explanation, EnvironmentExplanation)
    except msgspec.ValidationError as error:
        raise UsageError(f"{url} explains in another way ({error}): is it of another version?") from None


def _error(answer: dict[str, Any]) -> str:
    return printable(str(answer.get("error", "")))[:_MAX_ERROR_CHARS]


def _get(url: str, whole: str) -> tuple[int, dict[str, Any]]:
    """Status and JSON object of an answer."""
    with requests.Session() as session:
        # It is beside us or behind a tunnel: no proxy, and no password of a .netrc, is meant for it.
        session.trust_env = False
        try:
            with session.get(whole, timeout=_TIMEOUT_S, stream=True, allow_redirects=False) as response:
                content = b""
                for chunk in response.iter_content(1 << 16):
                    content += chunk
                    if len(content) > _MAX_ANSWER_BYTES:
                        raise UsageError(f"{url} is no reconciler: its answer does not end")
        except requests.Timeout:
            raise UsageError(f"{url} does not answer within {_TIMEOUT_S:g} s") from None
        except requests.exceptions.SSLError:
            raise UsageError(f"{url}: its certificate is not trusted, or it does not speak TLS") from None
        except requests.ConnectionError:
            raise UsageError(f"{url}: {NOBODY_THERE}") from None
        except (requests.RequestException, ValueError) as error:
            raise UsageError(f"{url} cannot be asked: {printable(str(error))[:_MAX_ERROR_CHARS]}") from None
    try:
        answer = orjson.loads(content)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise UsageError(f"{url} is no reconciler: it answers {response.status_code} and something else than JSON")
    return response.status_code, answer
