"""The promises: each is broken here on purpose, and must be noticed on the cluster itself."""

from __future__ import annotations

from typing import Any

import pytest

from poseidon_reconciler.app.demo.watch import Watch
from poseidon_reconciler.nomad.documents import stopped
from poseidon_reconciler.policy import PacePolicy, Policy, PoolPolicy
from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.poseidon_jobs import runner_job, with_config
from poseidon_reconciler.twin.records import JobKey
from poseidon_reconciler.twin.tasks import TaskRun
from tests.demo.clusters import ENVIRONMENT, STAMP, create, document, empty, fill, key, protect, revive
from tests.twin.labs import newest

AWAY_S = 8.0


@pytest.fixture
def cluster() -> Cluster:
    return empty()


def watching(cluster: Cluster, others: set[JobKey] | None = None, unseen_s: float = 1.0, **pool: Any) -> Watch:
    policy = Policy(pool=PoolPolicy(**pool), pace=PacePolicy(max_starting_per_node=2))
    removed = others if others is not None else set()
    return Watch(cluster, policy, others_removed=lambda: removed, unseen_s=unseen_s)


def cut_off(cluster: Cluster, job_id: str) -> None:
    """The agent of a job loses its servers, for longer than they wait."""
    agent = cluster.agent_of(newest(cluster, key(job_id)).node_id)
    assert agent is not None
    agent.cut()
    cluster.run_for(AWAY_S)


def test_what_is_done_as_promised_is_counted(cluster: Cluster) -> None:
    watch = watching(cluster)
    fill(cluster, runners=2)
    create(cluster, "10-new")
    protect(cluster, "10-0")
    revive(cluster)
    cluster.jobs.deregister(key("10-1"))
    cluster.run_for(3)
    assert (watch.created, watch.protected, watch.revived) == ({key("10-new")}, {key("10-0")}, {ENVIRONMENT})
    assert watch.broken == ["10-1 was deregistered while it was idle"]
    assert watch.removed == {key("10-1")}


def test_an_environment_that_is_registered_anew_is_revived(cluster: Cluster) -> None:
    watch = watching(cluster)
    fill(cluster)
    cluster.jobs.deregister(ENVIRONMENT, purge=True)
    cluster.run_for(1)
    cluster.jobs.register(with_config(document_of_a_template(cluster), **{"poseidon-reconciler.created-by": "x"}))
    assert watch.revived == {ENVIRONMENT}


def document_of_a_template(cluster: Cluster) -> dict[str, Any]:
    return {**document(cluster, key("10-0")), "ID": "template-10", "Name": "template-10"}


def test_what_others_do_is_not_ours(cluster: Cluster) -> None:
    watch = watching(cluster, others={key("10-0")})
    fill(cluster)
    cluster.jobs.deregister(key("10-0"), purge=True)
    cluster.jobs.register(runner_job("10-poseidons"))
    cluster.jobs.register(with_config(dict(cluster.state.jobs[key("10-1")].spec), used="true"))
    cluster.run_for(3)
    assert (watch.broken, watch.created, watch.protected, watch.removed) == ([], set(), set(), set())


def test_a_runner_too_many(cluster: Cluster) -> None:
    watch = watching(cluster)
    fill(cluster)
    create(cluster, "10-new")
    assert watch.broken == ["environment 10 was given a runner that made 4, where 3 are wanted"]


def test_surge_allows_for_more(cluster: Cluster) -> None:
    watch = watching(cluster, surge=1)
    fill(cluster)
    create(cluster, "10-new")
    assert watch.broken == []


def test_what_nobody_could_know_yet_is_no_excess(cluster: Cluster) -> None:
    watch = watching(cluster, unseen_s=10.0)
    fill(cluster, runners=2)
    cluster.run_for(20)
    cluster.jobs.register(runner_job("10-poseidons"))
    cluster.run_for(1)
    create(cluster, "10-new")
    assert watch.broken == []


def test_one_loss_is_replaced_once(cluster: Cluster) -> None:
    watch = watching(cluster)
    fill(cluster, runners=0)
    create(cluster, "10-a", replaces="10-lost")
    create(cluster, "10-b", replaces="10-lost")
    assert watch.broken == ["10-lost was replaced 2 times"]


def test_too_many_at_once_for_the_nodes(cluster: Cluster) -> None:
    watch = watching(cluster)
    fill(cluster, target=20, runners=0)
    cluster.script.tell("10-", TaskRun(start_s=30.0), prefix=True)
    for number in range(6):
        create(cluster, f"10-{number}")
    cluster.run_for(1)
    assert watch.broken == []
    create(cluster, "10-6")
    cluster.run_for(1)
    create(cluster, "10-7")
    assert watch.broken == ["7 new runners were starting on 3 ready nodes"]


def test_too_many_within_a_short_time(cluster: Cluster) -> None:
    watch = watching(cluster)
    fill(cluster, target=100, runners=0)
    for number in range(64):
        create(cluster, f"10-{number}")
    assert watch.broken == ["64 runners were created within 10 s"]


def test_a_used_runner_is_taken_away(cluster: Cluster) -> None:
    watch = watching(cluster)
    fill(cluster)
    cluster.jobs.register(with_config(dict(cluster.state.jobs[key("10-0")].spec), used="true"))
    cluster.run_for(1)
    cluster.jobs.deregister(key("10-0"))
    assert watch.broken == ["10-0 was deregistered while it was in use"]


def test_a_used_runner_that_is_over_may_be_cleared_away(cluster: Cluster) -> None:
    watch = watching(cluster)
    fill(cluster)
    cluster.jobs.register(with_config(dict(cluster.state.jobs[key("10-0")].spec), used="true"))
    cluster.run_for(1)
    agent = cluster.agent_of(newest(cluster, key("10-0")).node_id)
    assert agent is not None
    agent.reboot()
    cluster.jobs.deregister(key("10-0"))
    assert watch.broken == []


def trim(cluster: Cluster, job_id: str) -> None:
    """What the reconciler does for `stop-surplus`."""
    cluster.jobs.register(stopped(document(cluster, key(job_id)), STAMP))
    for purge in (False, True):
        cluster.jobs.deregister(key(job_id), purge=purge)


def test_surplus_is_stopped_where_somebody_wants_that(cluster: Cluster) -> None:
    watch = watching(cluster, surplus="trim")
    fill(cluster, target=3, runners=5)
    cluster.run_for(5)
    trim(cluster, "10-3")
    watch.look_for_surplus()
    assert watch.broken == ["environment 10 was left with 4 idle runners, where 3 are wanted"]
    watch.broken.clear()
    trim(cluster, "10-4")
    watch.look_for_surplus()
    assert watch.broken == []
    assert (watch.trimmed, watch.removed) == ({key("10-3"), key("10-4")}, set())
    trim(cluster, "10-2")
    assert watch.broken == ["10-2 was stopped as surplus, and 2 of 3 were left"]


def test_surplus_is_stopped_where_it_is_only_to_be_reported(cluster: Cluster) -> None:
    watch = watching(cluster)
    fill(cluster, target=3, runners=4)
    cluster.run_for(5)
    trim(cluster, "10-3")
    assert watch.broken == ["10-3 was stopped although surplus is only to be reported"]


def test_a_runner_is_stopped_as_surplus_that_somebody_has_claimed(cluster: Cluster) -> None:
    watch = watching(cluster, surplus="trim")
    fill(cluster, target=3, runners=5)
    cluster.jobs.register(with_config(dict(cluster.state.jobs[key("10-4")].spec), used="true"))
    cluster.run_for(5)
    trim(cluster, "10-4")
    assert watch.broken == ["10-4 was stopped as surplus although it was in use"]


def test_whoever_stops_surplus_cannot_know_who_has_left_a_moment_before(cluster: Cluster) -> None:
    watch = watching(cluster, others={key("10-0")}, surplus="trim")
    fill(cluster, target=3, runners=4)
    cluster.run_for(5)
    cluster.jobs.deregister(key("10-0"), purge=True)
    trim(cluster, "10-3")
    assert watch.broken == []


def test_an_environment_is_taken_away(cluster: Cluster) -> None:
    watch = watching(cluster)
    fill(cluster)
    cluster.jobs.deregister(ENVIRONMENT)
    assert watch.broken == ["the environment's own job template-10 was deregistered"]


def test_a_version_of_ours_restarts_a_runner(cluster: Cluster) -> None:
    watch = watching(cluster)
    fill(cluster)
    changed = with_config(document(cluster, key("10-0")), **{"poseidon-reconciler.protected": "x"})
    cluster.jobs.register({**changed, "Meta": {"a": "b"}})
    cluster.run_for(2)
    assert watch.broken == ["10-0 was restarted by a version of ours"]


def test_a_version_of_somebody_else_that_restarts_a_runner_is_not_ours(cluster: Cluster) -> None:
    watch = watching(cluster)
    fill(cluster)
    protect(cluster, "10-0")
    cluster.run_for(1)
    cluster.jobs.register({**document(cluster, key("10-0")), "Meta": {"a": "b"}})
    cluster.run_for(2)
    assert watch.broken == []


@pytest.mark.parametrize(("policy", "broken"), [("at-least", 0), ("leave-alone", 1), ("exactly", 1)])
def test_a_runner_out_of_sight_is_replaced(cluster: Cluster, policy: str, broken: int) -> None:
    watch = watching(cluster, disconnect_policy=policy)
    fill(cluster, disconnect={"LostAfter": 3600 * 10**9, "Replace": False})
    cut_off(cluster, "10-0")
    create(cluster, "10-new", replaces="10-0")
    assert len(watch.broken) == broken


def test_an_exactly_pool_is_refilled_while_a_purged_copy_still_runs(cluster: Cluster) -> None:
    watch = watching(cluster, others={key("10-0")}, disconnect_policy="exactly")
    fill(cluster)
    cut_off(cluster, "10-0")
    cluster.jobs.deregister(key("10-0"), purge=True)
    cluster.run_for(5)
    create(cluster, "10-new")
    assert watch.broken == ["environment 10 was given a runner that made 4, where 3 are wanted"]


def test_a_version_of_ours_brings_a_second_copy_to_life(cluster: Cluster) -> None:
    watch = watching(cluster, disconnect_policy="exactly")
    fill(cluster, disconnect={"StopOnClientAfter": 60 * 10**9})
    cut_off(cluster, "10-0")
    protect(cluster, "10-0")
    cluster.run_for(5)
    assert watch.broken == ["10-0 ran twice at once after a version of ours"]


def test_the_peak_of_new_runners_on_a_node(cluster: Cluster) -> None:
    watch = watching(cluster)
    fill(cluster, target=9, runners=0)
    cluster.script.tell("10-", TaskRun(start_s=5.0), prefix=True)
    for number in range(9):
        cluster.jobs.register(runner_job(f"10-{number}"))
    cluster.run_for(10)
    assert watch.peak_starting == 0
    watch.failure_begins()
    for number in range(9, 15):
        cluster.jobs.register(runner_job(f"10-{number}"))
    cluster.run_for(10)
    assert watch.peak_starting == 2
