"""The event stream over HTTP: one line of JSON for each batch of events, `{}` when there is nothing to say.

It ends in the ways that real streams do: with a bare text after the last line, in the middle of one, or just so.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import orjson
from msgspec import Struct

from poseidon_reconciler.twin.documents import frame
from poseidon_reconciler.twin.driver import Driver
from poseidon_reconciler.twin.events import Batch, Cut, Event
from poseidon_reconciler.twin.faults import StreamFault
from poseidon_reconciler.twin.pipes import Pipe
from poseidon_reconciler.twin.quorum import Server

HEARTBEAT_S = 30.0
CLOSED = "subscription closed by server, client should resubscribe"


class Topics(Struct, frozen=True):
    """What a reader asked for: topics, and for each the keys (`*` is any)."""

    wanted: tuple[tuple[str, str], ...]
    namespace: str

    @classmethod
    def of(cls, topics: list[str], namespace: str) -> Topics:
        """Reads `Topic:key` filters; a topic without a key means all of it, no topic means everything."""
        pairs = [topic.partition(":") for topic in topics]
        wanted = tuple((topic, key or "*") for topic, _, key in pairs) or (("*", "*"),)
        return cls(wanted, namespace)

    def select(self, batch: Batch) -> list[Event]:
        """The events of a batch that were asked for."""
        return [event for event in batch.events if self._wants(event)]

    def _wants(self, event: Event) -> bool:
        if event.namespace not in {"", self.namespace} and self.namespace != "*":
            return False
        keys = {event.key, *(event.filter_keys or ())}
        return any(topic in {"*", event.topic} and (key == "*" or key in keys) for topic, key in self.wanted)


class Stream:
    """One reader's stream. `allowed` says whether it may still be read, `fault` what goes wrong, if anything."""

    def __init__(
        self, driver: Driver, server: Server, topics: Topics, allowed: Callable[[], bool], fault: StreamFault | None
    ) -> None:
        self._driver = driver
        self._server = server
        self._topics = topics
        self._allowed = allowed
        self._fault = fault
        self._frames = 0

    async def serve(self, pipe: Pipe, index: int, *, status: int = 200) -> None:
        """Sends the stream from an index on, until the reader goes, the server does, or a fault ends it."""
        with contextlib.suppress(ConnectionError):
            await pipe.open(status)
            await pipe.end(await self._send(pipe, index))

    async def _send(self, pipe: Pipe, index: int) -> str:
        """Sends lines; says with which text the stream ends."""
        cursor = self._server.buffer.subscribe(index)
        await pipe.write(b"{}\n")
        clock = self._driver.clock
        beat_at = clock.now() + HEARTBEAT_S
        while True:
            try:
                batches = cursor.read()
            except Cut as cut:
                if not self._server.up:
                    pipe.kill()
                return str(cut)
            if not self._allowed():
                return CLOSED
            for batch in batches:
                end = await self._send_batch(pipe, batch)
                if end is not None:
                    return end
            changed = await self._driver.change(max(0.0, beat_at - clock.now()))
            if not changed:
                await pipe.write(b"{}\n")
                beat_at = clock.now() + HEARTBEAT_S

    async def _send_batch(self, pipe: Pipe, batch: Batch) -> str | None:
        """Sends what was asked for of a batch; gives the text with which the stream ends, if it does."""
        events = self._topics.select(batch)
        if not events:
            return None
        line = orjson.dumps(frame(batch, events, self._driver.cluster.traits)) + b"\n"
        if self._fault is not None and self._frames >= self._fault.after_frames:
            end = await self._go_wrong(self._fault, pipe, line)
            if end is not None:
                return end
        self._frames += 1
        await pipe.write(line)
        return None

    async def _go_wrong(self, fault: StreamFault, pipe: Pipe, line: bytes) -> str | None:
        """Does what the fault says instead of a line; `None` if the stream goes on with it."""
        self._fault = None
        match fault.kind:
            case "cut":
                await pipe.write(line[: len(line) // 2])
                pipe.kill()
            case "oversized":
                await pipe.write(b'{"Index":1,"Events":["' + b"x" * fault.size + b'"]}\n')
                return None
            case "garbage":
                await pipe.write((fault.text or "this is no JSON").encode() + b"\n")
                return None
            case "silence":
                await asyncio.Event().wait()
        return fault.text
