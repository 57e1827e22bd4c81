"""How jobs stand, by the cluster's own tables."""

from __future__ import annotations

import pytest

from poseidon_reconciler.app.demo.truth import Standing, Truth, environment_of
from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.listening import listen
from poseidon_reconciler.twin.poseidon_jobs import Work, runner_job, with_config
from poseidon_reconciler.twin.tasks import TaskRun
from tests.demo.clusters import ENVIRONMENT, empty, fill, key
from tests.twin.labs import newest


@pytest.fixture
def cluster() -> Cluster:
    return empty()


@pytest.fixture
def truth(cluster: Cluster) -> Truth:
    truth = Truth(cluster)
    listen(cluster, truth.take)
    fill(cluster)
    return truth


def standing(truth: Truth, job_id: str = "10-0") -> Standing:
    return truth.jobs[key(job_id)]


def test_a_running_runner_is_idle_and_its_environment_full(truth: Truth) -> None:
    assert standing(truth).idle
    assert (truth.targets, truth.idle("10"), truth.all_full) == ({"10": 3}, 3, True)


def test_a_used_runner_runs_and_is_not_idle(cluster: Cluster, truth: Truth) -> None:
    cluster.jobs.register(with_config(dict(cluster.state.jobs[key("10-0")].spec), used="true"))
    cluster.run_for(1)
    assert (standing(truth).runs, standing(truth).idle, truth.all_full) == (True, False, False)


def test_a_runner_that_starts_is_coming_on_its_node(cluster: Cluster, truth: Truth) -> None:
    cluster.script.tell("10-new", TaskRun(start_s=5.0))
    before = cluster.state.index
    cluster.jobs.register(runner_job("10-new"))
    cluster.run_for(2)
    assert standing(truth, "10-new").coming
    assert truth.starting_per_node(before) == {newest(cluster, key("10-new")).node_name: 1}
    assert truth.starting_per_node(cluster.state.index) == {}


def test_a_runner_that_waits_for_capacity_is_coming_nowhere(cluster: Cluster, truth: Truth) -> None:
    cluster.jobs.register(runner_job("10-big", Work(cpu_mhz=99_999)))
    cluster.run_for(2)
    assert (standing(truth, "10-big").coming, standing(truth, "10-big").starting_on) == (True, "")


def test_on_a_machine_that_drains_nothing_is_idle(cluster: Cluster, truth: Truth) -> None:
    cluster.nodes.drain(newest(cluster, key("10-0")).node_id, 100.0)
    cluster.run_for(1)
    assert (standing(truth).runs, standing(truth).idle, standing(truth).counts_since) == (True, False, None)


def test_what_cannot_be_seen_is_out_of_reach(cluster: Cluster, truth: Truth) -> None:
    fill(cluster, disconnect={"LostAfter": 3600 * 10**9, "Replace": False})
    agent = cluster.agent_of(newest(cluster, key("10-0")).node_id)
    assert agent is not None
    agent.cut()
    cluster.run_for(10)
    assert (standing(truth).out_of_reach, standing(truth).idle, standing(truth).coming) == (True, False, False)
    assert truth.containers()[key("10-0")] == 1


def test_it_counts_since_it_began_to(cluster: Cluster, truth: Truth) -> None:
    since = standing(truth).counts_since
    assert since is not None
    cluster.jobs.register(with_config(dict(cluster.state.jobs[key("10-0")].spec), other="x"))
    cluster.run_for(5)
    assert standing(truth).counts_since == since


def test_a_job_that_stays_dead_is_lost_and_a_stopped_one_is_not(cluster: Cluster, truth: Truth) -> None:
    cluster.jobs.register(runner_job("10-done", Work(("sleep", "1"))))
    cluster.jobs.deregister(key("10-0"))
    cluster.run_for(5)
    assert truth.lost == set()
    truth.settle()
    assert truth.lost == {key("10-done")}


def test_a_lost_job_stays_lost_when_it_is_cleared_away(cluster: Cluster, truth: Truth) -> None:
    cluster.jobs.register(runner_job("10-done", Work(("sleep", "1"))))
    cluster.run_for(5)
    cluster.jobs.deregister(key("10-done"), purge=True)
    cluster.run_for(1)
    assert truth.lost == {key("10-done")}
    assert key("10-done") not in truth.jobs


def test_without_its_own_job_an_environment_is_not_full(cluster: Cluster, truth: Truth) -> None:
    cluster.jobs.deregister(ENVIRONMENT, purge=True)
    cluster.run_for(1)
    assert (truth.targets, truth.idle("10"), truth.all_full) == ({"10": 3}, 3, False)


@pytest.mark.parametrize(
    ("job_id", "environment"),
    [("template-10", "10"), ("10-a-b", "10"), ("7-x", "7"), ("job", None), ("template-x", None)],
)
def test_ids_name_their_environment(job_id: str, environment: str | None) -> None:
    assert environment_of(key(job_id)) == environment
