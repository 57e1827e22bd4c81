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
    """Cuts a byte stream at newlines. `oversized` counts the lines that were cut short."""

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self.oversized = 0
        self._max_line_bytes = max_line_bytes
        self._pieces: list[bytes] = []
        self._pending_bytes = 0

    def feed(self, data: bytes) -> bytes:
        """Takes the next bytes; returns the whole lines that there are by now, each with its newline."""
        end = data.rfind(b"\n") + 1
        if not end:
            self._keep(data)
            return b""
        if self._pending_bytes + end <= self._max_line_bytes:
            self._pieces.append(data[:end])
            block = b"".join(self._pieces)
        else:
            block = self._bounded(data, end)
        self._pieces, self._pending_bytes = [], 0
        self._keep(data[end:])
        return block

    def close(self) -> bytes:
        """Ends the input; returns what stood after the last newline, with a newline, or nothing."""
        return self.feed(b"\n") if self._pending_bytes else b""

    def _keep(self, piece: bytes) -> None:
        if self._pending_bytes <= self._max_line_bytes:
            self._pieces.append(piece)
        self._pending_bytes += len(piece)

    def _bounded(self, data: bytes, end: int) -> bytes:
        """The whole lines, one by one, because one of them may be too long."""
        first, *rest = data[: end - 1].split(b"\n")
        lines = [(b"".join(self._pieces) + first, self._pending_bytes + len(first))]
        lines += [(line, len(line)) for line in rest]
        kept = []
        for line, length in lines:
            if length > self._max_line_bytes:
                self.oversized += 1
                line = line[:_KEPT_OF_OVERSIZED]  # noqa: PLW2901
            kept.append(line)
        return b"\n".join(kept) + b"\n"
