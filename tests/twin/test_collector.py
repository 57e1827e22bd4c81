"""What is collected when, and who hears of it."""

from __future__ import annotations

import pytest

from poseidon_reconciler.twin.poseidon_jobs import Work
from tests.twin.labs import lab, newest, with_runner

ENDING = Work(("true",))


@pytest.mark.parametrize(("version", "topics"), [("1.1.2", {"Evaluation"}), ("1.10.5", {"Job"})])
def test_dead_jobs_vanish_whoever_stopped_them(version: str, topics: set[str]) -> None:
    cluster = lab(version=version)
    stopped, ended, living = (
        with_runner(cluster),
        with_runner(cluster, ENDING, name="10-b"),
        with_runner(cluster, name="10-c"),
    )
    cluster.jobs.deregister(stopped)
    cluster.run_for(3)
    cluster.collect_garbage()
    assert set(cluster.state.jobs) == {living}
    told = [event for batch in cluster.log for event in batch.events if event.type == "JobBatchDeregistered"]
    assert {event.topic for event in told} == topics
    assert len(told) == 2
    assert ended not in cluster.state.jobs


def test_evaluations_and_allocations_vanish_without_a_word() -> None:
    cluster = lab()
    key = with_runner(cluster)
    cluster.jobs.deregister(key, purge=True)
    cluster.run_for(3)
    batches = len(cluster.log)
    cluster.collect_garbage()
    assert cluster.state.allocations_of(key) == []
    assert cluster.state.evaluations_of(key) == []
    assert len(cluster.log) == batches


def test_what_a_living_batch_job_did_is_kept() -> None:
    cluster = lab(1)
    key = with_runner(cluster, Work(("sh", "-c", "exit 1"), restarts=0, reschedules=5))
    cluster.run_for(1)
    before = [allocation.id for allocation in cluster.state.allocations_of(key)]
    cluster.collect_garbage()
    assert set(before) <= {allocation.id for allocation in cluster.state.allocations_of(key)}


def test_without_force_only_what_is_old_is_collected() -> None:
    cluster = lab()
    key = with_runner(cluster, ENDING)
    retention = cluster.settings.retention
    cluster.run_for(retention.jobs_s - 60)
    assert key in cluster.state.jobs
    cluster.run_for(60 + 2 * retention.interval_s)
    assert key not in cluster.state.jobs


def test_a_lost_node_is_collected_and_its_jobs_are_looked_at() -> None:
    cluster = lab(2)
    key = with_runner(cluster)
    lost = newest(cluster, key).node_id
    agent = cluster.agent_of(lost)
    assert agent is not None
    agent.stop()
    cluster.run_for(10)
    cluster.collect_garbage()
    assert lost not in cluster.state.nodes
    cluster.run_for(1)
    assert cluster.state.evaluations_of(key)[-1].node_id == lost
    assert newest(cluster, key).client_status == "running"
