"""What happens in a demo, as lines to read: many equal things at once become one line with their number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from msgspec import Struct

from poseidon_reconciler.core.printable import printable

Kind = Literal["failure", "node", "poseidon", "lost", "decided", "done", "not-done", "stream", "pools"]

# In real time: in a cluster that goes faster more happens together.
_TOGETHER_S: Final = 1.5


class Entry(Struct):
    """A line: what happened how often, to what, and why; of several subjects and reasons only the first is kept."""

    at: float
    kind: Kind
    text: str
    detail: str
    subject: str
    number: int = 1
    is_same_for_all: bool = True

    def line(self) -> str:
        """The line without its time."""
        line = self.text
        if self.number > 1:
            line += f" × {self.number}"
        elif self.subject:
            line += f" {_short(self.subject)}"
        if self.detail:
            line += f": {self.detail}" + ("" if self.is_same_for_all else ", …")
        return printable(line)


def _short(job_id: str) -> str:
    """The first group of a runner's id is enough to tell it from others."""
    environment, _, rest = job_id.partition("-")
    return f"{environment}-{rest.partition('-')[0]}…" if "-" in rest else job_id


class Feed:
    """The lines so far, the newest last.

    Lines of one kind and text that follow each other closely are one, until they are old enough to be `taken`.
    """

    def __init__(self, clock: Callable[[], float], speed: float) -> None:
        """`clock` gives the cluster's time, in seconds since the epoch."""
        self.entries: list[Entry] = []
        self._clock = clock
        self._together_s = _TOGETHER_S * speed
        self._taken = 0

    def add(self, kind: Kind, text: str, detail: str = "", subject: str = "") -> None:
        """Something happened now."""
        now = self._clock()
        for entry in reversed(self.entries[self._taken :]):
            if entry.at < now - self._together_s:
                break
            if (entry.kind, entry.text) == (kind, text):
                entry.number += 1
                entry.is_same_for_all &= entry.detail == detail
                return
        self.entries.append(Entry(now, kind, text, detail, subject))

    def take_finished(self, *, all_of_them: bool = False) -> list[Entry]:
        """The lines that will not change any more and were not taken yet."""
        ripe = self._clock() - self._together_s
        end = self._taken
        while end < len(self.entries) and (all_of_them or self.entries[end].at < ripe):
            end += 1
        taken, self._taken = self.entries[self._taken : end], end
        return taken
