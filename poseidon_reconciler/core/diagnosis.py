"""Keeps a verdict on every job, and each pool's numbers, up to date while the model changes and time passes.

Work is proportional to what changed: a job is judged anew when something of it changed or when its verdict said that
time alone would change it by now. Nothing here looks at all jobs.
"""

from __future__ import annotations

import heapq
from collections import Counter
from typing import Final

from msgspec import Struct

from poseidon_reconciler.core.events import AllocationPayload
from poseidon_reconciler.core.facts import Facts
from poseidon_reconciler.core.model import Model
from poseidon_reconciler.core.records import Job
from poseidon_reconciler.core.rules import COMING_STATES, EnvironmentState, Judge, State
from poseidon_reconciler.policy import Policy, PoolPolicy

_HOPELESS: Final = frozenset({"gone", "lost", "stopped", "leaving"})
_KILLERS: Final = frozenset({"lost", "complete"})


class Verdict(Struct, gc=False, frozen=True):
    """What a job is, by which rule, since when, and when time alone would change that (None: never).

    `cause` explains `lost` and `gone`. `at_risk`: the next evaluation can end the job although it lives.
    `counts`: whether it counts towards its pool's target.
    """

    state: State
    rule: str
    cause: str | None
    since: float
    due_at: float | None
    at_risk: bool
    counts: bool


class Change(Struct, gc=False, frozen=True):
    """A job whose state, rule, cause or risk became another one. `before` is None for a job seen for the first time."""

    job: Job
    before: Verdict | None
    verdict: Verdict


class Pool(Struct, gc=False):
    """The numbers of one environment, and the jobs of it that may need something done.

    `states` are those of all its runners, `counted` of those that count towards its target.
    """

    environment_id: str
    states: dict[str, int] = {}
    counted: dict[str, int] = {}
    lost: dict[str, Job] = {}

    @property
    def counting(self) -> int:
        return sum(self.counted.values())

    def count(self, state: str) -> int:
        return self.states.get(state, 0)

    @property
    def has_runners(self) -> bool:
        return any(number for state, number in self.states.items() if state != "gone")


class Diagnosis:
    """The verdicts on all jobs of a model.

    Attributes:
        verdicts: by job id; a job that is only hearsay has none.
        pools: the numbers by environment id.
        runners: how many runners there are, those that are gone not counted.
        at_risk: the jobs at risk, in the order in which they came to be.
        touched: the environments of which something changed; whoever plans clears it.
    """

    def __init__(self, model: Model, policy: Policy) -> None:
        self.model = model
        self.policy = policy
        self._judge = Judge()
        self._policies, self._pool_policy = policy.environments, policy.pool
        self.clear()

    def clear(self) -> None:
        self.verdicts: dict[str, Verdict] = {}
        self.pools: dict[str, Pool] = {}
        self.runners = 0
        self.at_risk: dict[str, Job] = {}
        self.touched: dict[str, None] = {}
        self._due: list[tuple[float, str]] = []

    def change_policy(self, policy: Policy) -> None:
        """Judges everything anew by another policy, at the next update."""
        self.policy = policy
        self._policies, self._pool_policy = policy.environments, policy.pool
        self.model.changed.update(self.model.jobs)

    def update(self, now: float) -> list[Change]:
        """Judges what changed and what is due at `now`; returns what became different."""
        changed = self.model.changed
        due = self._due
        while due and due[0][0] <= now:
            at, job_id = heapq.heappop(due)
            verdict = self.verdicts.get(job_id)
            if verdict is not None and verdict.due_at == at:
                changed[job_id] = self.model.jobs[job_id]
        if not changed:
            return []
        self.model.changed = {}
        changes = []
        for job in changed.values():
            change = self._examine(job, now)
            if change is not None:
                changes.append(change)
        return changes

    def next_due(self) -> float | None:
        """When a verdict would change if nothing else happened; None if never."""
        due = self._due
        while due:
            verdict = self.verdicts.get(due[0][1])
            if verdict is not None and verdict.due_at == due[0][0]:
                return due[0][0]
            heapq.heappop(due)
        return None

    def forget(self, jobs: list[Job]) -> None:
        """Drops jobs that the model has forgotten."""
        for job in jobs:
            verdict = self.verdicts.pop(job.id, None)
            self.at_risk.pop(job.id, None)
            pool = self.pools.get(job.environment_id)
            if verdict is not None and pool is not None and job.kind == "runner":
                self._uncount(pool, job, verdict)
            if job.environment_id not in self.model.environments:
                self.pools.pop(job.environment_id, None)
            self.touched[job.environment_id] = None

    def facts(self, job: Job, now: float) -> Facts:
        """The job as the rules see it at `now`."""
        return Facts(job, job.current, self.model.nodes, self._policies.get(job.environment_id, self._pool_policy), now)

    def environment_state(self, environment_id: str) -> tuple[EnvironmentState, str, str | None]:
        """State, rule and cause of an environment: those of its own job, or what its absence means."""
        environment = self.model.environments.get(environment_id)
        template = environment.template if environment else None
        verdict = self.verdicts.get(template.id) if template else None
        if verdict is not None and verdict.state != "gone":
            return verdict.state, verdict.rule, verdict.cause  # type: ignore[return-value]
        cause = verdict.cause if verdict is not None else None
        pool = self.pools.get(environment_id)
        if pool is not None and pool.has_runners:
            return "missing", "runners-without-template", cause
        return "gone", "template-gone", cause

    def _examine(self, job: Job, now: float) -> Change | None:
        before = self.verdicts.get(job.id)
        facts = self.facts(job, now)
        if not job.seen and not facts.placed:
            # Hearsay: an allocation's end, or an evaluation, of a job that was never seen itself.
            if before is not None:
                self.forget([job])
            return None
        if job.kind == "environment":
            # Its verdict may be the same, and its target another.
            self.touched[job.environment_id] = None
        rule = self._judge.rule(facts)
        state = rule.state
        due_at = rule.due(facts) if rule.due is not None else None
        cause = rule.cause if state not in ("gone", "stopped") else job.gone or "stopped"
        at_risk = _is_at_risk(job, state)
        counts = _counts(job, state, facts.policy)
        since = now
        if before is not None and before.state == state:
            since = before.since
            same = before.rule == rule.name and before.cause == cause
            same = same and before.at_risk == at_risk and before.counts == counts
            if same and before.due_at == due_at:
                return None
        else:
            same = False
        verdict = Verdict(state, rule.name, cause, since, due_at, at_risk, counts)
        self.verdicts[job.id] = verdict
        if due_at is not None:
            heapq.heappush(self._due, (due_at, job.id))
        if same:
            return None
        self._recount(job, before, verdict)
        return Change(job, before, verdict)

    def _recount(self, job: Job, before: Verdict | None, verdict: Verdict) -> None:
        pool = self.pools.get(job.environment_id)
        if pool is None:
            pool = self.pools[job.environment_id] = Pool(job.environment_id)
        moved = before is None or before.state != verdict.state or before.counts != verdict.counts
        if moved and job.kind == "runner":
            if before is not None:
                self._uncount(pool, job, before)
            pool.states[verdict.state] = pool.states.get(verdict.state, 0) + 1
            self.runners += verdict.state != "gone"
            pool.counted[verdict.state] = pool.counted.get(verdict.state, 0) + verdict.counts
            if verdict.state == "lost":
                pool.lost[job.id] = job
        if verdict.at_risk:
            self.at_risk[job.id] = job
        elif before is not None and before.at_risk:
            del self.at_risk[job.id]
        self.touched[job.environment_id] = None

    def _uncount(self, pool: Pool, job: Job, verdict: Verdict) -> None:
        pool.states[verdict.state] -= 1
        self.runners -= verdict.state != "gone"
        pool.counted[verdict.state] -= verdict.counts
        if verdict.state == "lost":
            del pool.lost[job.id]

    def lost_causes(self, environment_id: str) -> Counter[str]:
        """How many runners of an environment were lost for which cause."""
        pool = self.pools.get(environment_id)
        lost = pool.lost if pool is not None else {}
        return Counter(str(self.verdicts[job_id].cause) for job_id in lost)


def _counts(job: Job, state: State, policy: PoolPolicy) -> bool:
    """Whether a job in this state is a runner that counts towards its pool's target."""
    if job.used or job.kind != "runner":
        return False
    if state in COMING_STATES:
        return True
    if policy.disconnect_policy == "leave-alone":
        return state == "disconnected"
    # What may still run, or start after all, must not get a second copy before it is removed.
    hangs = state == "lost" and job.current is not None and job.current.placed
    return policy.disconnect_policy == "exactly" and (state in ("disconnected", "leaving") or hangs)


def is_killer(job: Job, allocation: AllocationPayload) -> bool:
    """Whether an allocation makes Nomad believe that a living job has finished, or will when its agent is back.

    It was ordered to stop, has no successor, belongs to the job's current version, and is lost (its agent will report
    it as complete) or complete already: the next evaluation of the batch job takes that for the job's success.
    """
    return (
        allocation.desired_status == "stop"
        and allocation.client_status in _KILLERS
        and not allocation.next_allocation
        and job.is_current_version(allocation)
    )


def _is_at_risk(job: Job, state: State) -> bool:
    if state in _HOPELESS or job.status == "dead":
        return False
    for allocation in job.allocations.values():
        # Asked here as well, because it is false for nearly all and this is the hottest loop of the program.
        if allocation.data.desired_status == "stop" and is_killer(job, allocation.data):
            return True
    return False
