"""Delays and attempts of reschedule policies."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from poseidon_reconciler.twin.jobspec import ReschedulePolicy
from poseidon_reconciler.twin.records import Allocation, Rescheduling, TaskState
from poseidon_reconciler.twin.reschedule import next_attempt, next_delay_s, tracked
from tests.twin.labs import lab, newest, with_runner


@pytest.fixture(scope="module")
def failed() -> Allocation:
    cluster = lab(1)
    allocation = newest(cluster, with_runner(cluster))
    return replace(
        allocation, client_status="failed", task_states={"t": TaskState("dead", failed=True, finished_at=1000.0)}
    )


def policy(
    function: str = "constant", *, attempts: int = 3, unlimited: bool = False, max_delay_s: float = 0.0
) -> ReschedulePolicy:
    return ReschedulePolicy(attempts, 10.0, function, 500.0, max_delay_s, unlimited)


def after(allocation: Allocation, *delays_s: float, at: float = 990.0) -> Allocation:
    past = tuple(Rescheduling(at, f"a{number}", f"n{number}", delay_s) for number, delay_s in enumerate(delays_s))
    return replace(allocation, reschedulings=past)


@pytest.mark.parametrize(
    ("function", "past", "max_delay_s", "expected"),
    [
        ("constant", (10.0, 10.0), 0.0, 10.0),
        ("exponential", (), 0.0, 10.0),
        ("exponential", (10.0,), 0.0, 20.0),
        ("exponential", (10.0, 20.0), 0.0, 40.0),
        ("exponential", (10.0, 20.0), 30.0, 30.0),
        ("fibonacci", (10.0,), 0.0, 10.0),
        ("fibonacci", (10.0, 10.0), 0.0, 20.0),
        ("fibonacci", (10.0, 20.0), 0.0, 30.0),
    ],
)
def test_delays(
    failed: Allocation, function: str, past: tuple[float, ...], max_delay_s: float, expected: float
) -> None:
    assert next_delay_s(after(failed, *past), policy(function, max_delay_s=max_delay_s)) == expected


def test_one_that_ran_longer_than_the_longest_delay_starts_over(failed: Allocation) -> None:
    assert next_delay_s(after(failed, 30.0, at=100.0), policy("exponential", max_delay_s=40.0)) == 10.0


def test_attempts_are_counted_within_the_interval(failed: Allocation) -> None:
    assert next_attempt(failed, policy()) == 1010.0
    assert next_attempt(after(failed, 10.0, 10.0, 10.0), policy()) is None
    assert next_attempt(after(failed, 10.0, 10.0, 10.0, at=400.0), policy()) == 1010.0
    assert next_attempt(after(failed, 10.0, 10.0, 10.0), policy(unlimited=True)) == 1010.0
    assert next_attempt(failed, policy(attempts=0)) is None


def test_only_what_failed_and_is_wanted_is_tried_again(failed: Allocation) -> None:
    assert next_attempt(replace(failed, client_status="complete"), policy()) is None
    assert next_attempt(replace(failed, desired_status="stop"), policy()) is None


def test_a_replacement_remembers_where_the_others_were(failed: Allocation) -> None:
    attempts = tracked(after(failed, 10.0), policy(), 1010.0)
    assert [attempt.previous_allocation_id for attempt in attempts] == ["a0", failed.id]
    assert attempts[-1] == Rescheduling(1010.0, failed.id, failed.node_id, 10.0)
    many = after(failed, *[10.0] * 9)
    assert len(tracked(many, policy(unlimited=True), 1010.0)) == 5
