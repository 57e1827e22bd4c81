"""A small model of Poseidon: holds the runners of an embedded cluster, claims, refills and deletes them as it does.

What matters about it in an outage: it judges by single allocations, deletes jobs that Nomad would have brought back,
keeps others that are dead, never repairs an environment's own job, and notices a short pool only when few are left and
minutes have passed; then it orders all that is missing at once.

Left out: its retries, and what a learner does with a runner. Reading and writing take no time.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any

from msgspec import Struct

from poseidon_reconciler.twin import poseidon_jobs as pj
from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.events import Batch, Event
from poseidon_reconciler.twin.kernel import Timer
from poseidon_reconciler.twin.listening import listen
from poseidon_reconciler.twin.poseidon_events import AllocationFollower
from poseidon_reconciler.twin.records import Allocation, Job

_TEMPLATE = "template-"
_NAMESPACE = "default"


class Habits(Struct, frozen=True):
    """How Poseidon is set up, and how busy its learners are; durations in seconds.

    Attributes:
        claims_per_minute: how many runners of each environment are claimed, at random times.
        use_s: how long a claimed runner is used before it is deleted.
        mark_s: between a claim and the job's mark that it is used.
        latency_s: between an event and what Poseidon does about it.
        alert_share, alert_after_s: a pool that has had less than this share of idle runners for so long is reloaded.
        recheck_s: between the end of an environment's own job and the look whether it has come back.
    """

    claims_per_minute: float = 0.0
    use_s: float = 60.0
    mark_s: float = 0.2
    latency_s: float = 0.02
    alert_share: float = 0.5
    alert_after_s: float = 300.0
    recheck_s: float = 60.0


class Pool:
    """An environment as Poseidon read it last, with the idle runners that it holds."""

    def __init__(self, number: int, job: dict[str, Any]) -> None:
        self.number = number
        self.job = job
        self.idle: dict[str, None] = {}
        self.alert: Timer | None = None

    @property
    def target(self) -> int:
        """How many idle runners there should be."""
        text = pj.config_of(self.job).get("prewarmingPoolSize", "")
        return int(text) if text.isdecimal() else 0


class Poseidon:
    """One Poseidon in front of one cluster, in the cluster's own time.

    Attributes:
        up: whether it runs.
        pools: the environments that it knows, by number.
        used: the claimed runners, each with the timer that ends its use.
        purged: the jobs that it deleted, and why: `returned` after use, or `ended` with their allocation.
        ordered: the runners that it created; `ordered_by_alert` is how many of them an alert made it create.
        refused: how many claims found no idle runner.
    """

    def __init__(
        self,
        cluster: Cluster,
        habits: Habits | None = None,
        *,
        seed: int = 0,
        note: Callable[[str, str], None] = lambda _, __: None,
    ) -> None:
        """`note` is told what is worth knowing, and which job it is about."""
        self.habits = habits if habits is not None else Habits()
        self.up = False
        self.pools: dict[int, Pool] = {}
        self.used: dict[str, Timer] = {}
        self.purged: dict[str, str] = {}
        self.ordered: list[str] = []
        self.ordered_by_alert = 0
        self.refused = 0
        self._cluster = cluster
        self._kernel = cluster.kernel
        self._rng = Random(seed)
        self._note = note
        self._follower = AllocationFollower(self)
        self._claims: Timer | None = None
        self._heard: list[Event] = []
        listen(cluster, self._hear)

    # -- the process -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts: reads the environments that run and their runners, and fills their pools."""
        self.up = True
        for job in list(self._cluster.state.jobs.values()):
            number = _number_of(job.id.removeprefix(_TEMPLATE))
            if not job.id.startswith(_TEMPLATE) or number is None:
                continue
            if job.status != "running":
                self._note("Job not running, skipping", job.id)
                continue
            self.pools[number] = Pool(number, dict(job.spec))
        for pool in self.pools.values():
            self._load(pool)
        self._plan_claim()

    def stop(self) -> None:
        """Ends: what it held in memory is gone."""
        self.up = False
        for timer in (self._claims, *self.used.values(), *(pool.alert for pool in self.pools.values())):
            if timer is not None:
                timer.cancel()
        self.pools.clear()
        self.used.clear()
        self._follower.clear()
        self._heard.clear()

    def restart(self) -> None:
        """Ends and starts: an environment whose own job does not run is unknown afterwards, and so are its runners."""
        self.stop()
        self.start()

    def _load(self, pool: Pool) -> None:
        """Takes over every runner of an environment that is not dead, and orders what is missing."""
        for job in self._runner_jobs(pool):
            allocations = self._cluster.state.allocations_of(job.key)
            if not allocations or job.id in self.used:
                continue
            self._follower.recover(allocations)
            if pj.config_of(dict(job.spec)).get("used") != "true":
                pool.idle[job.id] = None
            else:
                self._hold_used(job.id)
        self._order(pool, pool.target - len(pool.idle))

    def _runner_jobs(self, pool: Pool) -> list[Job]:
        jobs = self._cluster.state.jobs.values()
        return [job for job in jobs if _number_of(job.id) == pool.number and job.status != "dead"]

    # -- learners ----------------------------------------------------------------------------------------------------

    def claim(self, number: int) -> str | None:
        """A learner needs a runner: takes an idle one out of the pool and orders another, if it holds any."""
        pool = self.pools.get(number)
        if pool is None or not pool.idle:
            self.refused += 1
            return None
        job_id = self._rng.choice(list(pool.idle))
        del pool.idle[job_id]
        self._hold_used(job_id)
        self._kernel.after(self.habits.mark_s, lambda: self._mark_used(job_id))
        if len(pool.idle) < pool.target:
            # Whether others are starting already is not asked.
            self._order(pool, 1)
        return job_id

    def resize(self, number: int, target: int) -> None:
        """An administrator gives an environment another size of its pool."""
        pool = self.pools[number]
        pool.job = pj.with_config(pool.job, prewarmingPoolSize=str(target))
        self._cluster.jobs.register(pool.job)
        self._order(pool, target - len(pool.idle))

    def stop_claims(self) -> None:
        """The learners go home; runners that are in use stay so until their time is up."""
        if self._claims is not None:
            self._claims.cancel()

    def _plan_claim(self) -> None:
        rate = self.habits.claims_per_minute * len(self.pools) / 60
        if rate > 0:
            self._claims = self._kernel.after(self._rng.expovariate(rate), self._claim_next)

    def _claim_next(self) -> None:
        self.claim(self._rng.choice(list(self.pools)))
        self._plan_claim()

    def _hold_used(self, job_id: str) -> None:
        self.used[job_id] = self._kernel.after(self.habits.use_s, lambda: self._return(job_id))

    def _mark_used(self, job_id: str) -> None:
        if job_id in self.used:
            self._mark(job_id, "true")

    def _mark(self, job_id: str, used: str) -> None:
        job = self._cluster.state.jobs.get((_NAMESPACE, job_id))
        if job is None:
            self._return(job_id)
        elif pj.config_of(dict(job.spec)).get("used") != used:
            timeout = {"timeout": str(round(self.habits.use_s))} if used == "true" else {}
            self._cluster.jobs.register(pj.with_config(dict(job.spec), used=used, **timeout))

    def _return(self, job_id: str) -> None:
        timer = self.used.pop(job_id, None)
        if timer is not None:
            timer.cancel()
            self._purge(job_id, "returned")

    # -- events ------------------------------------------------------------------------------------------------------

    def _hear(self, batch: Batch) -> None:
        if self.up:
            if not self._heard:
                self._kernel.after(self.habits.latency_s, self._read)
            self._heard += batch.events

    def _read(self) -> None:
        heard, self._heard = self._heard, []
        for event in heard:
            if event.namespace == _NAMESPACE:
                self._follower.take(event)

    def runner_started(self, allocation: Allocation) -> None:
        """An allocation runs: its job is an idle runner from now on, if its id names an environment that is known."""
        job_id = allocation.job.id
        pool = self._pool_of(job_id)
        if pool is None or job_id in self.used:
            return
        if allocation.previous_id:
            self._mark(job_id, "false")
        pool.idle[job_id] = None
        self._check(pool, added=True)

    def runner_ended(self, job_id: str, *, purge: bool) -> None:
        """A job's allocation is over: what is held of it is dropped, and its job deleted where `purge` says so."""
        if job_id.startswith(_TEMPLATE):
            if self._pool_of(job_id.removeprefix(_TEMPLATE)) is not None:
                self._kernel.after(self.habits.recheck_s, lambda: self._look_after(job_id))
            return
        timer = self.used.pop(job_id, None)
        if timer is not None:
            timer.cancel()
        pool = self._pool_of(job_id)
        was_idle = pool is not None and job_id in pool.idle
        if purge and (was_idle or timer is not None):
            self._note("deletes a runner whose allocation has ended", job_id)
            self._purge(job_id, "ended")
        if pool is not None:
            pool.idle.pop(job_id, None)
            self._check(pool)

    def _look_after(self, job_id: str) -> None:
        job = self._cluster.state.jobs.get((_NAMESPACE, job_id))
        if self.up and (job is None or job.status != "running"):
            self._note("Environment stopped unexpectedly", job_id)

    # -- the alert ---------------------------------------------------------------------------------------------------

    @property
    def is_alarmed(self) -> bool:
        """Whether an alert of a pool is set."""
        return any(pool.alert is not None for pool in self.pools.values())

    def _check(self, pool: Pool, *, added: bool = False) -> None:
        """Sets an alert if too few runners are idle; one that comes makes it wait anew."""
        if added and pool.alert is not None:
            pool.alert.cancel()
            pool.alert = None
        if pool.alert is None and self._is_short(pool):
            pool.alert = self._kernel.after(self.habits.alert_after_s, lambda: self._reload(pool))

    def _is_short(self, pool: Pool) -> bool:
        return len(pool.idle) < self.habits.alert_share * pool.target

    def _reload(self, pool: Pool) -> None:
        pool.alert = None
        if self._is_short(pool):
            before = len(self.ordered)
            self._load(pool)
            number = len(self.ordered) - before
            self.ordered_by_alert += number
            self._note(
                f"Prewarming Pool Alert, {number} runner{'' if number == 1 else 's'} ordered at once for",
                pool.job["ID"],
            )
            self._check(pool)

    # -- writes ------------------------------------------------------------------------------------------------------

    def _order(self, pool: Pool, number: int) -> None:
        for _ in range(number):
            job = _runner_of(pool.job, pj.runner_id(pool.number, self._rng))
            self.ordered.append(job["ID"])
            self._note("creates a runner", job["ID"])
            self._cluster.jobs.register(job)

    def _purge(self, job_id: str, why: str) -> None:
        self.purged[job_id] = why
        self._cluster.jobs.deregister((_NAMESPACE, job_id), purge=True)

    def _pool_of(self, job_id: str) -> Pool | None:
        number = _number_of(job_id)
        return self.pools.get(number) if number is not None else None


def _number_of(job_id: str) -> int | None:
    """The environment's number: what stands before the first hyphen, if it is one."""
    number = job_id.partition("-")[0]
    return int(number) if number.isdecimal() else None


def _runner_of(template: dict[str, Any], job_id: str) -> dict[str, Any]:
    """A runner's job: the environment's own under another id, without its pool's size."""
    job = {**copy.deepcopy(template), "ID": job_id, "Name": job_id}
    for group in job["TaskGroups"]:
        if group["Name"] == "config":
            group["Meta"] = {"used": "false"}
    return job
