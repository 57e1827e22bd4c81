"""The trap that kills batch jobs, the way out of it, and what else is decided about allocations."""

from __future__ import annotations

import pytest

from poseidon_reconciler.twin import reconcile as rec
from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.poseidon_jobs import Work, runner_job, with_config
from poseidon_reconciler.twin.records import JobKey
from tests.twin.labs import job_of, lab, newest, statuses, with_runner


def survivor(version: str = "1.1.2", work: Work = Work()) -> tuple[Cluster, JobKey]:  # noqa: B008 - immutable
    """A job that runs beside an unlinked allocation of its version, which its agent says is complete."""
    cluster = lab(1, version=version)
    key = with_runner(cluster, work)
    (agent,) = cluster.agents.values()
    agent.stop()
    cluster.run_for(15)
    agent.start()
    cluster.run_for(15)
    return cluster, key


def evaluate(cluster: Cluster, key: JobKey) -> None:
    cluster.jobs.evaluate(key)
    cluster.run_for(3)


def test_a_survivor_is_condemned_by_its_next_evaluation() -> None:
    cluster, key = survivor()
    old, new = cluster.state.allocations_of(key)
    assert (old.client_status, old.desired_status, old.next_id) == ("complete", "stop", "")
    assert (new.client_status, new.desired_status, new.previous_id) == ("running", "run", "")
    evaluate(cluster, key)
    new = newest(cluster, key)
    assert (new.client_status, new.desired_description) == ("complete", rec.NOT_NEEDED)
    assert (job_of(cluster, key).status, job_of(cluster, key).stop) == ("dead", False)


def test_a_new_version_in_place_saves_it() -> None:
    cluster, key = survivor()
    before = newest(cluster, key)
    cluster.jobs.register(with_config(dict(job_of(cluster, key).spec), protected="1"))
    cluster.run_for(1)
    evaluate(cluster, key)
    after = newest(cluster, key)
    assert (after.id, after.desired_status, after.client_status) == (before.id, "run", "running")
    assert after.job.version == 1
    assert after.task_states == before.task_states


def test_an_unchanged_registration_kills_it() -> None:
    cluster, key = survivor()
    cluster.jobs.register(runner_job("10-a"))
    cluster.run_for(3)
    assert job_of(cluster, key).status == "dead"


@pytest.mark.parametrize(
    ("version", "status"), [("1.10.5", "dead"), ("1.11.1", "dead"), ("1.11.2", "running"), ("2.0.5", "running")]
)
def test_newer_servers_have_lost_the_trap(version: str, status: str) -> None:
    cluster, key = survivor(version)
    evaluate(cluster, key)
    assert job_of(cluster, key).status == status


def test_a_dead_job_stays_dead_until_it_is_changed() -> None:
    cluster, key = survivor()
    evaluate(cluster, key)
    cluster.jobs.register(runner_job("10-a"))
    cluster.jobs.evaluate(key, force_reschedule=True)
    cluster.run_for(3)
    assert job_of(cluster, key).status == "dead"
    cluster.jobs.register(with_config(dict(job_of(cluster, key).spec), revived="1"))
    cluster.run_for(3)
    assert job_of(cluster, key).status == "running"


def test_with_room_elsewhere_a_loss_is_linked_and_harmless() -> None:
    cluster = lab(2)
    key = with_runner(cluster)
    agent = cluster.agent_of(newest(cluster, key).node_id)
    assert agent is not None
    agent.stop()
    cluster.run_for(15)
    agent.start()
    cluster.run_for(15)
    evaluate(cluster, key)
    old, new = cluster.state.allocations_of(key)
    assert (old.next_id, new.previous_id) == (new.id, old.id)
    assert statuses(cluster, key) == ["complete/stop", "running/run"]


def test_the_agent_itself_may_have_to_stop_first() -> None:
    cluster = lab(2)
    key = with_runner(cluster, Work(stop_after_s=10.0))
    agent = cluster.agent_of(newest(cluster, key).node_id)
    assert agent is not None
    agent.freeze()
    cluster.run_for(10)
    assert statuses(cluster, key) == ["lost/stop"]
    followup = cluster.state.evaluations[newest(cluster, key).followup_evaluation_id]
    assert followup.status == "pending"
    lost_at = newest(cluster, key).lost_at
    assert lost_at is not None
    assert followup.wait_until == pytest.approx(lost_at + 15.0)
    cluster.run_for(15)
    assert statuses(cluster, key) == ["lost/stop", "running/run"]
    assert newest(cluster, key).previous_id == ""


@pytest.mark.parametrize("is_stopped", [True, False])
def test_what_was_to_stop_where_nobody_heard_of_it_is_lost_with_its_node(is_stopped: bool) -> None:
    cluster, key = survivor()
    (agent,) = cluster.agents.values()
    agent.cut()
    if is_stopped:
        cluster.jobs.deregister(key)
    else:
        cluster.jobs.evaluate(key)
    cluster.run_for(0.5)
    assert statuses(cluster, key) == ["complete/stop", "running/stop"]
    cluster.run_for(10)
    assert statuses(cluster, key) == ["complete/stop", "lost/stop"]
    assert newest(cluster, key).desired_description == rec.LOST
    agent.heal()
    cluster.run_for(10)
    assert statuses(cluster, key) == ["complete/stop", "complete/stop"]


def disconnected(work: Work) -> tuple[Cluster, JobKey]:
    cluster = lab(2, version="1.10.5")
    key = with_runner(cluster, work)
    agent = cluster.agent_of(newest(cluster, key).node_id)
    assert agent is not None
    agent.cut()
    cluster.run_for(10)
    return cluster, key


def test_a_disconnected_allocation_is_unknown_and_replaced() -> None:
    cluster, key = disconnected(Work(lost_after_s=60.0))
    assert statuses(cluster, key) == ["unknown/run", "running/run"]
    old, new = cluster.state.allocations_of(key)
    assert (cluster.state.nodes[old.node_id].status, new.previous_id) == ("disconnected", old.id)


def test_of_two_the_one_that_came_back_is_kept() -> None:
    cluster, key = disconnected(Work(lost_after_s=60.0))
    for agent in cluster.agents.values():
        agent.heal()
    cluster.run_for(5)
    old, new = cluster.state.allocations_of(key)
    assert statuses(cluster, key) == ["running/run", "complete/stop"]
    assert new.desired_description == rec.RECONNECTED
    assert old.unknown_at is None
    assert job_of(cluster, key).status == "running"


def test_after_its_time_a_disconnected_allocation_is_lost_and_its_node_down() -> None:
    cluster, key = disconnected(Work(lost_after_s=20.0))
    node_id = cluster.state.allocations_of(key)[0].node_id
    cluster.run_for(9)
    assert cluster.state.nodes[node_id].status == "disconnected"
    cluster.run_for(21)
    assert statuses(cluster, key) == ["lost/stop", "running/run"]
    assert cluster.state.nodes[node_id].status == "down"


def test_older_servers_know_no_disconnect() -> None:
    cluster = lab(2, version="1.1.2")
    key = with_runner(cluster, Work(lost_after_s=60.0))
    agent = cluster.agent_of(newest(cluster, key).node_id)
    assert agent is not None
    agent.cut()
    cluster.run_for(10)
    assert statuses(cluster, key) == ["lost/stop", "running/run"]


def test_too_many_are_stopped_and_too_few_are_placed() -> None:
    cluster = lab()
    raw = runner_job("10-a")
    raw["TaskGroups"][0]["Count"] = 3
    job, _ = cluster.jobs.register(raw)
    cluster.run_for(3)
    assert statuses(cluster, job.key) == ["running/run"] * 3
    raw["TaskGroups"][0]["Count"] = 1
    cluster.jobs.register(raw)
    cluster.run_for(3)
    assert statuses(cluster, job.key) == ["running/run", "complete/stop", "complete/stop"]
    raw["TaskGroups"][0]["Count"] = 2
    cluster.jobs.register(raw)
    cluster.run_for(3)
    assert [a.index for a in cluster.state.allocations_of(job.key) if not a.terminal] == [0, 1]
