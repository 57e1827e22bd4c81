"""What counts as there when nothing has gone wrong for a while."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from poseidon_reconciler.app.simulation.promises import Promises
from poseidon_reconciler.app.simulation.rest import Rest
from poseidon_reconciler.app.simulation.truth import Truth
from poseidon_reconciler.policy import Policy, PoolPolicy
from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.listening import listen
from poseidon_reconciler.twin.poseidon_jobs import Work, environment_job
from tests.twin.labs import lab, newest, with_runner


def ended_out_of_sight(last_word: str) -> tuple[Cluster, Truth]:
    """An environment's own job that is dead, and whose newest allocation was on a machine that lost its disk."""
    cluster = lab(1)
    truth = Truth(cluster)
    listen(cluster, truth.take)
    job, _ = cluster.jobs.register(environment_job(10, 0))
    cluster.run_for(3)
    agent = cluster.agents["agent-1"]
    # Its first allocation passes for its success then: none is placed in the end.
    agent.cut()
    cluster.run_for(10)
    agent.heal()
    cluster.run_for(5)
    agent.lose_disk()
    agent.start()
    cluster.run_for(20)
    write = cluster.state.begin("AllocationUpdated")
    write.put_allocation(replace(newest(cluster, job.key), client_status=last_word))
    write.commit()
    return cluster, truth


def is_at_rest(cluster: Cluster, truth: Truth, policy: str) -> bool:
    pool = PoolPolicy(disconnect_policy=policy)
    rest = Rest(cluster, truth, Promises(cluster, truth), Policy(pool=pool))
    return rest.reached([], cluster.now - 600)


@pytest.mark.parametrize("last_word", ["lost", "running"])
@pytest.mark.parametrize(
    ("policy", "counts", "counts_for_ever"),
    [("at-least", False, False), ("exactly", True, False), ("leave-alone", True, True)],
)
def test_a_copy_out_of_sight_counts_as_its_policy_says(
    policy: str, counts: bool, counts_for_ever: bool, last_word: str
) -> None:
    cluster, truth = ended_out_of_sight(last_word)
    assert is_at_rest(cluster, truth, policy) is counts

    cluster.collector.remove_nodes()
    cluster.run_for(1)

    assert is_at_rest(cluster, truth, policy) is counts_for_ever


def life(policy: Policy, *, poisoned: bool) -> Any:
    """A reconciler that follows the cluster and says nothing else of it."""
    refill = SimpleNamespace(poison=SimpleNamespace(of=lambda _: "image" if poisoned else None))
    planner = SimpleNamespace(pauses=SimpleNamespace(current=lambda _: []), refill=refill)
    core = SimpleNamespace(policy=policy, planner=planner, diagnosis=SimpleNamespace(pools={}))
    return SimpleNamespace(ending=False, controller=SimpleNamespace(synced=True), core=core, clock=lambda: 0.0)


@pytest.mark.parametrize(
    ("poisoned", "cpu_mhz", "rests"),
    [([True], 3000, True), ([True, True], 3000, True), ([True, False], 3000, False), ([True], 10, False)],
)
def test_one_that_is_tried_and_waits_for_room_excuses_the_others(
    poisoned: list[bool], cpu_mhz: int, rests: bool
) -> None:
    cluster = lab(1)
    truth = Truth(cluster)
    listen(cluster, truth.take)
    cluster.jobs.register(environment_job(10, 3))
    for name in ("10-a", "10-b"):
        with_runner(cluster, Work(cpu_mhz=cpu_mhz), name=name)
    policy = Policy()
    rest = Rest(cluster, truth, Promises(cluster, truth), policy)

    assert rest.reached([life(policy, poisoned=each) for each in poisoned], cluster.now - 600) is rests
