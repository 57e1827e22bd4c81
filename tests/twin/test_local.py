"""An agent's own view of an allocation, and its limited number of starts."""

from __future__ import annotations

import pytest

from poseidon_reconciler.twin.jobspec import RestartPolicy
from poseidon_reconciler.twin.local import LocalAllocation, LocalTask, StartQueue
from tests.twin.labs import lab, newest, with_runner

POLICY = RestartPolicy(attempts=2, delay_s=10.0, interval_s=100.0, mode="fail")


def a_task(policy: RestartPolicy = POLICY) -> LocalTask:
    return LocalTask({"Name": "t"}, policy)


def test_restarts_are_counted_within_an_interval() -> None:
    task = a_task()
    assert task.restart_delay_s(1000.0, 0.0) == 10.0
    assert task.restart_delay_s(1050.0, 1.0) == 12.5
    assert task.restart_delay_s(1060.0, 0.0) is None
    assert task.restart_delay_s(1201.0, 0.0) == 10.0


def test_mode_delay_waits_for_the_next_interval() -> None:
    task = a_task(RestartPolicy(attempts=1, delay_s=10.0, interval_s=100.0, mode="delay"))
    task.restart_delay_s(1000.0, 0.0)
    assert task.restart_delay_s(1030.0, 0.0) == pytest.approx(70.0)


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (("pending", "pending"), "pending"),
        (("running", "pending"), "running"),
        (("dead", "running"), "running"),
        (("dead", "dead"), "complete"),
        (("failed", "running"), "failed"),
    ],
)
def test_an_allocation_is_reported_by_its_tasks(states: tuple[str, ...], expected: str) -> None:
    cluster = lab(1)
    local = LocalAllocation(newest(cluster, with_runner(cluster)))
    local.tasks = [a_task() for _ in states]
    for task, state in zip(local.tasks, states, strict=True):
        if state == "running":
            task.started(1.0)
        elif state != "pending":
            task.died(1.0, failed=state == "failed")
    assert local.report().client_status == expected


def test_starts_wait_for_a_slot_in_turn() -> None:
    queue, started, tasks = StartQueue(2), [], [a_task() for _ in range(4)]
    for number, task in enumerate(tasks):
        queue.ask(task, lambda number=number: started.append(number))  # type: ignore[misc]
    assert started == [0, 1]
    queue.withdraw(tasks[2])
    queue.withdraw(tasks[0])
    assert started == [0, 1, 3]
    queue.clear()
    queue.ask(tasks[0], lambda: started.append(9))
    assert started[-1] == 9
