"""Single requests with a bound on everything, for `check`: time, bytes, redirects.

The threads of the API's own client can be held by a server that never ends its headers, and Python would wait for them
at its end. These requests can be given up at any moment. What an answer means is said by the same functions.

A server that is no Nomad may send back what it was sent. So the token is taken out of all that might be shown.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Final, Literal, TypeVar

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult

from poseidon_reconciler.nomad.connection import USER_AGENT, Connection
from poseidon_reconciler.nomad.outcomes import Answer, Failure, Ok, Outcome, Unavailable, Unknown, failure_of

T = TypeVar("T")

_MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
_AT_ONCE: Final = 16
_HIDDEN: Final = "<token>"
_SHOWN_CHARACTERS: Final = 200


class _Pinned(AbstractResolver):
    """Gives the addresses that are known to answer, whatever it is asked."""

    def __init__(self, addresses: Iterable[str]) -> None:
        self._addresses = tuple(addresses)

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002 - one signature for all
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for address in self._addresses
        ]

    async def close(self) -> None:
        """Holds nothing."""


class Probe:
    """Asks one server, as long as it is entered."""

    def __init__(
        self, connection: Connection, addresses: Iterable[str], token: str | None, context: ssl.SSLContext | None
    ) -> None:
        self._connection = connection
        self._token = token
        headers = {"Accept-Encoding": "identity", "User-Agent": USER_AGENT}
        if token is not None:
            headers["X-Nomad-Token"] = token
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context or True, resolver=_Pinned(addresses), limit=_AT_ONCE),
            headers=headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            # Or a few bytes could be unpacked to any length.
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None),
        )

    async def __aenter__(self) -> Probe:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    @property
    def namespace(self) -> str:
        return self._connection.namespace

    def open(self, path: str, params: Mapping[str, str]) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """A GET whose answer is read by the caller."""
        return self._session.get(self._url(path), params={**self._connection.scope(), **params}, allow_redirects=False)

    async def ask(
        self,
        path: str,
        *,
        limit_s: float,
        method: Literal["GET", "POST"] = "GET",
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Answer | Unavailable | Unknown:
        """The answer to a request, whatever its status; `path` is quoted already."""
        headers = {"Content-Type": "application/json"} if body is not None else {}
        scope = {**self._connection.scope(), **(params or {})}
        try:
            async with (
                asyncio.timeout(limit_s),
                self._session.request(
                    method, self._url(path), params=scope, data=body, headers=headers, allow_redirects=False
                ) as response,
            ):
                return await self._read(response)
        except TimeoutError:
            return Unknown(f"no whole answer within {limit_s:g} s")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Unavailable(self.told(error))

    async def read(self, path: str, kind: type[T], *, limit_s: float) -> Outcome[T]:
        """What an answer of success says."""
        answer = await self.ask(path, limit_s=limit_s)
        return decoded(answer, kind)

    def hidden(self, text: str) -> str:
        """The text without our token."""
        return text.replace(self._token, _HIDDEN) if self._token else text

    def told(self, error: BaseException) -> str:
        """What an exception says, in one line."""
        return " ".join(self.hidden(str(error)).split())[:_SHOWN_CHARACTERS] or type(error).__name__

    def _url(self, path: str) -> str:
        return f"{self._connection.base_url}{path}"

    async def _read(self, response: aiohttp.ClientResponse) -> Answer:
        pieces, size = [], 0
        async for piece in response.content.iter_any():
            pieces.append(piece)
            size += len(piece)
            if size > _MAX_ANSWER_BYTES:
                raise ValueError(f"the answer is longer than {_MAX_ANSWER_BYTES} bytes")
        headers, body = response.headers.copy(), b"".join(pieces)
        for name, value in response.headers.items():
            headers[name] = self.hidden(value)
        if response.status >= 300 and self._token:
            # Before anything is cut short: a part of a token must not be shown either.
            body = body.replace(self._token.encode(), _HIDDEN.encode())
        return Answer(response.status, headers, body)


def decoded(answer: Answer | Failure, kind: type[T]) -> Outcome[T]:
    """What an answer says, if it is one of success and of that kind."""
    if not isinstance(answer, Answer):
        return answer
    failure = failure_of(answer)
    if failure is not None:
        return failure
    try:
        return Ok(msgspec.json.decode(answer.body, type=kind), answer.index)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Unknown(f"{answer.status}, but not with what Nomad answers: {error}")
