"""Many samples → few, without losing a peak.

A chart has some hundred columns; a long recording has a hundred thousand samples. What is kept is never an average:
each number that is drawn was really so, and the most there ever was of each state is drawn, as are the fewest idle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from poseidon_reconciler.core.status import POOL_STATES
from poseidon_reconciler.recording.story import Sample

_IDLE: Final = POOL_STATES.index("idle")
# The most of each state, the fewest idle, the last one.
_MOST_PER_COLUMN: Final = len(POOL_STATES) + 2


class Step(NamedTuple):
    """What holds between two places of the time axis (0 to 1)."""

    x: float
    end_x: float
    sample: Sample


def steps(samples: Sequence[Sample], x: Callable[[float], float], columns: int) -> list[Step]:
    """The samples to draw, each until the next one; the last one to the end of the axis.

    `columns`: how many places can be told apart; of each, at most `_MOST_PER_COLUMN` samples are kept.
    """
    kept = _distinct(_thinned(samples, x, columns))
    starts = [x(sample.at) for sample in kept]
    return [Step(*place) for place in zip(starts, [*starts[1:], 1.0], kept, strict=True)] if kept else []


def _thinned(samples: Sequence[Sample], x: Callable[[float], float], columns: int) -> Iterable[Sample]:
    if len(samples) <= columns * _MOST_PER_COLUMN:
        return samples
    grouped = groupby(samples, key=lambda sample: int(x(sample.at) * columns))
    return (sample for _, group in grouped for sample in _extremes(list(group)))


def _extremes(group: list[Sample]) -> list[Sample]:
    """The last one, the first with the most of each state, and the first with the fewest idle."""
    by_state = list(zip(*(sample.numbers for sample in group), strict=True))
    places = {numbers.index(max(numbers)) for numbers in by_state}
    places |= {by_state[_IDLE].index(min(by_state[_IDLE])), len(group) - 1}
    return [group[place] for place in sorted(places)]


def _distinct(samples: Iterable[Sample]) -> list[Sample]:
    """Without those that say the same as the one before."""
    kept: list[Sample] = []
    for sample in samples:
        if not kept or (kept[-1].numbers, kept[-1].target) != (sample.numbers, sample.target):
            kept.append(sample)
    return kept
