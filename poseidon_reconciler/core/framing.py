"""Bytes in any pieces → whole lines, with a bound on what an endless line can cost.

Sans I/O: the stream feeds it what the socket gave, a recording what the file gave. A line beyond the bound is cut
to its beginning, which is no JSON any more: whoever reads it counts a malformed line, like for any other garbage.
"""

from __future__ import annotations

from typing import Final

# The largest line seen on a real server had 391 kB; thousands of allocations in one Raft entry make several MB.
MAX_LINE_BYTES: Final = 32 * 1024 * 1024
_KEPT_OF_OVERSIZED: Final = 200


class LineSplitter:
    """Splits a byte stream at newlines. `oversized` counts the lines that were cut."""

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self.oversized = 0
        self._max_line_bytes = max_line_bytes
        self._pieces: list[bytes] = []
        self._pending_bytes = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Takes the next bytes; returns the lines that they complete, without their newlines and without empty ones."""
        first, *rest = data.split(b"\n")
        self._keep(first)
        if not rest:
            return []
        lines = [self._take()]
        tail = rest.pop()
        lines += rest if len(data) <= self._max_line_bytes else [self._bounded(line) for line in rest]
        self._keep(tail)
        return [line for line in lines if line and not line.isspace()]

    def close(self) -> list[bytes]:
        """Ends the input; returns what stood after the last newline, if anything."""
        line = self._take()
        return [line] if line and not line.isspace() else []

    def _keep(self, piece: bytes) -> None:
        room = self._max_line_bytes - self._pending_bytes
        self._pending_bytes += len(piece)
        if piece and room > 0:
            self._pieces.append(piece[: room + 1])

    def _take(self) -> bytes:
        line = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces, self._pending_bytes = [], 0
        return self._bounded(line)

    def _bounded(self, line: bytes) -> bytes:
        if len(line) <= self._max_line_bytes:
            return line
        self.oversized += 1
        return line[:_KEPT_OF_OVERSIZED]
