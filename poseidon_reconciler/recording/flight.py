"""The flight recorder's memory: what a core was told last, packed, in no more space than it was given.

It consists of segments, each of which begins with a snapshot and can be played without those before it; the oldest goes
first. What is added waits as it came, so that adding costs next to nothing, until a thread packs it. It is scrubbed
only when it is written to the disk: until then it is as secret as the rest of the process's memory.
"""

from __future__ import annotations

import gzip
import os
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple

import orjson

from poseidon_reconciler.recording.scrub import scrub_line

SUFFIX: Final = ".ndjson.gz"
_CHUNK_BYTES: Final = 256 * 1024
_ENTRY_BYTES: Final = 120
# Packing must keep pace with the stream; level 1 makes a tenth of it at 150 MB/s and more.
_LEVEL: Final = 1
_BREATH_S: Final = 0.01

Key = Literal["Frame", "Snapshot", "Told", "Connection"]


class Entry(NamedTuple):
    """What the core was told at a time: the name of the line's value, and that as JSON. `told` is the mark of a line
    that has another value.
    """

    at: float
    key: Key
    value: bytes
    told: bytes = b"{}"

    def line(self) -> bytes:
        """The line of a recording."""
        told = b"" if self.key == "Told" else b'"Told":%b,' % self.told
        return b'{"ReceivedAt":%b,%b"%b":%b}\n' % (repr(self.at).encode(), told, self.key.encode(), self.value)


class Packed(NamedTuple):
    """Lines, packed together; some of them begin a segment."""

    begins_segment: bool
    data: bytes


@dataclass(slots=True)
class _Segment:
    chunks: list[bytes] = field(default_factory=list)
    size: int = 0


class FlightRing:
    """Holds at most `max_bytes`.

    Attributes:
        is_whole: whether it reaches back to the beginning.
        waiting_bytes: how much is there that was not packed yet.
        overruns: how often all was dropped, because one segment alone was too large, or packing too slow.
        has_snapshot: whether there was ever anything to see.
    """

    def __init__(self, max_bytes: int) -> None:
        self.is_whole = True
        self.waiting_bytes = 0
        self.overruns = 0
        self.has_snapshot = False
        self._max_bytes = max_bytes
        self._waiting: list[Entry] = []
        self._packing: list[Entry] = []
        self._packing_bytes = 0
        self._segments: deque[_Segment] = deque([_Segment()])
        self._size = 0
        self._wants_snapshot = False

    @property
    def size(self) -> int:
        """All that it takes, in bytes."""
        return self._size + self.waiting_bytes + self._packing_bytes

    def add(self, entry: Entry) -> None:
        """The core is told something."""
        if entry.key == "Snapshot":
            self._wants_snapshot, self.has_snapshot = False, True
        elif self._wants_snapshot:
            return
        self._waiting.append(entry)
        self.waiting_bytes += len(entry.value) + _ENTRY_BYTES
        if self.size > self._max_bytes:
            self._make_room()

    def take_waiting(self) -> list[Entry]:
        """What is to be packed now, with what was taken before and never put."""
        self._packing += self._waiting
        self._packing_bytes += self.waiting_bytes
        self._waiting, self.waiting_bytes = [], 0
        return list(self._packing)

    def put(self, packed: Iterable[Packed]) -> None:
        """What was taken to be packed, packed."""
        if self._packing:
            for begins_segment, data in packed:
                if begins_segment:
                    self._segments.append(_Segment())
                segment = self._segments[-1]
                segment.chunks.append(data)
                segment.size += len(data)
                self._size += len(data)
        self._packing, self._packing_bytes = [], 0
        if self.size > self._max_bytes:
            self._make_room()

    def chunks(self) -> list[bytes]:
        """All that was packed, for `write_flight`."""
        return [chunk for segment in self._segments for chunk in segment.chunks]

    def forget(self) -> None:
        """Drops everything, and takes nothing in until the next snapshot."""
        self._waiting, self._packing = [], []
        self._segments = deque([_Segment()])
        self._size = self.waiting_bytes = self._packing_bytes = 0
        self._wants_snapshot = True
        self.is_whole = False
        self.overruns += 1

    def _make_room(self) -> None:
        while self.size > self._max_bytes and len(self._segments) > 1:
            self._size -= self._segments.popleft().size
            self.is_whole = False
        if self.size > self._max_bytes:
            self.forget()


def pack(entries: Iterable[Entry]) -> list[Packed]:
    """Packs entries; a snapshot begins a segment. May run on any thread."""
    packed: list[Packed] = []
    lines: list[bytes] = []
    size, begins = 0, False

    def flush() -> None:
        nonlocal lines, size, begins
        if lines:
            packed.append(Packed(begins, zlib.compress(b"".join(lines), _LEVEL)))
        lines, size, begins = [], 0, False

    for entry in entries:
        if entry.key == "Snapshot":
            flush()
            begins = True
        lines.append(entry.line())
        size += len(lines[-1])
        if size >= _CHUNK_BYTES:
            flush()
    flush()
    return packed


def write_flight(
    chunks: Iterable[bytes],
    path: Path,
    *,
    keep: int,
    first: bytes = b"",
    breathe: Callable[[float], None] = time.sleep,
) -> None:
    """Writes a recording of what was packed, without its secrets, and removes the oldest ones beyond `keep`. The line
    `first` is put before it.

    For a thread of its own: it lets the others have their turns in between, because they share one interpreter.

    Raises:
        OSError: it cannot be written; nothing is left of it.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_suffix(".new")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as file:
            file.write(first)
            for chunk in chunks:
                for line in zlib.decompress(chunk).removesuffix(b"\n").split(b"\n"):
                    file.write(_scrubbed(line) + b"\n")
                breathe(_BREATH_S)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    flights = sorted(path.parent.glob(f"*{SUFFIX}"))
    for old in flights[: max(0, len(flights) - keep)]:
        old.unlink(missing_ok=True)


def _scrubbed(line: bytes) -> bytes:
    try:
        return orjson.dumps(scrub_line(orjson.loads(line)))
    except ValueError:
        # Its bytes may hold anything, and nothing of them can be told from a secret.
        return b'{"Told":{},"Malformed":"a line that could not be scrubbed"}'
