"""Where a moment stands on the time axis, and how it is written.

A replay goes on after the last line until nothing is due any more, so the axis ends where the last thing happened that
the page shows, a little room added so that the state after it can be seen.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from poseidon_reconciler.core.documents import iso
from poseidon_reconciler.markup.elements import Element, element
from poseidon_reconciler.recording.story import Story

MAX_TICKS: Final = 8
_ROOM_SHARE: Final = 0.08
_LEAST_SPAN_S: Final = 1.0
_MINUTE_S, _HOUR_S, _DAY_S = 60.0, 3600.0, 86400.0
_STEPS_S: Final = (
    0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0,
    _MINUTE_S, 2 * _MINUTE_S, 5 * _MINUTE_S, 10 * _MINUTE_S, 15 * _MINUTE_S, 30 * _MINUTE_S,
    _HOUR_S, 2 * _HOUR_S, 3 * _HOUR_S, 6 * _HOUR_S, 12 * _HOUR_S,
    _DAY_S, 2 * _DAY_S, 7 * _DAY_S, 30 * _DAY_S, 90 * _DAY_S, 365 * _DAY_S,
)  # fmt: skip


class Tick(Struct, frozen=True):
    """A labelled place on the axis; `x` is 0 at its start and 1 at its end."""

    x: float
    label: str


class TimeScale(Struct, frozen=True):
    """The time axis of a page, from `start` to `end` in seconds.

    Attributes:
        last: when the last thing happened that is shown.
        recorded_until: the time of the last line.
        absolute: whether the recording told a time; if not, seconds count from its first line.
    """

    start: float
    end: float
    last: float
    recorded_until: float
    absolute: bool

    @classmethod
    def of(cls, story: Story) -> TimeScale:
        """The axis on which everything that the page shows of a story has its place."""
        start = story.started_at or 0.0
        shown = [samples[-1].at for samples in story.samples.values() if samples]
        shown += [action.at for action in story.actions] + [change.at for change in story.node_changes]
        recorded_until = max(start, story.ended_at or start)
        last = max(recorded_until, *shown) if shown else recorded_until
        span_s = max(last - start, _LEAST_SPAN_S)
        return cls(start, start + span_s * (1 + _ROOM_SHARE), last, recorded_until, story.started_at is not None)

    @property
    def heading(self) -> str:
        """What stands above a column of times."""
        return "time (UTC)" if self.absolute else "time"

    @property
    def span_s(self) -> float:
        return self.end - self.start

    def x(self, at: float) -> float:
        """The place of a moment, 0 to 1; what lies outside stands at the edge."""
        return min(1.0, max(0.0, (at - self.start) / self.span_s))

    def ticks(self) -> list[Tick]:
        """Round moments, at most `MAX_TICKS` of them."""
        step_s = next((step_s for step_s in _STEPS_S if self.span_s / step_s < MAX_TICKS), self.span_s / 4)
        numbers = range(math.ceil(self.start / step_s), math.floor(self.end / step_s) + 1)
        return [Tick(self.x(number * step_s), self._label(number * step_s, step_s)) for number in numbers]

    def clock(self, at: float) -> str:
        """A moment to the millisecond; with its date where the axis is longer than a day."""
        if not self.absolute:
            return f"{at - self.start:+.3f} s"
        if at < self.start:
            return "before the first time"
        written = _written(at)
        return written if self.span_s > _DAY_S else written[11:]

    def time(self, at: float) -> Element | str:
        """A moment as an element that machines can read too."""
        if not self.absolute or at < self.start:
            return self.clock(at)
        return element("time", self.clock(at), datetime=iso(at))

    def _label(self, at: float, step_s: float) -> str:
        if not self.absolute:
            return f"+{at - self.start:.6g} s"
        written = _written(at)
        if step_s >= _DAY_S:
            return written[:10]
        if self.span_s > _DAY_S:
            return written[5:16]
        return written[11:16] if step_s >= _MINUTE_S else written[11:19] if step_s >= 1 else written[11:21]


def _written(at: float) -> str:
    """`2026-11-30 18:11:05.289`, in UTC."""
    return datetime.fromtimestamp(at, UTC).isoformat(sep=" ", timespec="milliseconds")[:23]


def date_and_time(at: float) -> str:
    """A moment with its date, to the second, in UTC."""
    return _written(at)[:19]
