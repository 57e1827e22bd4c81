"""The model of Poseidon, in the cluster's own time."""

from __future__ import annotations

from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.poseidon import Habits, Poseidon
from poseidon_reconciler.twin.poseidon_jobs import Work, config_of, environment_job, runner_job
from poseidon_reconciler.twin.records import JobKey
from tests.twin.labs import lab, newest, with_runner

ENVIRONMENT: JobKey = ("default", "template-10")
PATIENT = Habits(alert_after_s=300.0)


class Pool:
    """A cluster with environment 10, so many of its runners, and a Poseidon that has read them."""

    def __init__(self, target: int = 4, runners: int = 4, habits: Habits = PATIENT, work: Work | None = None) -> None:
        self.cluster: Cluster = lab()
        work = work if work is not None else Work()
        self.cluster.jobs.register(environment_job(10, target, work))
        for number in range(runners):
            self.cluster.jobs.register(runner_job(f"10-{number}", work))
        self.cluster.run_for(3)
        self.notes: list[str] = []
        self.poseidon = Poseidon(self.cluster, habits, note=lambda text, job_id: self.notes.append(f"{text} {job_id}"))
        self.poseidon.start()

    @property
    def idle(self) -> list[str]:
        return sorted(self.poseidon.pools[10].idle)

    def job_ids(self, status: str = "running") -> list[str]:
        return sorted(
            job.id for job in self.cluster.state.jobs.values() if job.status == status and job.key != ENVIRONMENT
        )

    def used(self) -> list[str]:
        jobs = self.cluster.state.jobs.values()
        return [job.id for job in jobs if config_of(dict(job.spec))["used"] == "true"]

    def restart_agents(self, away_s: float = 20.0) -> None:
        for agent in self.cluster.agents.values():
            agent.stop()
        self.cluster.run_for(away_s)
        for agent in self.cluster.agents.values():
            agent.start()


def test_it_holds_what_runs_and_orders_what_is_missing_at_its_start() -> None:
    pool = Pool(target=4, runners=3)
    assert pool.idle == ["10-0", "10-1", "10-2"]
    assert len(pool.poseidon.ordered) == 1
    pool.cluster.run_for(2)
    assert pool.idle == sorted(["10-0", "10-1", "10-2", *pool.poseidon.ordered])


def test_it_adopts_a_new_runner_of_somebody_else() -> None:
    pool = Pool()
    with_runner(pool.cluster, name="10-new")
    assert "10-new" in pool.idle


def test_it_ignores_jobs_that_are_no_runners_of_an_environment_that_it_knows() -> None:
    pool = Pool()
    for name in ("11-a", "template-10-a", "x-10"):
        with_runner(pool.cluster, name=name)
    assert len(pool.idle) == 4


def test_a_claim_is_marked_a_moment_later_and_refilled_at_once() -> None:
    pool = Pool()
    claimed = pool.poseidon.claim(10)
    assert claimed is not None
    assert claimed not in pool.idle
    assert pool.used() == []
    pool.cluster.run_for(2)
    assert pool.used() == [claimed]
    assert len(pool.idle) == 4


def test_a_used_runner_is_deleted_when_its_time_is_up() -> None:
    pool = Pool(habits=Habits(use_s=30.0))
    claimed = pool.poseidon.claim(10)
    pool.cluster.run_for(29)
    assert claimed in pool.job_ids()
    pool.cluster.run_for(2)
    assert ("default", claimed) not in pool.cluster.state.jobs
    assert pool.poseidon.purged == {claimed: "returned"}
    assert len(pool.idle) == 4


def test_learners_come_until_they_are_told_to_stop() -> None:
    pool = Pool(habits=Habits(claims_per_minute=60.0, use_s=10.0))
    pool.cluster.run_for(30)
    ordered = len(pool.poseidon.ordered)
    assert 15 <= ordered <= 45
    pool.poseidon.stop_claims()
    pool.cluster.run_for(30)
    assert len(pool.poseidon.ordered) == ordered
    assert len(pool.idle) == 4


def test_without_an_idle_runner_a_claim_is_refused() -> None:
    pool = Pool(target=0, runners=0)
    assert pool.poseidon.claim(10) is None
    assert pool.poseidon.claim(99) is None
    assert pool.poseidon.refused == 2


def test_what_others_have_started_already_is_not_counted() -> None:
    pool = Pool(target=4, runners=4)
    for number in range(2):
        pool.cluster.jobs.register(runner_job(f"10-other-{number}"))
    pool.poseidon.claim(10)
    pool.cluster.run_for(3)
    assert len(pool.idle) == 6
    assert len(pool.poseidon.ordered) == 1


def test_a_surplus_is_left_and_eaten_up_by_claims() -> None:
    pool = Pool(target=4, runners=6)
    assert pool.poseidon.ordered == []
    pool.poseidon.claim(10)
    pool.poseidon.claim(10)
    assert pool.poseidon.ordered == []
    pool.poseidon.claim(10)
    assert len(pool.poseidon.ordered) == 1


def test_it_deletes_a_runner_whose_allocation_failed_for_good() -> None:
    failing = Work(("sh", "-c", "sleep 5; exit 1"), restarts=0, reschedules=0)
    pool = Pool(target=0, runners=0)
    with_runner(pool.cluster, failing, name="10-failing", run_s=2)
    assert pool.idle == ["10-failing"]
    pool.cluster.run_for(10)
    assert pool.poseidon.purged == {"10-failing": "ended"}
    assert ("default", "10-failing") not in pool.cluster.state.jobs


def test_it_deletes_a_runner_that_restarts_in_place() -> None:
    restarting = Work(("sh", "-c", "sleep 5; exit 1"), restarts=3, restart_delay_s=1.0)
    pool = Pool(target=0, runners=0)
    with_runner(pool.cluster, restarting, name="10-restarting", run_s=2)
    pool.cluster.run_for(6)
    assert pool.poseidon.purged == {"10-restarting": "ended"}


def test_it_keeps_a_runner_that_is_complete_although_it_should_run() -> None:
    pool = Pool(target=0, runners=0)
    with_runner(pool.cluster, Work(("sleep", "5")), name="10-done", run_s=2)
    pool.cluster.run_for(10)
    assert pool.job_ids("dead") == ["10-done"]
    assert pool.idle == ["10-done"]


def test_it_follows_a_runner_to_another_node() -> None:
    pool = Pool()
    next(iter(pool.cluster.agents.values())).stop()
    pool.cluster.run_for(10)
    assert pool.idle == ["10-0", "10-1", "10-2", "10-3"]
    assert pool.poseidon.purged == {}


def test_it_drops_a_runner_that_somebody_stopped() -> None:
    pool = Pool()
    pool.cluster.jobs.deregister(("default", "10-1"))
    pool.cluster.run_for(1)
    assert pool.idle == ["10-0", "10-2", "10-3"]
    assert pool.poseidon.purged == {}


def test_in_an_outage_it_deletes_what_was_on_the_last_nodes_and_drops_the_rest() -> None:
    pool = Pool(target=12, runners=12)
    pool.restart_agents()
    pool.cluster.run_for(30)
    ended = [job_id for job_id, why in pool.poseidon.purged.items() if why == "ended"]
    assert 1 <= len(ended) < 12
    assert len(pool.job_ids("running")) + len(pool.job_ids("dead")) == 12 - len(ended)


def test_a_pool_that_is_less_than_half_full_for_five_minutes_is_reloaded() -> None:
    pool = Pool(target=4, runners=4)
    for name in ("10-0", "10-1", "10-2"):
        pool.cluster.jobs.deregister(("default", name))
    pool.cluster.run_for(295)
    assert (pool.poseidon.is_alarmed, pool.poseidon.ordered) == (True, [])
    pool.cluster.run_for(10)
    assert (pool.poseidon.is_alarmed, pool.poseidon.ordered_by_alert) == (False, 3)
    assert len(pool.idle) == 4
    assert [note.rpartition(" ")[0] for note in pool.notes[:3]] == ["creates a runner"] * 3
    assert pool.notes[3:] == ["Prewarming Pool Alert, 3 runners ordered at once for template-10"]


def test_a_pool_that_is_half_full_is_left_so() -> None:
    pool = Pool(target=4, runners=4)
    for name in ("10-0", "10-1"):
        pool.cluster.jobs.deregister(("default", name))
    pool.cluster.run_for(1000)
    assert len(pool.idle) == 2
    assert pool.poseidon.ordered == []


def test_a_runner_that_comes_puts_the_alert_off() -> None:
    pool = Pool(target=8, runners=8)
    for number in range(6):
        pool.cluster.jobs.deregister(("default", f"10-{number}"))
    pool.cluster.run_for(200)
    with_runner(pool.cluster, name="10-late")
    pool.cluster.run_for(200)
    assert pool.poseidon.ordered == []
    pool.cluster.run_for(105)
    assert len(pool.poseidon.ordered) == 5


def test_a_restart_skips_an_environment_whose_job_does_not_run() -> None:
    pool = Pool()
    pool.cluster.jobs.deregister(ENVIRONMENT)
    pool.cluster.run_for(2)
    pool.poseidon.restart()
    assert pool.poseidon.pools == {}
    assert pool.notes == ["Job not running, skipping template-10"]
    with_runner(pool.cluster, name="10-new")
    assert pool.poseidon.claim(10) is None


def test_a_restart_takes_used_runners_over_with_their_mark() -> None:
    pool = Pool()
    claimed = pool.poseidon.claim(10)
    pool.cluster.run_for(2)
    pool.poseidon.restart()
    assert list(pool.poseidon.used) == [claimed]
    assert len(pool.idle) == 4


def test_a_claim_that_was_not_marked_is_forgotten_by_a_restart() -> None:
    pool = Pool()
    claimed = pool.poseidon.claim(10)
    pool.poseidon.restart()
    pool.cluster.run_for(2)
    assert claimed in pool.idle
    assert pool.used() == []


def test_it_only_warns_of_an_environment_that_has_ended() -> None:
    pool = Pool(target=0, runners=0)
    # Allocations of an environment that it found at its start are not followed, only those that come later.
    pool.cluster.nodes.migrate([newest(pool.cluster, ENVIRONMENT)], "alloc-stop")
    pool.cluster.run_for(2)
    pool.cluster.jobs.deregister(ENVIRONMENT)
    pool.cluster.run_for(65)
    assert pool.notes == ["Environment stopped unexpectedly template-10"]
    assert pool.cluster.state.jobs[ENVIRONMENT].status == "dead"


def test_while_it_is_down_it_does_nothing() -> None:
    pool = Pool()
    pool.poseidon.claim(10)
    pool.poseidon.stop()
    pool.cluster.run_for(100)
    assert not pool.poseidon.up
    assert pool.used() == []
    assert pool.poseidon.purged == {}
