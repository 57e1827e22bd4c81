"""How those who only look on ask others over HTTP, and how they tell what went wrong.

The libraries' own texts may have a whole URL in them, which may be a secret.
"""

from __future__ import annotations

from typing import Final

import aiohttp

from poseidon_reconciler import __version__

FAILURES: Final = (TimeoutError, aiohttp.ClientError, OSError)
"""What a request can raise that was sent by such a session."""


def new_session(timeout_s: float, headers: dict[str, str] | None = None) -> aiohttp.ClientSession:
    """A session without a memory, in which each request has so much time altogether."""
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=timeout_s),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": f"poseidon-reconciler/{__version__}", **(headers or {})},
    )


def why_no_answer(error: BaseException, session: aiohttp.ClientSession) -> str:
    """Why one of `FAILURES` came in place of an answer, in a few words that follow on the name of who was asked."""
    match error:
        case TimeoutError():
            return f"no answer within {session.timeout.total:g} s"
        case aiohttp.ClientSSLError():
            return "is not trusted, or does not speak TLS"
        case aiohttp.ClientConnectorError():
            return f"cannot be reached: {error.strerror or type(error).__name__}"
        case aiohttp.ServerDisconnectedError():
            return "ends the connection without an answer"
        case _:
            return f"the connection failed: {type(error).__name__}"
