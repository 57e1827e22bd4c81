"""A recording on the disk as a row of files: the one that is written, and numbered ones before it.

A file that is full is closed and given the next number, and a new one begins under the name that was asked for. So the
names in their order are the order in time, also for a shell's `recording*.ndjson.gz`, and a recording that is there
when the program starts is never written over. What a killed process had flushed stays readable: gzip is flushed at a
block's end, and a file that breaks off there is only short of its last seconds.
"""

from __future__ import annotations

import errno
import fcntl
import gzip
import os
import re
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

_LEVEL: Final = 6
_FLUSH_S: Final = 2.0


class RecordingFiles:
    """Writes one recording.

    Attributes:
        files: how many files were begun.
        bytes_written: how large they are together, as far as that is known (gzip tells after a flush).
    """

    def __init__(
        self,
        path: Path,
        *,
        max_bytes: int,
        max_age_s: float,
        keep: int,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """A file is full at `max_bytes` (on the disk) or `max_age_s` seconds; `keep` of them are kept, the oldest goes
        first.
        """
        self.files = 0
        self._path = path
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._keep = keep
        self._monotonic = monotonic
        self._raw: BinaryIO | None = None
        self._file: BinaryIO | gzip.GzipFile | None = None
        self._began_at = self._flushed_at = 0.0
        self._closed_bytes = 0
        self._lines = 0
        self._dirty = False

    @property
    def is_full(self) -> bool:
        """Whether another file should begin."""
        if self._raw is None or not self._lines:
            return False
        return self._raw.tell() >= self._max_bytes or self._monotonic() - self._began_at >= self._max_age_s

    @property
    def bytes_written(self) -> int:
        return self._closed_bytes + (self._raw.tell() if self._raw is not None and not self._raw.closed else 0)

    def begin(self) -> None:
        """Begins another file.

        Raises:
            OSError: it cannot be written, or the present one not be finished.
        """
        self.close()
        self._refuse_what_another_writes()
        self._number_the_last()
        self._raw = os.fdopen(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        # A network's file system may know no locks.
        with suppress(OSError):
            fcntl.flock(self._raw, fcntl.LOCK_EX | fcntl.LOCK_NB)
        packed = self._path.suffix == ".gz"
        self._file = gzip.GzipFile("", "wb", _LEVEL, self._raw, mtime=0) if packed else self._raw
        self._began_at = self._flushed_at = self._monotonic()
        self._lines = 0
        self.files += 1

    def write(self, line: bytes) -> None:
        """Adds a line, which needs no newline.

        Raises:
            OSError: it cannot be written.
        """
        assert self._file is not None, "no file was begun"
        self._file.write(line + b"\n")
        self._lines += 1
        self._dirty = True
        self.flush_if_due()

    def flush_if_due(self) -> None:
        """Gives to the system what has waited for some seconds.

        Raises:
            OSError: it cannot be written.
        """
        now = self._monotonic()
        if not self._dirty or now - self._flushed_at < _FLUSH_S or self._file is None:
            return
        if isinstance(self._file, gzip.GzipFile):
            self._file.flush(zlib.Z_SYNC_FLUSH)
        else:
            self._file.flush()
        self._flushed_at, self._dirty = now, False

    def close(self) -> None:
        """Finishes the present file; one with nothing in it is removed.

        Raises:
            OSError: its end cannot be written; it is closed all the same.
        """
        if self._raw is None or self._file is None:
            return
        raw, file, self._raw, self._file = self._raw, self._file, None, None
        with raw:
            file.close()
        if self._lines:
            self._closed_bytes += self._path.stat().st_size
        else:
            self._path.unlink()
            self.files -= 1

    def _refuse_what_another_writes(self) -> None:
        """Whoever writes a file holds its lock, which ends with the process: two of them would rename and remove each
        other's files.
        """
        if not self._path.is_file():
            return
        with self._path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise OSError(errno.EBUSY, "another recorder writes it") from None
            except OSError:
                return

    def _number_the_last(self) -> None:
        """Gives the file that has our name the next number, and removes the oldest ones."""
        numbered = sorted(self._numbered())
        if self._path.exists():
            if self._path.stat().st_size:
                number = numbered[-1][0] + 1 if numbered else 1
                target = self._path.with_name(f"{self._stem}.{number:04}{self._suffixes}")
                self._path.rename(target)
                numbered.append((number, target))
            else:
                self._path.unlink()
        for _, path in numbered[: max(0, len(numbered) - self._keep + 1)]:
            path.unlink(missing_ok=True)

    def _numbered(self) -> list[tuple[int, Path]]:
        name = re.compile(rf"{re.escape(self._stem)}\.(\d{{4,9}}){re.escape(self._suffixes)}")
        matches = ((name.fullmatch(path.name), path) for path in self._path.parent.iterdir())
        return [(int(match[1]), path) for match, path in matches if match is not None]

    @property
    def _suffixes(self) -> str:
        kept = self._path.suffixes[-2:] if self._path.suffix == ".gz" else self._path.suffixes[-1:]
        return "".join(kept)

    @property
    def _stem(self) -> str:
        return self._path.name.removesuffix(self._suffixes) if self._suffixes else self._path.name
