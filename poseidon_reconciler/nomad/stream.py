"""Nomad's event stream without an end: whatever ends a connection, another one follows, and nothing is lost unnoticed.

A stream ends in many ways, some of which look like success: a text in place of a line, half a line and then nothing, a
`200` with nothing in it for a token that may not read. Each is told apart and counted, and each leads to another
connection, after a wait that grows until a connection has lasted. A connection resumes at the last index. After
`Opened`, `Gap` and `MalformedLine` only lists tell the whole truth.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

import aiohttp

from poseidon_reconciler.core.framing import MAX_LINE_BYTES
from poseidon_reconciler.nomad.backoff import Backoff
from poseidon_reconciler.nomad.connection import USER_AGENT, Connection
from poseidon_reconciler.nomad.items import Closed, Ending, Item, Opened, ending_of_status
from poseidon_reconciler.nomad.reader import StreamReader

TOPICS: Final = ("Job", "Allocation", "Evaluation", "Node")
# Beyond every index of a server: it then starts at its newest event.
_NEWEST: Final = 2**62
_REFUSAL_BYTES: Final = 2048
_LOGGER: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Bounds of a connection, in seconds and bytes.

    Attributes:
        answer_s: until the headers of an answer are there.
        first_byte_s: from the headers to the first byte; a healthy server sends a heartbeat at once, and since 1.11.2
            one that refuses the token sends nothing, and may not close the connection either.
        silence_s: without any byte; the server sends a heartbeat every 30 s.
        healthy_s: what a connection must have lasted for its end not to count as a failure.
        first_wait_s, longest_wait_s: bounds of the waits between connections.
    """

    answer_s: float = 15.0
    first_byte_s: float = 10.0
    silence_s: float = 90.0
    healthy_s: float = 60.0
    first_wait_s: float = 0.5
    longest_wait_s: float = 30.0
    max_line_bytes: int = MAX_LINE_BYTES


DEFAULT_LIMITS: Final = StreamLimits()


class _EndedError(Exception):
    """The connection has come to an end of a kind that is known already."""

    def __init__(self, kind: Ending, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


class EventStream:
    """The stream of one namespace, over as many connections as it takes.

    Attributes:
        endings: how often a connection ended in which way.
        last_index: the index of the last line, at which the next connection resumes; None before the first line.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        limits: StreamLimits = DEFAULT_LIMITS,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.endings: Counter[Ending] = Counter()
        self.last_index: int | None = None
        self._connection = connection
        self._limits = limits
        self._clock = clock
        self._monotonic = monotonic
        self._sleep = sleep
        self._backoff = Backoff(base_s=limits.first_wait_s, cap_s=limits.longest_wait_s, chance=chance)
        # After an oversized line: resuming where we were would bring it again.
        self._skip_to_newest = False
        self._restart_wanted = False

    async def items(self) -> AsyncGenerator[Item, None]:
        """What the stream gives, for ever; `contextlib.aclosing` ends its connection."""
        while True:
            reader = StreamReader(self.last_index, self._limits.max_line_bytes)
            began_at = self._monotonic()
            try:
                async with aclosing(self._connect(reader)) as items:
                    async for item in items:
                        yield item
            except _EndedError as ended:
                closed = self._close(ended, healthy=reader.heard and self._lasted(began_at))
            yield closed
            await self._sleep(closed.retry_in_s)

    def restart(self) -> None:
        """Ends the present connection when its next bytes come in; another one follows as always."""
        self._restart_wanted = True

    def _lasted(self, began_at: float) -> bool:
        return self._monotonic() - began_at >= self._limits.healthy_s

    def _close(self, ended: _EndedError, *, healthy: bool) -> Closed:
        self.endings[ended.kind] += 1
        self._skip_to_newest = ended.kind == "oversized"
        self._restart_wanted = False
        if healthy:
            self._backoff.reset()
        return Closed(ended.kind, str(ended), self._clock(), self._backoff.next_s())

    async def _connect(self, reader: StreamReader) -> AsyncGenerator[Item, None]:
        """One connection.

        Raises:
            _EndedError: always, at its end.
        """
        async with await self._open_session() as session:
            response = await self._request(session)
            async with response:
                if response.status != 200:
                    raise await self._refusal(response)
                yield Opened(self.last_index, self._clock())
                async with aclosing(self._read(response, reader)) as items:
                    async for item in items:
                        yield item

    async def _open_session(self) -> aiohttp.ClientSession:
        """A session for this connection alone, with the token and the certificates as they are now."""
        try:
            token, context = await asyncio.to_thread(self._credentials)
        except (OSError, ValueError) as error:
            raise _EndedError("credentials", _in_one_line(error)) from None
        headers = {"Accept-Encoding": "identity", "User-Agent": USER_AGENT}
        if token is not None:
            headers["X-Nomad-Token"] = token
        limits = self._limits
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context or True, force_close=True),
            headers=headers,
            read_bufsize=2**18,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=limits.answer_s, sock_read=None),
        )

    def _credentials(self) -> tuple[str | None, ssl.SSLContext | None]:
        return self._connection.token(), self._connection.ssl_context()

    async def _request(self, session: aiohttp.ClientSession) -> aiohttp.ClientResponse:
        params = [*self._connection.scope().items(), *(("topic", f"{topic}:*") for topic in TOPICS)]
        if self._skip_to_newest:
            params.append(("index", str(_NEWEST)))
        elif self.last_index is not None:
            params.append(("index", str(self.last_index)))
        url = f"{self._connection.base_url}/v1/event/stream"
        try:
            async with asyncio.timeout(self._limits.answer_s):
                return await session.get(url, params=params, allow_redirects=False)
        except aiohttp.ClientSSLError as error:
            raise _EndedError("tls", _in_one_line(error)) from None
        except TimeoutError:
            raise _EndedError("unreachable", f"no answer within {self._limits.answer_s:g} s") from None
        except aiohttp.ClientConnectorError as error:
            raise _EndedError("unreachable", f"{error.host}:{error.port}: {error.strerror or error}") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _EndedError("unreachable", _in_one_line(error)) from None

    async def _refusal(self, response: aiohttp.ClientResponse) -> _EndedError:
        try:
            async with asyncio.timeout(self._limits.answer_s):
                body = await response.content.read(_REFUSAL_BYTES)
        except (aiohttp.ClientError, TimeoutError):
            body = b""
        text = " ".join(body.decode("utf-8", "replace").split())[:200]
        kind = ending_of_status(response.status, text)
        # What is no Nomad may answer with a whole page.
        return _EndedError(kind, f"{response.status} {text if kind != 'not-nomad' else ''}".rstrip())

    async def _read(self, response: aiohttp.ClientResponse, reader: StreamReader) -> AsyncGenerator[Item, None]:
        while True:
            patience_s = self._limits.silence_s if reader.heard else self._limits.first_byte_s
            try:
                async with asyncio.timeout(patience_s):
                    data = await response.content.readany()
            except TimeoutError:
                raise _EndedError("silent", f"no byte for {patience_s:g} s") from None
            except (aiohttp.ClientError, OSError) as error:
                # The library's words help whoever looks for its faults, and nobody who looks after a cluster.
                _LOGGER.debug("the event stream was cut: %s", _in_one_line(error))
                where = "in the middle of a line" if reader.in_a_line else "without ending the stream"
                raise _EndedError("cut", f"the server went away {where}") from None
            now = self._clock()
            if not data:
                items, kind, reason = reader.close(now)
            else:
                items = reader.feed(data, now)
            self.last_index = reader.last_index
            for item in items:
                yield item
            if not data:
                raise _EndedError(kind, reason)
            if self._restart_wanted:
                raise _EndedError("restarted", "taken up anew")
            if reader.oversized:
                raise _EndedError("oversized", f"a line of more than {self._limits.max_line_bytes} bytes")


def _in_one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
