"""Those who watch over trims and over poisoned environments: what each of them takes for a broken promise."""

from __future__ import annotations

import pytest

from poseidon_reconciler.app.simulation.broken import BrokenError
from poseidon_reconciler.app.simulation.life import Deed, Life
from poseidon_reconciler.app.simulation.poison import PoisonWatch
from poseidon_reconciler.app.simulation.trims import TrimWatch
from poseidon_reconciler.app.simulation.truth import NAMESPACE, Truth
from poseidon_reconciler.core.ledger import Action, ActionKind
from poseidon_reconciler.policy import Policy, PoolPolicy
from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.listening import listen
from poseidon_reconciler.twin.poseidon_jobs import Work, environment_job, runner_job, with_config
from poseidon_reconciler.twin.tasks import TaskRun
from tests.twin.labs import lab

TRIM = Policy(pool=PoolPolicy(surplus="trim", settle_s=10.0))
EPOCH = 0


class _Place:
    name = "R1"
    clock_set_at = 0.0


class _Life:
    name = "R1.1"
    place = _Place()


LIFE: Life = _Life()  # type: ignore[assignment]


class Pool:
    """A pool with a target of 3, and its truth."""

    def __init__(self, runners: int = 5) -> None:
        self.cluster: Cluster = lab()
        self.truth = Truth(self.cluster)
        listen(self.cluster, self.truth.take)
        self.cluster.jobs.register(environment_job(10, 3))
        for number in range(runners):
            self.cluster.jobs.register(runner_job(f"10-{number}"))
        self.cluster.run_for(30)
        self.trims = TrimWatch(self.cluster, self.truth)

    def deed(self, job_id: str, kind: ActionKind = "stop-surplus", policy: Policy = TRIM) -> Deed:
        """What is decided now by somebody who knows everything."""
        now = self.cluster.now
        return Deed(Action(now, kind, "10", job_id, ""), LIFE, now, self.cluster.state.index, EPOCH, policy)

    def claim(self, job_id: str) -> None:
        self.cluster.jobs.register(with_config(dict(self.cluster.state.jobs[NAMESPACE, job_id].spec), used="true"))

    def stop(self, deed: Deed) -> None:
        """What is written when an action of surplus is carried out."""
        job = self.cluster.state.jobs[NAMESPACE, deed.action.job_id]
        before = self.truth.jobs[job.key]
        self.cluster.jobs.register({**job.spec, "Stop": True})
        self.trims.stopped(job.id, deed, before, EPOCH)


def test_surplus_may_be_stopped_down_to_the_target() -> None:
    pool = Pool(runners=5)
    both = [pool.deed("10-3"), pool.deed("10-4")]
    for deed in both:
        pool.trims.decided(deed)
    for deed in both:
        pool.stop(deed)


def test_one_more_is_too_much_even_if_it_was_decided_together_with_the_others() -> None:
    pool = Pool(runners=5)
    deeds = [pool.deed(f"10-{number}") for number in (2, 3, 4)]
    pool.stop(deeds[0])
    pool.stop(deeds[1])
    with pytest.raises(BrokenError, match="10-4 was stopped as surplus where 3 were idle and 3 are wanted"):
        pool.stop(deeds[2])


def test_what_went_after_the_decision_nobody_could_know() -> None:
    pool = Pool(runners=4)
    deed = pool.deed("10-3")
    pool.cluster.jobs.deregister((NAMESPACE, "10-0"))
    pool.stop(deed)
    with pytest.raises(BrokenError, match="where 2 were idle"):
        pool.stop(pool.deed("10-2"))


def test_a_claim_must_never_be_lost() -> None:
    pool = Pool()
    deed = pool.deed("10-4")
    pool.claim("10-4")
    with pytest.raises(BrokenError, match="10-4 was stopped as surplus while it was in use"):
        pool.stop(deed)


def test_whoever_was_told_of_a_claim_waits() -> None:
    pool = Pool(runners=8)
    early = pool.deed("10-5")
    pool.claim("10-0")
    pool.stop(early)
    pool.cluster.run_for(9)
    with pytest.raises(BrokenError, match=r"10-4 was stopped as surplus 9\.0 s after a claim"):
        pool.stop(pool.deed("10-4"))
    pool.cluster.run_for(2)
    pool.stop(pool.deed("10-3"))


def test_a_claim_that_a_restore_brings_back_is_none_of_now() -> None:
    pool = Pool(runners=8)
    pool.claim("10-0")
    pool.cluster.run_for(60)
    pool.truth.begin_anew()
    pool.stop(pool.deed("10-4"))


def test_only_where_somebody_wants_it_and_a_few_at_a_time() -> None:
    pool = Pool(runners=8)
    with pytest.raises(BrokenError, match="only to be reported"):
        pool.trims.decided(pool.deed("10-7", policy=Policy()))
    first = pool.deed("10-7")
    pool.trims.decided(first)
    pool.trims.decided(pool.deed("10-6"))
    with pytest.raises(BrokenError, match=r"R1\.1 stops 3 runners of 10 at once"):
        pool.trims.decided(pool.deed("10-5"))
    pool.trims.ended(first.action)
    pool.trims.decided(pool.deed("10-5"))


def test_what_is_not_idle_is_left_alone() -> None:
    pool = Pool(runners=4)
    pool.cluster.script.tell("10-x", TaskRun(start_s=60.0))
    pool.cluster.jobs.register(runner_job("10-x"))
    pool.cluster.run_for(5)
    with pytest.raises(BrokenError, match="10-x was stopped as surplus although it was not idle"):
        pool.stop(pool.deed("10-x"))


def test_a_pool_in_which_all_new_ones_fail_is_not_refilled_for_ever() -> None:
    pool = Pool(runners=0)
    pool.cluster.script.tell("10-", TaskRun(image="fail", message="no such image"), prefix=True)
    created: list[str] = []
    watch = PoisonWatch(pool.truth, created)
    with pytest.raises(BrokenError, match="was wanted although 7 like it have failed within 60 s"):  # noqa: PT012
        for number in range(10):
            created.append(f"10-{number}")
            watch.decided(pool.deed(created[-1], "create-runner"))
            pool.cluster.jobs.register(runner_job(created[-1], Work(restarts=0, reschedules=0)))
            pool.cluster.run_for(4)
    assert len(created) == 8

    pool.cluster.script.forget("10-")
    pool.cluster.jobs.register(runner_job("10-7"))
    pool.cluster.run_for(4)
    watch.decided(pool.deed("10-8", "create-runner"))


@pytest.mark.parametrize("removed_by_itself", [False, True])
def test_what_others_have_cleared_away_counts_as_purged(removed_by_itself: bool) -> None:
    pool = Pool(runners=0)
    pool.cluster.script.tell("10-", TaskRun(image="fail", message="no such image"), prefix=True)
    watch = PoisonWatch(pool.truth, [])
    for number in range(7):
        deed = pool.deed(f"10-{number}", "create-runner")
        watch.decided(deed)
        pool.cluster.jobs.register(runner_job(f"10-{number}", Work(restarts=0, reschedules=0)))
        pool.cluster.run_for(4)
        pool.cluster.jobs.deregister((NAMESPACE, f"10-{number}"), purge=True)
        if removed_by_itself:
            watch.removed(f"10-{number}", deed)
    one_more = pool.deed("10-8", "create-runner")
    if removed_by_itself:
        with pytest.raises(BrokenError, match="7 like it have failed"):
            watch.decided(one_more)
    else:
        watch.decided(one_more)
