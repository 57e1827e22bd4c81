"""The tables: statuses that follow from what is stored, links, and what the stream hears."""

from __future__ import annotations

from msgspec.structs import replace

from poseidon_reconciler.twin.events import Batch
from poseidon_reconciler.twin.poseidon_jobs import Work, runner_job
from poseidon_reconciler.twin.state import KEPT_VERSIONS
from tests.twin.labs import job_of, lab, newest, with_runner


def types(batch: Batch) -> list[str]:
    return [event.topic for event in batch.events]


def test_a_jobs_status_follows_from_its_allocations_and_evaluations() -> None:
    cluster = lab()
    job, _ = cluster.jobs.register(runner_job("10-a"))
    seen = [job.status]
    for _ in range(40):
        cluster.run_for(0.01)
        seen.append(job_of(cluster, job.key).status)
    cluster.jobs.deregister(job.key)
    for _ in range(40):
        cluster.run_for(0.01)
        seen.append(job_of(cluster, job.key).status)
    assert list(dict.fromkeys(seen)) == ["pending", "running", "dead"]


def test_a_plan_tells_evaluation_then_allocations_then_job() -> None:
    cluster = lab()
    with_runner(cluster)
    (plan,) = [batch for batch in cluster.log if any(event.type == "PlanResult" for event in batch.events)]
    assert types(plan) == ["Evaluation", "Allocation", "Job"]


def test_what_replaces_an_allocation_is_told_before_it() -> None:
    cluster = lab(2)
    key = with_runner(cluster)
    agent = cluster.agent_of(newest(cluster, key).node_id)
    assert agent is not None
    agent.stop()
    cluster.run_for(10)
    old, new = cluster.state.allocations_of(key)
    (plan,) = [
        batch
        for batch in cluster.log
        if any(event.key == new.id for event in batch.events) and types(batch)[0] == "Evaluation"
    ]
    assert [event.key for event in plan.events[1:]] == [new.id, old.id]
    assert old.next_id == new.id


def test_only_the_latest_versions_are_kept() -> None:
    cluster = lab()
    for priority in range(50, 60):
        cluster.jobs.register({**runner_job("10-a"), "Priority": priority})
    versions = cluster.state.versions["default", "10-a"]
    assert [job.version for job in versions] == list(range(10 - KEPT_VERSIONS, 10))


def test_room_is_counted_and_given_back() -> None:
    cluster = lab(1)
    (node_id,) = cluster.state.nodes
    key = with_runner(cluster, Work(cpu_mhz=300, memory_mb=50))
    assert cluster.state.used_on(node_id) == (300, 50, 10)
    cluster.jobs.deregister(key)
    cluster.run_for(3)
    assert cluster.state.used_on(node_id) == (0, 0, 0)


def test_a_restored_table_is_the_same_and_counts_the_same() -> None:
    cluster = lab()
    key = with_runner(cluster)
    snapshot = cluster.state.snapshot()
    cluster.state.restore(snapshot)
    assert cluster.state.snapshot() == snapshot
    assert cluster.state.status_of(key) == "running"


def test_a_full_placement_cancels_what_still_waits() -> None:
    cluster = lab(1)
    key = with_runner(cluster, Work(cpu_mhz=99_999))
    (blocked,) = [e for e in cluster.state.evaluations_of(key) if e.status == "blocked"]
    cluster.jobs.deregister(key)
    cluster.run_for(2)
    after = cluster.state.evaluations[blocked.id]
    assert after.status == "canceled"
    assert "successful" in after.status_description


def test_a_write_without_a_kind_is_heard_by_nobody() -> None:
    cluster = lab()
    batches, index = len(cluster.log), cluster.state.index
    write = cluster.state.begin(None)
    write.put_node(replace(next(iter(cluster.state.nodes.values())), status="down"))
    write.commit()
    assert (len(cluster.log), cluster.state.index) == (batches, index + 1)
