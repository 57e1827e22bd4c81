"""Thinning samples: no peak is lost, no number is invented, and what is left is few."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from poseidon_reconciler.core.status import POOL_STATES
from poseidon_reconciler.recording.report.steps import steps
from poseidon_reconciler.recording.story import Sample
from tests.recording.stories import sample

COLUMNS = 2
ROW_BYTES = 1 + len(POOL_STATES)


def history_of(data: bytes) -> list[Sample]:
    """A history made of bytes, which are drawn and shrunk much faster than numbers one by one."""
    rows = sorted(data[start : start + ROW_BYTES] for start in range(0, len(data) - ROW_BYTES + 1, ROW_BYTES))
    return [Sample(row[0] / 255, tuple(number % 5 for number in row[1:]), 3) for row in rows]


# More than a chart of two columns has room for.
histories = st.binary(min_size=30 * ROW_BYTES, max_size=90 * ROW_BYTES).map(history_of)


def place(at: float) -> float:
    return at


@given(histories)
def test_steps_adjoin_up_to_the_end(history: list[Sample]) -> None:
    drawn = steps(history, place, COLUMNS)
    assert all(step.end_x == following.x for step, following in pairwise(drawn))
    assert all(step.x <= step.end_x for step in drawn)
    assert drawn[-1].end_x == 1
    assert drawn[-1].sample.numbers == history[-1].numbers


@given(histories)
def test_no_peak_is_lost_and_nothing_invented(history: list[Sample]) -> None:
    kept = [step.sample for step in steps(history, place, COLUMNS)]
    assert all(kept_sample in history for kept_sample in kept)
    for state in range(len(POOL_STATES)):
        assert max(s.numbers[state] for s in kept) == max(s.numbers[state] for s in history)
    idle = POOL_STATES.index("idle")
    assert min(s.numbers[idle] for s in kept) == min(s.numbers[idle] for s in history)


@given(histories)
def test_what_is_left_is_few(history: list[Sample]) -> None:
    # The end of the axis is a place of its own.
    assert len(steps(history, place, COLUMNS)) <= (COLUMNS + 1) * (len(POOL_STATES) + 2)


def test_few_samples_are_all_kept_but_for_repetitions() -> None:
    history = [sample(after_s, idle=idle) for after_s, idle in ((0, 1), (1, 1), (2, 3), (3, 1))]
    drawn = steps(history, lambda at: (at - history[0].at) / 4, COLUMNS)
    assert [(step.x, step.end_x, step.sample.numbers[0]) for step in drawn] == [
        (0, 0.5, 1),
        (0.5, 0.75, 3),
        (0.75, 1, 1),
    ]


def test_another_target_is_another_step() -> None:
    history = [sample(0, idle=1, target=1), sample(1, idle=1, target=2)]
    assert [step.sample.target for step in steps(history, lambda at: at - history[0].at, COLUMNS)] == [1, 2]


def test_nothing_is_no_step() -> None:
    assert steps([], place, COLUMNS) == []
