"""Tasks on an agent: restarts in place, their end, images that hang or fail."""

from __future__ import annotations

from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.poseidon_jobs import Work
from poseidon_reconciler.twin.records import JobKey, TaskState
from poseidon_reconciler.twin.tasks import TaskRun
from tests.twin.labs import job_of, lab, newest, statuses, with_runner

FAILING = Work(("sh", "-c", "sleep 1; exit 3"), restarts=2, restart_delay_s=2.0, reschedules=0)


def task_of(cluster: Cluster, key: JobKey) -> TaskState:
    return newest(cluster, key).task_states["default-task"]


def kinds(state: TaskState) -> list[str]:
    return [event.type for event in state.events]


def test_a_failing_task_is_restarted_in_place_until_its_policy_says_no() -> None:
    cluster = lab(1)
    key = with_runner(cluster, FAILING, run_s=1.7)
    assert (newest(cluster, key).client_status, task_of(cluster, key).restarts) == ("pending", 1)
    cluster.run_for(20)
    state = task_of(cluster, key)
    assert (state.state, state.failed, state.restarts) == ("dead", True, 2)
    assert kinds(state)[-2:] == ["Terminated", "Not Restarting"]
    assert state.events[-1].message == 'Exceeded allowed attempts 2 in interval 1h0m0s and mode is "fail"'
    assert (statuses(cluster, key), job_of(cluster, key).status) == (["failed/run"], "dead")


def test_without_attempts_the_refusal_says_so() -> None:
    cluster = lab(1)
    key = with_runner(cluster, Work(("false",), restarts=0, reschedules=0))
    assert task_of(cluster, key).events[-1].message == "Policy allows no restarts"


def test_a_task_that_ends_well_ends_its_job() -> None:
    cluster = lab(1)
    key = with_runner(cluster, Work(("sh", "-c", "sleep 1; exit 0")), run_s=5.0)
    assert kinds(task_of(cluster, key)) == ["Received", "Task Setup", "Started", "Terminated"]
    assert (statuses(cluster, key), job_of(cluster, key).status) == (["complete/run"], "dead")


def test_an_image_that_hangs_keeps_its_allocation_pending_and_holds_up_nobody() -> None:
    cluster = lab(1)
    cluster.script.tell("10-a", TaskRun(image="hang"))
    hanging = [with_runner(cluster, name="10-a")]
    others = [with_runner(cluster, name=f"10-{name}") for name in "bcdef"]
    cluster.run_for(100)
    assert {newest(cluster, key).client_status for key in hanging} == {"pending"}
    assert {newest(cluster, key).client_status for key in others} == {"running"}
    cluster.jobs.deregister(hanging[0])
    cluster.run_for(2)
    assert newest(cluster, hanging[0]).client_status == "complete"


def test_an_image_that_cannot_be_had_fails_with_the_drivers_message() -> None:
    cluster = lab(1)
    cluster.script.tell("10-", TaskRun(image="fail", message="Failed to pull `x`: not found"), prefix=True)
    key = with_runner(cluster, Work(restarts=0, reschedules=0))
    (failure,) = [event for event in task_of(cluster, key).events if event.type == "Driver Failure"]
    assert failure.fields["DriverError"] == "Failed to pull `x`: not found"
    assert newest(cluster, key).client_status == "failed"


def test_a_kill_says_how_and_what_came_of_it() -> None:
    cluster = lab(1)
    key = with_runner(cluster)
    cluster.jobs.deregister(key)
    cluster.run_for(2)
    state = task_of(cluster, key)
    assert kinds(state)[-3:] == ["Killing", "Terminated", "Killed"]
    assert state.events[-2].fields == {"ExitCode": 137, "Signal": 9}
    assert (state.state, state.failed) == ("dead", False)
