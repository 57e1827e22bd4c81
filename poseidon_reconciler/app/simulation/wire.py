"""The event stream of a simulated reconciler: the bytes that a server's buffer makes, late, cut short or spoilt.

It stands where `EventStream` has its HTTP connection, so that reconnecting, watching for silence, reading lines and
noticing gaps are done by the real code.
"""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType
from typing import Any, Final, Protocol, cast

import aiohttp
import orjson

from poseidon_reconciler.app.simulation.weather import Weather
from poseidon_reconciler.nomad.stream import EventStream
from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.documents import frame
from poseidon_reconciler.twin.events import Batch, Cut
from poseidon_reconciler.twin.pipes import FORGOTTEN_S
from poseidon_reconciler.twin.streaming import HEARTBEAT_S

_BEAT: Final = b"{}\n"
_BROKEN: Final = "Response payload is not completed"
_KEPT_LINES: Final = 512


class Lines:
    """The lines of a cluster's batches; each is encoded once, however many read it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lines: dict[int, tuple[Batch, bytes]] = {}

    def of(self, batch: Batch) -> bytes:
        known = self._lines.get(id(batch))
        if known is None:
            line = orjson.dumps(frame(batch, batch.events, self._cluster.traits)) + b"\n"
            # With the batch itself, so that no other one can get its identity.
            known = self._lines[id(batch)] = (batch, line)
            if len(self._lines) > _KEPT_LINES:
                del self._lines[next(iter(self._lines))]
        return known[1]


class Switchboard(Protocol):
    """Where connections are made, and kept as long as they last."""

    cluster: Cluster
    lines: Lines
    connections: list[Connection]


class SimulatedStream(EventStream):
    """The real stream on simulated connections."""

    def __init__(self, board: Switchboard, weather: Weather, **settings: Any) -> None:
        super().__init__(**settings)
        self._board = board
        self._weather = weather

    async def _open_session(self) -> aiohttp.ClientSession:
        return cast("aiohttp.ClientSession", _Session(self._board, self._weather))


class _Session:
    """Stands for a session of aiohttp, of which the stream uses little."""

    def __init__(self, board: Switchboard, weather: Weather) -> None:
        self._board = board
        self._weather = weather

    async def __aenter__(self) -> _Session:
        return self

    async def __aexit__(self, *_: object) -> None:
        """There is nothing to close."""

    async def get(self, _: str, *, params: list[tuple[str, str]], allow_redirects: bool) -> Connection:
        assert not allow_redirects
        await asyncio.sleep(self._weather.lag_s)
        server = self._board.cluster.quorum.servers[self._weather.entry]
        if not server.up or not self._weather.connects():
            raise aiohttp.ClientConnectionError("Connection refused")
        return Connection(self._board, self._weather, int(dict(params).get("index", "0")))


class Connection:
    """One connection, with the answer on it.

    Attributes:
        entry: the server at its other end.
        weather: the network in between.
    """

    status = 200

    def __init__(self, board: Switchboard, weather: Weather, index: int) -> None:
        self.entry = weather.entry
        self.weather = weather
        self._board = board
        self._loop = asyncio.get_running_loop()
        self._cursor = board.cluster.quorum.servers[self.entry].buffer.subscribe(index)
        self._on_the_way: deque[tuple[float, bytes | None]] = deque()
        self._arrived: list[bytes] = []
        self._reader: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._ended = self._silent = self._stalled = self._planned = False
        board.connections.append(self)
        self._beat_timer: asyncio.TimerHandle | None = None
        self._beat()
        self.poke()

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hang_up()

    @property
    def content(self) -> Connection:
        return self

    # -- the reader's end --------------------------------------------------------------------------------------------

    async def readany(self) -> bytes:
        """All bytes that have come in; empty at the end."""
        while not self._arrived:
            if self._error is not None:
                raise self._error
            if self._ended:
                return b""
            self._reader = self._loop.create_future()
            await self._reader
        data = b"".join(self._arrived)
        self._arrived.clear()
        return data

    async def read(self, _: int) -> bytes:
        """The body of a refusal."""
        return b""

    # -- the server's end --------------------------------------------------------------------------------------------

    def poke(self) -> None:
        """The server may have something new to say, or be gone."""
        if self._stalled or self._silent or self._ended or self._error is not None:
            return
        try:
            batches = self._cursor.read()
        except Cut as cut:
            self._cut_off(str(cut))
            return
        for batch in batches:
            self._send(self._board.lines.of(batch))

    def _cut_off(self, text: str) -> None:
        """The server ends the subscription, in the way of its version, or is gone itself."""
        if not self._board.cluster.quorum.servers[self.entry].up:
            self.cut()
        elif self._board.cluster.traits.stream_over == "chunks":
            self._send(text.encode())
            self._send(None)
        else:
            self._silent = True
            self._loop.call_later(FORGOTTEN_S, self._forgotten)
        self._hang_up()

    def _forgotten(self) -> None:
        self._ended = True
        self._wake()

    def _beat(self) -> None:
        self._send(_BEAT)
        self._beat_timer = self._loop.call_later(HEARTBEAT_S, self._beat)

    def _send(self, data: bytes | None) -> None:
        """Puts bytes on the way; None is the end. Nothing overtakes what is on the way already."""
        if self._silent:
            return
        at = self._loop.time() + self.weather.lag_s
        if self._on_the_way:
            at = max(at, self._on_the_way[-1][0])
        self._on_the_way.append((at, data))
        if not self._planned:
            self._planned = True
            self._loop.call_at(at, self._deliver)

    def _deliver(self) -> None:
        self._planned = False
        now = self._loop.time()
        while self._on_the_way and self._on_the_way[0][0] <= now:
            _, data = self._on_the_way.popleft()
            if data is None:
                self._ended = True
            elif self._error is None:
                self._arrived.append(data)
        if self._on_the_way:
            self._planned = True
            self._loop.call_at(self._on_the_way[0][0], self._deliver)
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _hang_up(self) -> None:
        if self._beat_timer is not None:
            self._beat_timer.cancel()
        if self in self._board.connections:
            self._board.connections.remove(self)

    # -- what goes wrong ---------------------------------------------------------------------------------------------

    def cut(self) -> None:
        """The connection breaks, in the middle of what is on its way."""
        if self._on_the_way and (data := self._on_the_way[0][1]) is not None:
            self._arrived.append(data[: len(data) // 2])
        self._on_the_way.clear()
        self._error = aiohttp.ClientPayloadError(_BROKEN)
        self._wake()
        self._hang_up()

    def end(self, text: str = "") -> None:
        """The server ends the answer, perhaps with a text."""
        if text:
            self._send(text.encode())
        self._send(None)
        self._hang_up()

    def spoil(self) -> None:
        """A line that is none comes in between."""
        self._send(b'{"Index":12,"Events":[{"Topic"\n')

    def fall_silent(self) -> None:
        """Nothing comes any more, and nobody says that the connection is gone."""
        self._on_the_way.clear()
        self._silent = True

    def stall(self) -> None:
        """The reader's network takes nothing more for now; the server keeps the reader's place."""
        self._stalled = True

    def go_on(self) -> None:
        """The network takes bytes again, if the server still has them."""
        self._stalled = False
        self.poke()
