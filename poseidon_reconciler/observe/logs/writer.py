"""Lines to a file descriptor that nobody may be reading: whoever logs never waits for it.

A pipe whose reader hangs blocks each write to it, and with it the loop on which everything runs. So a thread writes,
and when it does not keep up lines are dropped and counted. It writes to the descriptor itself: a thread that hangs in
Python's own stderr would keep the interpreter from ending.
"""

from __future__ import annotations

import os
import queue
import select
import threading
from collections.abc import Callable
from typing import Final

_MAX_LINES: Final = 10_000
_WAIT_S: Final = 1.0


class LineWriter:
    """Writes lines in their order.

    Attributes:
        dropped: how many lines did not get out and have not been told of.
    """

    def __init__(self, fd: int, tell_dropped: Callable[[int], str], *, max_lines: int = _MAX_LINES) -> None:
        """`tell_dropped` makes the line that stands for so many which were dropped."""
        self.dropped = 0
        self._fd = fd
        self._tell_dropped = tell_dropped
        self._lines: queue.Queue[str | None] = queue.Queue(max_lines)
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
        self._thread.start()

    def write(self, line: str) -> None:
        """Hands over a line without waiting, from any thread."""
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            self._count(1)

    def close(self, timeout_s: float) -> None:
        """Waits until all is written, for so long at most."""
        try:
            self._lines.put(None, timeout=timeout_s)
        except queue.Full:
            return
        self._thread.join(timeout_s)

    def _count(self, number: int) -> None:
        with self._lock:
            self.dropped += number

    def _run(self) -> None:
        while (line := self._lines.get()) is not None:
            number = self.dropped
            if self._write(line) and number and self._write(self._tell_dropped(number)):
                self._count(-number)

    def _write(self, line: str) -> bool:
        data = memoryview(f"{line}\n".encode("utf-8", "backslashreplace"))
        while data:
            try:
                data = data[os.write(self._fd, data) :]
            except BlockingIOError:
                select.select([], [self._fd], [], _WAIT_S)
            except OSError:
                self._count(1)
                return False
        return True
