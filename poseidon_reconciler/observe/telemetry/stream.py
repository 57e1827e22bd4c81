"""What came over the event stream, in numbers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable


class StreamCounts:
    """Counts on the event loop; its numbers may be read on any thread.

    Attributes:
        endings: how many connections ended in which way; every way that there is stands in it from the beginning.
        index: the Raft index of the newest line; -1 before the first.
    """

    def __init__(self, endings: Iterable[str], monotonic: Callable[[], float] = time.monotonic) -> None:
        self.frames = self.events = self.malformed = self.gaps = 0
        self.index = -1
        self.endings: Counter[str] = Counter(dict.fromkeys(endings, 0))
        self._monotonic = monotonic
        self._heard_at = monotonic()

    @property
    def silence_s(self) -> float:
        """How long ago the stream last said anything, or how long ago we began to wait for it."""
        return self._monotonic() - self._heard_at

    def heard(self) -> None:
        """Anything came: an answer, a line, a heartbeat."""
        self._heard_at = self._monotonic()

    def frame(self, index: int, events: int, *, faulty: bool) -> None:
        """A line with events came; `faulty`: some of them could not be read."""
        self.heard()
        self.frames += 1
        self.events += events
        self.malformed += faulty
        self.index = index

    def malformed_line(self) -> None:
        """A line came that nobody can read."""
        self.heard()
        self.malformed += 1

    def gap(self) -> None:
        """The stream did not go on where it had been."""
        self.gaps += 1

    def closed(self, ending: str) -> None:
        """A connection ended, or did not come about."""
        self.endings[ending] += 1
