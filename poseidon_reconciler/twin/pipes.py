"""How a stream's bytes reach its reader: in chunks as servers up to 1.11.1 do, or over a connection taken out of HTTP.

The newer way loses the ends: the server forgets to close the connection, so a stream that is over just falls silent.
"""

from __future__ import annotations

import asyncio
import zlib
from typing import Protocol

from aiohttp import web

from poseidon_reconciler.twin.clock import Clock

# When a forgotten connection is closed after all (seen: after half a second, 45 s, or not within 100 s).
FORGOTTEN_S = 45.0

_HEADERS = {"Content-Type": "application/json", "Cache-Control": "no-cache"}


class Pipe(Protocol):
    """Sends bytes to one reader."""

    async def open(self, status: int) -> None:
        """Sends the headers."""

    async def write(self, data: bytes) -> None:
        """Sends bytes at once. Raises `ConnectionError` when the reader is gone."""

    async def end(self, text: str) -> None:
        """There is nothing more to say, except perhaps why."""

    def kill(self) -> None:
        """The server is gone."""


class Chunks:
    """A body in chunks, compressed if the reader accepts that; its end is clear."""

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self.response = web.StreamResponse(headers=_HEADERS)
        accepted = request.headers.get("Accept-Encoding", "")
        self._packer = zlib.compressobj(wbits=31) if "gzip" in accepted else None

    async def open(self, status: int) -> None:
        self.response.set_status(status)
        self.response.headers["Vary"] = "Accept-Encoding"
        if self._packer is not None:
            self.response.headers["Content-Encoding"] = "gzip"
        await self.response.prepare(self._request)

    async def write(self, data: bytes) -> None:
        if self._packer is not None:
            data = self._packer.compress(data) + self._packer.flush(zlib.Z_SYNC_FLUSH)
        await self.response.write(data)

    async def end(self, text: str) -> None:
        if text:
            await self.write(text.encode())
        if self._packer is not None:
            await self.response.write(self._packer.flush())
        await self.response.write_eof()

    def kill(self) -> None:
        if self._request.transport is not None:
            self._request.transport.abort()
        raise ConnectionResetError("the server is gone")


class Hijacked:
    """A connection taken out of the server's hands, with a status line of its own."""

    def __init__(self, request: web.Request, protocol: str, clock: Clock) -> None:
        assert request.transport is not None
        self._transport: asyncio.Transport = request.transport
        self._protocol = protocol
        self._clock = clock
        self.response = web.Response()

    async def open(self, status: int) -> None:
        lines = [f"{self._protocol} {status} OK", "Connection: close", *(f"{k}: {v}" for k, v in _HEADERS.items())]
        self._transport.write(("\r\n".join(lines) + "\r\n\r\n").encode())

    async def write(self, data: bytes) -> None:
        if self._transport.is_closing():
            raise ConnectionResetError("the reader is gone")
        self._transport.write(data)
        await asyncio.sleep(0)

    async def end(self, text: str) -> None:  # noqa: ARG002 - these servers do not say why
        await self._clock.sleep(FORGOTTEN_S)
        self._transport.close()

    def kill(self) -> None:
        self._transport.close()
        raise ConnectionResetError("the server is gone")
