"""The time axis: everything that is shown has a place on it, and its labels are round moments in UTC."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from poseidon_reconciler.recording.report.timescale import MAX_TICKS, TimeScale
from poseidon_reconciler.recording.story import Story
from tests.recording.stories import START, pool_story, sample


def scale(span_s: float, start: float = START) -> TimeScale:
    return TimeScale(start, start + span_s, start + span_s, start + span_s, absolute=True)


def test_the_axis_goes_on_to_the_last_thing_that_is_shown() -> None:
    axis = TimeScale.of(pool_story())
    assert (axis.start, axis.recorded_until, axis.last) == (START, START + 40, START + 60)
    assert axis.x(START) == 0
    assert 0.9 < axis.x(START + 60) < 1


def test_time_in_which_nothing_happens_is_not_shown() -> None:
    story = pool_story()
    story.settled_at = START + 3600
    assert TimeScale.of(story).last == START + 60


def test_what_lies_outside_stands_at_the_edge() -> None:
    assert scale(10).x(0) == 0
    assert scale(10).x(START + 1e9) == 1


@pytest.mark.parametrize(
    ("span_s", "labels"),
    [
        (0.5, ["18:00:00.0", "18:00:00.1", "18:00:00.2", "18:00:00.3", "18:00:00.4", "18:00:00.5"]),
        (20, ["18:00:00", "18:00:05", "18:00:10", "18:00:15", "18:00:20"]),
        (90, ["18:00:00", "18:00:15", "18:00:30", "18:00:45", "18:01:00", "18:01:15", "18:01:30"]),
        (1200, ["18:00", "18:05", "18:10", "18:15", "18:20"]),
        (3 * 86_400, ["12-01 00:00", "12-01 12:00", "12-02 00:00", "12-02 12:00", "12-03 00:00", "12-03 12:00"]),
        (20 * 86_400, ["2026-12-03", "2026-12-10", "2026-12-17"]),
    ],
)
def test_ticks_are_round(span_s: float, labels: list[str]) -> None:
    assert [tick.label for tick in scale(span_s).ticks()] == labels


@given(st.floats(1e6, 2**32), st.floats(1, 2**32))
def test_ticks_are_few_and_in_order(start: float, span_s: float) -> None:
    ticks = scale(span_s, start).ticks()
    assert 1 <= len(ticks) <= MAX_TICKS
    assert [tick.x for tick in ticks] == sorted(tick.x for tick in ticks)


def test_a_moment_has_its_date_where_days_are_shown() -> None:
    assert scale(60).clock(START + 1.5) == "18:00:01.500"
    assert scale(2 * 86_400).clock(START + 1.5) == "2026-11-30 18:00:01.500"


def test_without_times_seconds_count_from_the_first_line() -> None:
    axis = TimeScale.of(Story(samples={"10": [replace(sample(0), at=20.0)]}))
    assert not axis.absolute
    assert axis.clock(12.5) == "+12.500 s"
    assert [tick.label for tick in axis.ticks()] == ["+0 s", "+5 s", "+10 s", "+15 s", "+20 s"]
