"""Holds the reconciler to its promises while a demo runs: looks at the cluster itself at every change of it.

Whatever was written to the cluster, and neither by the failure nor by Poseidon, was ours, whether we say so or not.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Container
from typing import Any, Final

from poseidon_reconciler.app.demo.truth import Standing, Truth, environment_of
from poseidon_reconciler.nomad.documents import CREATED_BY, PROTECTED, REPLACES, REVIVED, STOPPED, mark_of
from poseidon_reconciler.policy import Policy
from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.events import Batch, Event
from poseidon_reconciler.twin.listening import listen
from poseidon_reconciler.twin.reconcile import UPDATING
from poseidon_reconciler.twin.records import Allocation, Job, JobKey

_PER_SECOND_WINDOW_S: Final = 10.0
# What may be on its way at once, decided within the rate and slowed down together.
_MAX_AT_ONCE: Final = 8


class Watch:
    """Watches one cluster.

    Attributes:
        truth: how everything stands.
        broken: each broken promise, in words.
        created, protected, removed, trimmed, revived: the jobs that the reconciler did that to; an environment's own
            job that it registered anew is revived too, and a runner that was stopped as surplus is trimmed only.
        peak_starting: the most new runners that waited for their first start on one node, since the failure began.
    """

    def __init__(
        self, cluster: Cluster, policy: Policy, *, others_removed: Callable[[], Container[JobKey]], unseen_s: float
    ) -> None:
        """`others_removed`: the jobs that were deregistered by somebody else.

        `unseen_s`: what happened less than so many seconds ago nobody beyond the network can know of.
        """
        self.truth = Truth(cluster)
        self.broken: list[str] = []
        self.created: set[JobKey] = set()
        self.protected: set[JobKey] = set()
        self.removed: set[JobKey] = set()
        self.trimmed: set[JobKey] = set()
        self.revived: set[JobKey] = set()
        self.peak_starting = 0
        self._cluster = cluster
        self._policy = policy
        self._others_removed = others_removed
        self._unseen_s = unseen_s
        self._replaced: Counter[str] = Counter()
        self._created_at: deque[float] = deque()
        self._ready: deque[tuple[float, int]] = deque()
        # Who has lately ceased to be idle, and when.
        self._left: deque[tuple[float, JobKey]] = deque()
        self._failure_index: int | None = None
        listen(cluster, self._hear)

    def failure_begins(self) -> None:
        """All runners that are created from now on were ordered because of the failure, or in spite of it."""
        if self._failure_index is None:
            self._failure_index = self._cluster.state.index

    def _hear(self, batch: Batch) -> None:
        before = {key: self.truth.jobs.get(key) for key in map(_job_of, batch.events) if key is not None}
        self.truth.take(batch)
        self._note_ready_nodes()
        self._note_leavers(before)
        for event in batch.events:
            self._check(event, before)
        if self._failure_index is not None:
            starting = self.truth.starting_per_node(self._failure_index)
            self.peak_starting = max(self.peak_starting, *starting.values(), 0)

    def _check(self, event: Event, before: dict[JobKey, Standing | None]) -> None:
        payload = event.payload
        if event.type == "JobDeregistered" and (key := _job_of(event)) is not None:
            # A stop tells of the job first and of its evaluation then, a purge of the evaluation alone.
            self._deregistered(key, before.get(key))
        elif isinstance(payload, Job) and event.type == "JobRegistered":
            self._registered(payload, before.get(payload.key))
        elif isinstance(payload, Allocation):
            if payload.desired_description == UPDATING:
                self._updated(payload.job_key)
            if payload.job_key in self.protected:
                self._check_copies(payload.job_key)

    # -- what was written --------------------------------------------------------------------------------------------

    def _registered(self, job: Job, standing: Standing | None) -> None:
        """Somebody registered a version: it is ours if the keys of ours in it are others than before."""
        mark, before = mark_of(dict(job.spec)), self._mark_before(job)
        if mark == before:
            return
        if mark.get(STOPPED) != before.get(STOPPED):
            self.trimmed.add(job.key)
            self._check_trim(job.key, standing)
        if mark.get(PROTECTED) != before.get(PROTECTED):
            self.protected.add(job.key)
        created = CREATED_BY in mark and CREATED_BY not in before
        is_environment = self.truth.jobs[job.key].is_environment
        if mark.get(REVIVED) != before.get(REVIVED) or (created and is_environment):
            self.revived.add(job.key)
        elif created:
            self.created.add(job.key)
            self._check_creation(job, mark.get(REPLACES, ""))

    def _mark_before(self, job: Job) -> dict[str, str]:
        older = [version for version in self._cluster.state.versions[job.key] if version.version < job.version]
        return mark_of(dict(older[-1].spec)) if older else {}

    def _updated(self, key: JobKey) -> None:
        """An allocation was stopped because of a new version: that must not have been a version of ours."""
        job = self._cluster.state.jobs.get(key)
        if job is not None and mark_of(dict(job.spec)) != self._mark_before(job):
            self._broke(f"{key[1]} was restarted by a version of ours")

    def _check_copies(self, key: JobKey) -> None:
        """A version of ours makes Nomad look at a job again, and so can bring a second copy to life too early."""
        policy = self._policy.for_environment(str(environment_of(key))).disconnect_policy
        if policy == "exactly" and self.truth.containers()[key] > 1:
            self._broke(f"{key[1]} ran twice at once after a version of ours")

    def _deregistered(self, key: JobKey, standing: Standing | None) -> None:
        if standing is None or key in self.removed or key in self.trimmed or key in self._others_removed():
            return
        self.removed.add(key)
        if standing.is_environment:
            self._broke(f"the environment's own job {key[1]} was deregistered")
        elif standing.used and key in self.truth.containers():
            self._broke(f"{key[1]} was deregistered while it was in use")
        elif standing.idle:
            self._broke(f"{key[1]} was deregistered while it was idle")

    # -- what is too much ---------------------------------------------------------------------------------------------

    def _check_trim(self, key: JobKey, standing: Standing | None) -> None:
        environment = str(environment_of(key))
        if self._policy.for_environment(environment).surplus != "trim":
            self._broke(f"{key[1]} was stopped although surplus is only to be reported")
        if standing is None or not standing.idle:
            self._broke(f"{key[1]} was stopped as surplus although it was {_what(standing)}")
        target = self.truth.targets.get(environment, 0)
        # Whoever decided cannot know of those who have left since.
        known_until = self._cluster.now - self._unseen_s
        left = {gone for at, gone in self._left if at > known_until and environment_of(gone) == environment}
        known = self.truth.idle(environment) + len(left - self.trimmed)
        if known < target:
            self._broke(f"{key[1]} was stopped as surplus, and {known} of {target} were left")

    def look_for_surplus(self) -> None:
        """All is over: what was to go must have gone."""
        for environment, target in self.truth.targets.items():
            idle = self.truth.idle(environment)
            if idle > target and self._policy.for_environment(environment).surplus == "trim":
                self._broke(f"environment {environment} was left with {idle} idle runners, where {target} are wanted")

    # -- what may be created -----------------------------------------------------------------------------------------

    def _check_creation(self, job: Job, replaces: str) -> None:
        environment = str(environment_of(job.key))
        self._check_size(environment)
        self._check_pace()
        if replaces:
            self._replaced[replaces] += 1
            if self._replaced[replaces] > 1:
                self._broke(f"{replaces} was replaced {self._replaced[replaces]} times")

    def _check_size(self, environment: str) -> None:
        policy = self._policy.for_environment(environment)
        known_until = self._cluster.now - self._unseen_s
        counting = {
            key
            for key, standing in self.truth.runners(environment)
            if standing.counts_since is not None and (key in self.created or standing.counts_since <= known_until)
        }
        if policy.disconnect_policy != "at-least":
            counting |= {key for key, standing in self.truth.runners(environment) if standing.out_of_reach}
        if policy.disconnect_policy == "exactly":
            # Whatever became of its job: what runs somewhere is a copy.
            counting |= {key for key in self.truth.containers() if environment_of(key) == environment}
        number = sum(not self._is_used(key) for key in counting)
        limit = self.truth.targets.get(environment, 0) + policy.surge
        if number > limit:
            self._broke(f"environment {environment} was given a runner that made {number}, where {limit} are wanted")

    def _is_used(self, key: JobKey) -> bool:
        standing = self.truth.jobs.get(key)
        return standing is not None and (standing.used or standing.is_environment)

    def _check_pace(self) -> None:
        pace, now = self._policy.pace, self._cluster.now
        ready = max(number for _, number in self._ready)
        starting = sum(bool(self.truth.jobs[key].starting_on) for key in self.created & self.truth.jobs.keys())
        if starting > pace.max_starting_per_node * ready:
            self._broke(f"{starting} new runners were starting on {ready} ready nodes")
        self._created_at.append(now)
        while self._created_at[0] < now - _PER_SECOND_WINDOW_S:
            self._created_at.popleft()
        if len(self._created_at) > pace.max_creates_per_second * (_PER_SECOND_WINDOW_S + 1) + _MAX_AT_ONCE:
            self._broke(f"{len(self._created_at)} runners were created within {_PER_SECOND_WINDOW_S:g} s")

    def _note_ready_nodes(self) -> None:
        now, number = self._cluster.now, self.truth.ready_nodes()
        while len(self._ready) > 1 and self._ready[1][0] <= now - self._unseen_s:
            self._ready.popleft()
        if not self._ready or self._ready[-1][1] != number:
            self._ready.append((now, number))

    def _note_leavers(self, before: dict[JobKey, Standing | None]) -> None:
        now = self._cluster.now
        while self._left and self._left[0][0] <= now - self._unseen_s:
            self._left.popleft()
        for key, standing in before.items():
            present = self.truth.jobs.get(key)
            if standing is not None and standing.idle and (present is None or not present.idle):
                self._left.append((now, key))

    def _broke(self, promise: str) -> None:
        if promise not in self.broken:
            self.broken.append(promise)


def _what(standing: Standing | None) -> str:
    if standing is None:
        return "gone"
    return "in use" if standing.used else "not idle"


def _job_of(event: Event) -> JobKey | None:
    payload: Any = event.payload
    return getattr(payload, "job_key", None) or (payload.key if isinstance(payload, Job) else None)
