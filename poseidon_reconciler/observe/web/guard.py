"""What holds for every request and answer: who may ask, and what a browser may do with what it gets.

The page listens on loopback, where every page of the web that is open in a browser of this machine can send requests
to. So a foreign name for us is refused (a DNS name that was pointed here), and so is what another site's page sends.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from poseidon_reconciler.config.checks import read_token_file

_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:;"
        " frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_HOW_TO_ALLOW: Final = "nobody may: http.token_file is not set"


async def add_headers(_: web.Request, response: web.StreamResponse) -> None:
    """Adds what every answer carries, unless its handler knows better."""
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.popall("Server", None)


def guard(listens_at: str) -> Middleware:
    """The middleware for a server that listens at that host: its own answers to what is not found or not allowed are
    JSON, and on loopback it must be asked by a name of loopback.
    """
    is_local = listens_at == "localhost" or _is_loopback(listens_at)

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        host = _host_of(request.headers.get("Host", ""))
        if is_local and host and host not in _LOOPBACK_NAMES and not _is_loopback(host):
            return refusal(421, "ask by localhost or 127.0.0.1: this is not served under any other name")
        try:
            return await handler(request)
        except web.HTTPRequestEntityTooLarge:
            return refusal(413, "the body is too large")
        except web.HTTPException as error:
            response = refusal(error.status, error.reason.lower())
            if "Allow" in error.headers:
                response.headers["Allow"] = error.headers["Allow"]
            return response

    return guarded


def refusal(status: int, why: str, **more: object) -> web.Response:
    """An answer that says in one line why it is not what was asked for."""
    return web.json_response({"error": why, **more}, status=status)


async def refuse_stranger(request: web.Request, token_file: Path | None) -> web.Response | None:
    """Whether a request may change something; None if so, otherwise the answer to it."""
    if _is_cross_site(request):
        return refusal(403, "a page of another site asks for this")
    if token_file is None:
        return refusal(403, _HOW_TO_ALLOW)
    try:
        token = (await asyncio.to_thread(read_token_file, token_file)).get_secret_value()
    except ValueError as error:
        return refusal(403, f"nobody may: http.token_file: {error}")
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    # Bytes of a header that are no UTF-8 come as surrogates.
    given_token = given.strip().encode("utf-8", "surrogateescape")
    if scheme.lower() != "bearer" or not hmac.compare_digest(given_token, token.encode()):
        response = refusal(401, "the token of http.token_file is needed: Authorization: Bearer …")
        response.headers["WWW-Authenticate"] = "Bearer"
        return response
    return None


def _is_cross_site(request: web.Request) -> bool:
    if request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
        return True
    origin = request.headers.get("Origin")
    return origin is not None and _netloc_of(origin) != request.headers.get("Host", "").lower()


def _netloc_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _host_of(header: str) -> str:
    try:
        return (urlsplit(f"//{header}").hostname or "").lower()
    except ValueError:
        return "?"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
