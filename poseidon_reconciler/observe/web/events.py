"""The status as it changes, pushed to everybody who looks (server-sent events).

All clients get the same bytes, made once. A client that does not read is dropped when its short queue is full, one that
vanished when its connection does not answer, and beyond a fixed number nobody is let in: what watches a reconciler must
never cost it its memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any, Final

import orjson
from aiohttp import web

from poseidon_reconciler.observe.web.status import Status

MAX_CLIENTS: Final = 128
_LOOK_EACH_S: Final = 0.5
_LEAST_BETWEEN_S: Final = 0.25
_QUEUED_FRAMES: Final = 16
_HEARTBEAT_S: Final = 15.0
_WRITE_TIMEOUT_S: Final = 20.0
_RETRY_MS: Final = 2000
# A browser comes back by itself; what stands between us and it may have forgotten the connection.
_LONGEST_S: Final = 3600.0
_HEARTBEAT: Final = b": still here\n\n"


class Events:
    """Pushes changes to the clients that are connected."""

    def __init__(self, status: Status) -> None:
        self._status = status
        self._sent: dict[str, Any] | None = None
        self._changed = asyncio.Event()
        self._clients: set[_Client] = set()

    @property
    def clients(self) -> int:
        """How many are connected."""
        return len(self._clients)

    def changed(self) -> None:
        """Something may be different now."""
        self._changed.set()

    async def run(self) -> None:
        """Pushes until it is cancelled. What changes with time alone is found by looking."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_EACH_S):
                    await self._changed.wait()
            self._changed.clear()
            if self._clients:
                self._push()
            else:
                self._sent = None
            await asyncio.sleep(_LEAST_BETWEEN_S)

    def close(self) -> None:
        """Ends all connections."""
        for client in list(self._clients):
            client.drop()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Keeps a client informed until it goes."""
        if len(self._clients) >= MAX_CLIENTS:
            return web.json_response({"error": f"{MAX_CLIENTS} clients are connected already"}, status=503)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
        if self._sent is None:
            self._sent = self._status.document()
        client = _Client(request)
        client.offer(b"retry: %d\n\n" % _RETRY_MS + _event("status", self._sent))
        self._clients.add(client)
        try:
            await response.prepare(request)
            async with asyncio.timeout(_LONGEST_S):
                await client.write_to(response)
        except (TimeoutError, ConnectionError):
            client.drop()
        finally:
            self._clients.discard(client)
        return response

    def _push(self) -> None:
        document = self._status.document()
        change = _difference(self._sent or {}, document)
        self._sent = document
        if change:
            frame = _event("change", change)
            for client in list(self._clients):
                client.offer(frame)


class _Client:
    def __init__(self, request: web.Request) -> None:
        self._transport = request.transport
        self._frames: asyncio.Queue[bytes] = asyncio.Queue(_QUEUED_FRAMES)
        if self._transport is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
            # Who is gone without a word, or reads nothing, is gone for the kernel after that.
            connection = self._transport.get_extra_info("socket")
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(_WRITE_TIMEOUT_S * 1000))

    def offer(self, frame: bytes) -> None:
        """Queues a frame; who lets too many pile up is dropped."""
        try:
            self._frames.put_nowait(frame)
        except asyncio.QueueFull:
            self.drop()

    def drop(self) -> None:
        """Ends the connection without waiting for what was not read."""
        if self._transport is not None:
            self._transport.abort()

    async def write_to(self, response: web.StreamResponse) -> None:
        while True:
            try:
                async with asyncio.timeout(_HEARTBEAT_S):
                    frame = await self._frames.get()
            except TimeoutError:
                frame = _HEARTBEAT
            async with asyncio.timeout(_WRITE_TIMEOUT_S):
                await response.write(frame)


def _difference(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """The parts that are different, whole, and the time; of environments only those, None for one that is gone."""
    parts = {name: part for name, part in now.items() if name != "at" and part != before.get(name)}
    if "environments" in parts:
        old, new = before.get("environments", {}), now["environments"]
        changed: dict[str, Any] = {id_: row for id_, row in new.items() if row != old.get(id_)}
        parts["environments"] = changed | dict.fromkeys(old.keys() - new.keys())
    return {"at": now["at"], **parts} if parts else {}


def _event(name: str, document: dict[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), orjson.dumps(document))
