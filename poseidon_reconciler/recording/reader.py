"""Recording files → lines with their time, whatever has happened to the file.

A recording comes from a crashed process, a full disk or a copy that broke off, and its good lines are wanted all the
same. What is no recording at all is an error; what is damaged is counted.
"""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import BinaryIO, Final

from poseidon_reconciler.core.events import server_time_s
from poseidon_reconciler.core.framing import LineSplitter
from poseidon_reconciler.core.lines import Line, read_block, read_texts
from poseidon_reconciler.policy import os_reason

_CHUNK_BYTES: Final = 256 * 1024
_GZIP_MAGIC: Final = b"\x1f\x8b"


class RecordingError(Exception):
    """A file that cannot be read as a recording. The text is one line and names the file, and the line where one is
    at fault.
    """


class RecordingReader:
    """Reads one recording after the other.

    Attributes:
        malformed: how many lines, or events of a line, could not be read so far.
        now: the time of the latest line, in seconds; it never goes back. 0 before the first line that tells one.
        warnings: what a person should know of the files, one line each.
    """

    def __init__(self, paths: Iterable[Path], on_bytes: Callable[[int], None] | None = None) -> None:
        """`on_bytes` is told how many bytes of the files themselves were consumed, for a progress bar."""
        self.malformed = 0
        self.now = 0.0
        self.warnings: list[str] = []
        self._paths = list(paths)
        self._on_bytes = on_bytes or (lambda _: None)

    def __iter__(self) -> Iterator[Line]:
        """Yields the lines that can be read.

        Raises:
            RecordingError: a file is missing, unreadable, empty, or has not one line of a recording in it.
        """
        for path in self._paths:
            yield from self._read_file(path)

    def _read_file(self, path: Path) -> Iterator[Line]:
        problem = ""
        usable = False
        number, line = 0, None
        ended_at, begins_at = self.now, 0.0
        for number, line in self._numbered_lines(path):
            if line.malformed is None:
                usable = True
            else:
                problem = problem or f"line {number}: {line.reason}"
                # A recorder's own note of a line that it could not read; one without an envelope has no time.
                usable = usable or line.received_at is not None
            self.malformed += line.faults + (line.malformed is not None)
            at = self._set_clock(line)
            if at and not begins_at:
                begins_at = at
                if at < ended_at:
                    self.warnings.append(
                        f"{path}: begins before the file before it ends; name them as they were recorded"
                    )
            yield line
        if not usable:
            why = f"no recording of an event stream ({problem})" if problem else "empty, so no recording"
            raise RecordingError(f"{path}: {why}")
        if line is not None and line.malformed is not None:
            self.warnings.append(f"{path}: breaks off in line {number}; what followed is missing")

    def _set_clock(self, line: Line) -> float | None:
        """Moves the clock to the line's own time, unless that would be back; returns that time."""
        at = line.received_at if line.received_at is not None else server_time_s(line)
        if at is not None and at > self.now:
            self.now = at
        return at

    def _numbered_lines(self, path: Path) -> Iterator[tuple[int, Line]]:
        first = 1
        for block in self._blocks(path):
            lines = read_block(block)
            numbers = range(first, first + len(lines))
            first += block.count(b"\n")
            if len(lines) != first - numbers.start:
                # Blank lines are not there, but an editor counts them; and one value may have been spread over many.
                lines = [line for line, _ in read_texts(block)]
                texts = enumerate(block.split(b"\n"), numbers.start)
                yield from zip((number for number, text in texts if text.strip()), lines, strict=True)
            else:
                yield from zip(numbers, lines, strict=True)

    def _blocks(self, path: Path) -> Iterator[bytes]:
        splitter = LineSplitter()
        try:
            with _open(path) as file:
                for chunk in self._chunks(file):
                    yield splitter.feed(chunk)
        except OSError as error:
            raise RecordingError(f"{path}: {os_reason(error)}") from None
        yield splitter.close()

    def _chunks(self, file: BinaryIO) -> Iterator[bytes]:
        """The content, unpacked if it is gzip; a packed file that breaks off ends where it breaks off."""
        counted = io.BufferedReader(_Counted(file, self._on_bytes), _CHUNK_BYTES)
        if counted.peek(len(_GZIP_MAGIC))[: len(_GZIP_MAGIC)] != _GZIP_MAGIC:
            while chunk := counted.read(_CHUNK_BYTES):
                yield chunk
            return
        with gzip.GzipFile(fileobj=counted) as unpacked:
            try:
                while chunk := unpacked.read1(_CHUNK_BYTES):
                    yield chunk
            except (EOFError, zlib.error, gzip.BadGzipFile):
                # Ends the line that was cut as well, so that it is counted once.
                yield b"\x00\n"


def _open(path: Path) -> AbstractContextManager[BinaryIO]:
    """A file, or what comes in where the path is `-`."""
    return nullcontext(sys.stdin.buffer) if str(path) == "-" else path.open("rb")


class _Counted(io.RawIOBase):
    """A file that tells how much was read of it."""

    def __init__(self, file: BinaryIO, on_bytes: Callable[[int], None]) -> None:
        self._file = file
        self._on_bytes = on_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        self._on_bytes(len(data))
        return len(data)
