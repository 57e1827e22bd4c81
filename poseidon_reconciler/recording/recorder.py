"""Lines to a recording without making anybody wait: a bounded queue, and a thread that scrubs, packs and writes.

Whoever records goes on whatever the disk does. When the queue is full, lines are dropped until a snapshot can begin
another file: a recording with a hole in it would tell a wrong story, two recordings tell two right ones.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import orjson

from poseidon_reconciler.core.wording import counted
from poseidon_reconciler.policy import os_reason
from poseidon_reconciler.recording.files import RecordingFiles
from poseidon_reconciler.recording.scrub import scrub_line

MAX_WAITING_BYTES: Final = 64 * 1024 * 1024
_IDLE_S: Final = 1.0
_ENTRY_BYTES: Final = 200
_SHOWN_CHARACTERS: Final = 200

Members = Sequence[tuple[bytes, ...]]
"""Objects as JSON, each a document and then what is newer of it."""


@dataclass(frozen=True, slots=True)
class _Frame:
    at: float
    data: bytes


@dataclass(frozen=True, slots=True)
class _Note:
    at: float
    what: dict[str, str]


@dataclass(frozen=True, slots=True)
class _Snapshot:
    at: float
    tables: Mapping[str, Members]
    indexes: Mapping[str, int]
    may_begin_file: bool
    dropped: int


_Entry = _Frame | _Note | _Snapshot


class Recorder:
    """Records from the moment it is started; its methods are called from one thread and return at once.

    Attributes:
        frames, snapshots: how many were handed in and not dropped.
        dropped: how many lines were dropped.
        unreadable: how many lines could not be scrubbed, and are recorded as malformed.
        wants_snapshot: whether another file is to begin, for which a snapshot is needed.
        problem: why nothing can be written any more, in one line.
    """

    def __init__(
        self,
        files: RecordingFiles,
        *,
        name: str,
        on_problem: Callable[[], object] = lambda: None,
        max_waiting_bytes: int = MAX_WAITING_BYTES,
    ) -> None:
        """`name` is that of the recording in a problem; `on_problem` is called from the recorder's own thread."""
        self.frames = self.snapshots = self.dropped = self.unreadable = 0
        self.problem: str | None = None
        self._files = files
        self._name = name
        self._on_problem = on_problem
        self._max_waiting_bytes = max_waiting_bytes
        self._queue: queue.SimpleQueue[tuple[_Entry, int] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting_bytes = 0
        self._dropping = 0
        self._is_full = False
        self._thread = threading.Thread(target=self._write_all, name="recorder", daemon=True)

    @property
    def wants_snapshot(self) -> bool:
        return self._is_full or self._dropping > 0

    def start(self) -> None:
        """Begins the first file.

        Raises:
            OSError: it cannot be written.
        """
        self._files.begin()
        self._thread.start()

    def frame(self, data: bytes, at: float) -> None:
        """A line of the stream, as it was sent; `at` is when it was received, in seconds."""
        self.frames += self._put(_Frame(at, data), len(data))

    def connection(self, state: str, reason: str, at: float) -> None:
        """A connection was `opened` or `closed`."""
        self._put(_Note(at, {"Connection": state, "Reason": reason}), len(reason))

    def malformed(self, prefix: str, at: float) -> None:
        """A line could not be read; `prefix` is its beginning."""
        self._put(_Note(at, {"Malformed": prefix[:_SHOWN_CHARACTERS]}), len(prefix))

    def snapshot(
        self, tables: Mapping[str, Members], indexes: Mapping[str, int], at: float, *, may_begin_file: bool
    ) -> bool:
        """Lists that were read by `at`; returns whether they will be written.

        `may_begin_file`: whether all lines that have come since they were asked for follow, and none of them was
        handed in before: then they may stand at the beginning of a file.
        """
        if self._dropping and (not may_begin_file or self._waiting_bytes > self._max_waiting_bytes // 2):
            return False
        size = sum(len(text) for members in tables.values() for member in members for text in member)
        dropped, self._dropping = self._dropping, 0
        self._enqueue(_Snapshot(at, tables, indexes, may_begin_file, dropped), size)
        self.snapshots += 1
        return True

    def close(self, timeout_s: float) -> bool:
        """Waits until all is written, and finishes the file; returns whether that was done in time."""
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive() and self.problem is None

    def _put(self, entry: _Entry, size: int) -> bool:
        if self.problem is not None:
            return False
        if self._dropping or self._waiting_bytes + size > self._max_waiting_bytes:
            self._dropping += 1
            self.dropped += 1
            return False
        self._enqueue(entry, size)
        return True

    def _enqueue(self, entry: _Entry, size: int) -> None:
        size += _ENTRY_BYTES
        with self._lock:
            self._waiting_bytes += size
        self._queue.put((entry, size))

    # --- on the recorder's own thread ------------------------------------------------------------------------------

    def _write_all(self) -> None:
        try:
            while self._write_next():
                self._is_full = self._files.is_full
            self._files.close()
        except OSError as error:
            self.problem = f"{self._name}: {os_reason(error)}"
            with suppress(OSError):
                self._files.close()
            self._on_problem()

    def _write_next(self) -> bool:
        try:
            item = self._queue.get(timeout=_IDLE_S)
        except queue.Empty:
            self._files.flush_if_due()
            return True
        if item is None:
            return False
        entry, size = item
        match entry:
            case _Frame():
                self._files.write(self._line_of(entry))
            case _Note():
                self._files.write(_encoded({"ReceivedAt": entry.at, **entry.what}))
            case _Snapshot():
                self._write_snapshot(entry)
        with self._lock:
            self._waiting_bytes -= size
        return True

    def _line_of(self, frame: _Frame) -> bytes:
        try:
            return _encoded({"ReceivedAt": frame.at, "Frame": orjson.loads(frame.data)})
        except ValueError:
            self.unreadable += 1
            beginning = frame.data[:_SHOWN_CHARACTERS].decode(errors="replace")
            return _encoded({"ReceivedAt": frame.at, "Malformed": beginning})

    def _write_snapshot(self, snapshot: _Snapshot) -> None:
        if snapshot.dropped:
            reason = f"recorder: {counted(snapshot.dropped, 'line')} not written"
            self._files.write(_encoded({"ReceivedAt": snapshot.at, "Connection": "closed", "Reason": reason}))
        if snapshot.dropped or (snapshot.may_begin_file and self._files.is_full):
            self._files.begin()
        self._files.write(_encoded({"ReceivedAt": snapshot.at, "Snapshot": self._documents(snapshot)}))

    def _documents(self, snapshot: _Snapshot) -> dict[str, Any]:
        indexes = dict(snapshot.indexes)
        documents: dict[str, Any] = {"Indexes": indexes}
        for table, members in snapshot.tables.items():
            documents[table] = [each for each in map(_merged, members) if each is not None]
            if len(documents[table]) < len(members):
                # It must not be taken for all that there is.
                self.unreadable += 1
                indexes.pop(table, None)
        return documents


def _encoded(line: dict[str, Any]) -> bytes:
    return orjson.dumps(scrub_line(line))


def _merged(member: tuple[bytes, ...]) -> dict[str, Any] | None:
    """A document with what is newer of it; None if it is none."""
    try:
        document, *newer = map(orjson.loads, member)
        for part in newer:
            document.update((key, value) for key, value in part.items() if key in document)
    except (ValueError, AttributeError):
        return None
    return document if isinstance(document, dict) else None
