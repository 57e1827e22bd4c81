"""A recording of a live cluster while it is made: the stream and the lists, to a recorder.

As in a running reconciler, what a new connection brings is held back until lists are read, and follows them: whoever
plays a recording decides by what it tells, and half of a cluster would mislead. For the same reason another file begins
with lists, and with all that came while they were read.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing, suppress
from typing import Final

from poseidon_reconciler.app.running import StartError
from poseidon_reconciler.app.start import hopeless
from poseidon_reconciler.core.wording import counted
from poseidon_reconciler.nomad.api import Api
from poseidon_reconciler.nomad.items import Closed, FrameReceived, Gap, Heartbeat, Item, MalformedLine, Opened
from poseidon_reconciler.nomad.raw_lists import RawListReader, RawLists
from poseidon_reconciler.nomad.stream import EventStream
from poseidon_reconciler.recording.recorder import Recorder

# How long, and how much of it, a stream may wait for its lists. Then it is recorded without them.
_HELD_S: Final = 60.0
_HELD_BYTES: Final = 32 * 1024 * 1024
_FIRST_RETRY_S: Final = 1.0
_LONGEST_RETRY_S: Final = 60.0
_LOOK_S: Final = 0.5
_PAUSE_S: Final = 3.0
_HEARTBEAT: Final = b"{}"
_NEEDED: Final = ("Jobs", "Allocations", "Evaluations")


class Recording:
    """Follows one cluster until it is stopped.

    Attributes:
        connections: how many were opened.
    """

    def __init__(
        self,
        recorder: Recorder,
        stream: EventStream,
        api: Api,
        *,
        address: str,
        resync_interval_s: float,
        note: Callable[[str, str], None],
        clock: Callable[[], float] = time.time,
        speed: float = 1.0,
    ) -> None:
        """`clock` tells the time in seconds since the epoch, and goes `speed` times as fast as the loop's own; `note`
        is told what goes on.
        """
        self.connections = 0
        self._recorder = recorder
        self._stream = stream
        self._api = api
        self._reader = RawListReader(api)
        self._address = address
        self._resync_interval_s = resync_interval_s
        self._note = note
        self._clock = clock
        self._speed = speed
        self._stopped = asyncio.Event()
        self._connected = False
        self._lists_wanted = asyncio.Event()
        # Lines that wait for lists; None while none have to.
        self._held: list[tuple[bytes, float]] | None = None
        self._held_bytes = 0

    def stop(self) -> None:
        """Ends it in order."""
        self._stopped.set()

    async def run(self) -> None:
        """Records until it is stopped.

        Raises:
            StartError: there is no use in waiting for this cluster.
        """
        try:
            async with asyncio.TaskGroup() as group:
                parts = [group.create_task(self._follow_stream()), group.create_task(self._follow_lists())]
                await self._stopped.wait()
                for part in parts:
                    part.cancel()
        except* StartError as errors:
            raise errors.exceptions[0] from None
        finally:
            self._release()
            await self._api.close()

    # --- the stream -------------------------------------------------------------------------------------------------

    async def _follow_stream(self) -> None:
        async with aclosing(self._stream.items()) as items:
            async for item in items:
                if isinstance(item, Closed) and not self.connections and (why := hopeless(self._address, item)):
                    raise StartError(why)
                self._take(item)

    def _take(self, item: Item) -> None:
        match item:
            case FrameReceived():
                self._frame(item.data, item.received_at)
                if item.line.faults:
                    self._ask("events of a line could not be read")
            case Heartbeat():
                self._frame(_HEARTBEAT, item.received_at)
            case MalformedLine():
                self._recorder.malformed(item.prefix, item.received_at)
                self._ask("a line of the stream could not be read")
            case Gap():
                self._ask(f"the stream went on at index {item.first}, not at {item.expected}")
            case Opened():
                self.connections += 1
                self._connected = True
                self._release()
                self._recorder.connection("opened", "", item.at)
                self._hold()
                self._ask("the stream is open")
            case Closed():
                self._connected = False
                self._release()
                self._recorder.connection("closed", f"{item.kind}: {item.reason}", item.at)
                self._note("stream-closed", f"{item.kind}: {item.reason}; next attempt in {item.retry_in_s:.1f} s")

    def _frame(self, data: bytes, at: float) -> None:
        if self._held is None:
            self._recorder.frame(data, at)
            return
        self._held.append((data, at))
        self._held_bytes += len(data)
        if self._held_bytes > _HELD_BYTES or at - self._held[0][1] > _HELD_S * self._speed:
            self._release()

    def _hold(self) -> None:
        if self._held is None:
            self._held, self._held_bytes = [], 0

    def _release(self) -> None:
        held, self._held = self._held or (), None
        for data, at in held:
            self._recorder.frame(data, at)

    # --- the lists --------------------------------------------------------------------------------------------------

    def _ask(self, why: str) -> None:
        self._note("reading-lists", why)
        self._lists_wanted.set()

    async def _follow_lists(self) -> None:
        while True:
            await self._until_wanted()
            if self._recorder.wants_snapshot:
                self._hold()
            lists = await self._read_lists()
            if lists is not None and not self._lists_wanted.is_set() and self._connected:
                self._take_lists(lists)

    async def _until_wanted(self) -> None:
        """Until somebody asks, another file is to begin, or the lists have become old."""
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        while not self._lists_wanted.is_set():
            waited_s = loop.time() - began_at
            # The recorder may not have come to the last lists yet, or be too slow for any.
            begins_file = self._recorder.wants_snapshot and waited_s >= _PAUSE_S
            if self._connected and (begins_file or waited_s >= self._resync_interval_s / self._speed):
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await self._lists_wanted.wait()

    async def _read_lists(self) -> RawLists | None:
        """Reads until enough could be read; None if by then they say nothing about the present connection."""
        wait_s = _FIRST_RETRY_S
        while True:
            self._lists_wanted.clear()
            lists = await self._reader.read()
            if not any(table in lists.failures for table in _NEEDED):
                return lists
            self._note("lists-not-read", "; ".join(f"{t}: {failure.detail}" for t, failure in lists.failures.items()))
            if not self._connected:
                return None
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_RETRY_S)

    def _take_lists(self, lists: RawLists) -> None:
        complete = self._held is not None
        at = self._clock()
        if self._recorder.snapshot(lists.members, lists.indexes, at, may_begin_file=complete):
            self._note("lists-read", f"{counted(sum(map(len, lists.members.values())), 'object')}")
        self._release()
