"""Whole courses of events: none breaks a promise, and each is the same every time."""

from __future__ import annotations

import random

import pytest

from poseidon_reconciler.app.simulation.course import course_of
from poseidon_reconciler.app.simulation.simulation import simulate

SEEDS = range(20)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_promise_is_broken(seed: int) -> None:
    outcome = simulate(course_of(seed))
    assert outcome.broken is None, outcome.broken


def test_something_happens_in_these_courses() -> None:
    outcomes = [simulate(course_of(seed)) for seed in range(8)]
    kinds = {kind for outcome in outcomes for kind in outcome.writes}
    assert {"create-runner", "protect-job", "remove-job", "revive-environment", "stop-surplus"} <= kinds


def test_a_course_is_the_same_every_time() -> None:
    random.seed(1)
    first = simulate(course_of(3))
    random.seed(2)
    assert simulate(course_of(3)) == first
    assert simulate(course_of(4)).digest != first.digest


def test_the_chance_of_others_is_left_alone() -> None:
    random.seed(5)
    expected = random.random()
    random.seed(5)
    simulate(course_of(0), mishaps=0)
    assert random.random() == expected


def test_a_course_is_told() -> None:
    told: list[tuple[float, str]] = []
    outcome = simulate(course_of(0), tell=lambda after_s, text: told.append((after_s, text)))
    times = [after_s for after_s, _ in told]
    assert times == sorted(times)
    assert times[-1] <= outcome.lasted_s + 1
    texts = [text for _, text in told]
    assert "# R1.1 begins" in texts
    assert "# calm" in texts
    assert sum(text.startswith("! ") for text in texts) >= sum(outcome.writes.values())


def test_telling_changes_nothing() -> None:
    assert simulate(course_of(1), tell=lambda *_: None) == simulate(course_of(1))


def test_without_mishaps_nothing_has_to_be_done() -> None:
    course = course_of(0)
    outcome = simulate(course, mishaps=0)
    assert (outcome.broken, outcome.mishaps) == (None, 0)
    assert "remove-job" not in outcome.writes
