"""The bytes of one connection → items, and at its end what kind of end it was. Sans I/O.

The server never says that it left something out. The first line tells: it must be of the index at which we resumed.
"""

from __future__ import annotations

from typing import Final

from poseidon_reconciler.core.framing import LineSplitter
from poseidon_reconciler.core.lines import Line, is_heartbeat, read_texts
from poseidon_reconciler.nomad.items import Ending, FrameReceived, Gap, Heartbeat, Item, MalformedLine, ending_of_tail

_SHOWN_BYTES: Final = 200


class StreamReader:
    """Reads one connection that resumes at `last_index` (None: wherever the server starts).

    Attributes:
        last_index: the index of the last line.
        heard: whether anything came that only an event stream says.
        oversized: whether a line is beyond the bound. The connection is of no use then.
    """

    def __init__(self, last_index: int | None, max_line_bytes: int) -> None:
        self.last_index = last_index
        self.heard = False
        self._expected = last_index
        self._max_line_bytes = max_line_bytes
        self._splitter = LineSplitter(max_line_bytes)
        self._unfinished_bytes = 0
        self._malformed = False

    @property
    def oversized(self) -> bool:
        return self._splitter.oversized > 0 or self._unfinished_bytes > self._max_line_bytes

    @property
    def in_a_line(self) -> bool:
        """Whether the last bytes were the beginning of a line."""
        return self._unfinished_bytes > 0

    def feed(self, data: bytes, now: float) -> list[Item]:
        """Takes the next bytes, received at `now`."""
        newline = data.rfind(b"\n")
        # A line that never ends is never given out: its length must be watched here.
        self._unfinished_bytes = len(data) - newline - 1 if newline >= 0 else self._unfinished_bytes + len(data)
        block = self._splitter.feed(data)
        return [item for line, text in read_texts(block) for item in self._items_of(line, text, now)]

    def close(self, now: float) -> tuple[list[Item], Ending, str]:
        """Ends the input; returns what was still in it, the kind of its end, and what stood there."""
        rest = self._splitter.close()
        items = [item for line, text in read_texts(rest) for item in self._items_of(line, text, now)]
        if any(isinstance(item, MalformedLine) for item in items):
            text = " ".join(rest[-_SHOWN_BYTES:].decode("utf-8", "replace").split())
            return [], *ending_of_tail(text)
        if self.heard:
            return items, "eof", "the server has ended the stream"
        if self._malformed:
            return items, "not-nomad", "200, but this is no event stream"
        return items, "nothing", "200 and then nothing: the token may lack the right to read"

    def _items_of(self, line: Line, data: bytes, now: float) -> list[Item]:
        if line.index < 0 and not is_heartbeat(line):
            self._malformed = True
            return [MalformedLine(line.malformed or "a line of a recording", now)]
        self.heard = True
        if line.index < 0:
            return [Heartbeat(now)]
        self.last_index = line.index
        expected, self._expected = self._expected, None
        if expected is None or expected == line.index:
            return [FrameReceived(line, now, data)]
        return [Gap(expected, line.index, now), FrameReceived(line, now, data)]
