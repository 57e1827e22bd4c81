"""What the servers make of an agent's report."""

from __future__ import annotations

import pytest

from poseidon_reconciler.twin.poseidon_jobs import Work
from poseidon_reconciler.twin.records import Node
from poseidon_reconciler.twin.reports import Report, take_in
from tests.twin.labs import job_of, lab, newest, statuses, with_runner

ONCE = Work(
    ("sh", "-c", "exit 1"),
    restarts=0,
    reschedules=1,
    reschedule_delay_s=5.0,
    delay_function="constant",
    max_delay_s=5.0,
)


def test_a_failure_with_attempts_left_asks_for_an_evaluation_at_the_same_index() -> None:
    cluster = lab()
    key = with_runner(cluster, ONCE, run_s=0.0)
    cluster.run_for(2)
    frames = [batch for batch in cluster.log if any(event.type == "AllocationUpdated" for event in batch.events)]
    failed, asked = frames[-2:]
    assert failed.index == asked.index
    job_statuses = [
        getattr(event.payload, "status", "")
        for batch in (failed, asked)
        for event in batch.events
        if event.topic == "Job"
    ]
    assert job_statuses == ["dead", "pending"]
    assert job_of(cluster, key).status == "pending"


def test_a_failed_allocation_is_replaced_when_its_time_comes_and_given_up_in_the_end() -> None:
    cluster = lab()
    key = with_runner(cluster, ONCE)
    waiting = newest(cluster, key)
    evaluation = cluster.state.evaluations[waiting.followup_evaluation_id]
    assert (evaluation.triggered_by, evaluation.status) == ("alloc-failure", "pending")
    cluster.run_for(10)
    first, second = cluster.state.allocations_of(key)
    assert statuses(cluster, key) == ["failed/stop", "failed/run"]
    assert (first.next_id, second.previous_id) == (second.id, first.id)
    assert [past.previous_allocation_id for past in second.reschedulings] == [first.id]
    assert second.node_id != first.node_id
    assert job_of(cluster, key).status == "dead"


def test_reports_of_what_is_forgotten_are_ignored() -> None:
    cluster = lab()
    node_id = next(iter(cluster.state.nodes))
    assert take_in(cluster.state, cluster.evaluator, node_id, [Report("unknown", "complete", "", {})])
    assert cluster.state.allocations == {}


@pytest.mark.parametrize(("version", "heard"), [("1.1.2", True), ("1.4.0", True), ("1.5.0", False), ("1.10.5", False)])
def test_newer_servers_do_not_listen_to_a_node_that_they_gave_up(version: str, heard: bool) -> None:
    cluster = lab(1, version=version)
    key = with_runner(cluster)
    allocation = newest(cluster, key)
    cluster.agents["agent-1"].stop()
    cluster.run_for(10)
    report = Report(allocation.id, "complete", "", allocation.task_states)
    assert take_in(cluster.state, cluster.evaluator, allocation.node_id, [report]) is heard
    assert newest(cluster, key).client_status == ("complete" if heard else "lost")


def test_newer_servers_tell_of_the_node_with_each_report() -> None:
    for version, expected in (("1.1.2", False), ("1.10.5", True)):
        cluster = lab(version=version)
        with_runner(cluster)
        told = [
            e for b in cluster.log for e in b.events if e.type == "AllocationUpdated" and isinstance(e.payload, Node)
        ]
        assert bool(told) is expected


@pytest.mark.parametrize(("version", "purge"), [("1.1.2", False), ("1.1.2", True), ("1.10.5", True)])
def test_room_that_becomes_free_is_offered(version: str, purge: bool) -> None:
    """Also where a purge takes the allocations with it: their agents tell all the same that they have ended."""
    cluster = lab(1, version=version)
    big = Work(cpu_mhz=3000)
    first = with_runner(cluster, big)
    second = with_runner(cluster, big, name="10-b")
    assert job_of(cluster, second).status == "pending"
    assert len(cluster.evaluator.blocked) == 1
    cluster.jobs.deregister(first, purge=purge)
    cluster.run_for(3)
    assert job_of(cluster, second).status == "running"
    assert cluster.evaluator.blocked == []
