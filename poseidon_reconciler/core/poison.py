"""Environments whose new runners fail before they ran: an image that cannot be pulled, a command that ends at once.

Whatever is created there is lost as well, and would be replaced again, for ever and for nothing. So after a failure
nothing is created for a while, which doubles with each round of failures up to a ceiling; then one runner alone is
tried, and the others follow once it has run. Only what we have created ourselves counts, which its name tells even to
an instance that has just been started: the first loss of somebody else's runner is no reason to wait.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from poseidon_reconciler.core.diagnosis import Change, Verdict
from poseidon_reconciler.core.ids import is_derived
from poseidon_reconciler.core.records import Job

_FIRST_WAIT_S: Final = 10.0
LONGEST_WAIT_S: Final = 300.0
# How long a runner must have been idle to have succeeded; what ends sooner has ended at once.
PROVEN_S: Final = 10.0

_OWN_FAULT: Final = frozenset({"exhausted", "stuck-complete", "never-started", "never-placed"})


class Poisoning(Struct, gc=False):
    """Since when an environment's new runners fail, how often in a row, and from when on one is tried again.

    `cause` is that of the last loss; `trouble` is what Nomad or the task's driver said, once somebody has read it.
    """

    since: float
    rounds: int
    failed_at: float
    ready_at: float
    cause: str
    trouble: str = ""


class Poison:
    """All environments that are poisoned, and the runners of ours that have not proven themselves yet."""

    def __init__(self) -> None:
        self._poisonings: dict[str, Poisoning] = {}
        # By environment: the runners of ours that are idle for less than it takes, with the time since when.
        self._young: dict[str, dict[str, float]] = {}
        self._proven: set[str] = set()
        # By environment: since when the latest of them that succeeded was of use.
        self._well_at: dict[str, float] = {}

    def of(self, environment_id: str) -> Poisoning | None:
        """How an environment is poisoned; None if it is not."""
        return self._poisonings.get(environment_id)

    def forget(self, job_id: str) -> None:
        """The job is no longer remembered."""
        self._proven.discard(job_id)

    def forget_environment(self, environment_id: str) -> None:
        """The environment is no longer remembered: one of that name that comes later is another one."""
        self._poisonings.pop(environment_id, None)
        self._young.pop(environment_id, None)
        self._well_at.pop(environment_id, None)

    def observe(self, change: Change, now: float) -> bool:
        """Takes note of a verdict on a runner that became another one; returns whether the runner itself has failed."""
        job, verdict = change.job, change.verdict
        if job.kind != "runner" or not is_derived(job.id):
            return False
        self.look(job.environment_id, now)
        young = self._young.get(job.environment_id, {})
        if verdict.state == "idle":
            self._young.setdefault(job.environment_id, young).setdefault(job.id, now)
        else:
            young.pop(job.id, None)
        if verdict.state == "used":
            self._succeeded(job.id, job.environment_id, now)
        failed = verdict.state == "lost" and self._is_own_fault(job, verdict)
        if failed:
            self._failed(job, verdict, now)
        return failed

    def look(self, environment_id: str, now: float) -> None:
        """Lets those runners have succeeded that have been idle for long enough."""
        young = self._young.get(environment_id, {})
        for job_id in [job_id for job_id, since in young.items() if since + PROVEN_S <= now]:
            self._succeeded(job_id, environment_id, young.pop(job_id))
        if not young:
            self._young.pop(environment_id, None)

    def proven_at(self, environment_id: str) -> float | None:
        """When the next runner of a poisoned environment will have succeeded, if it stays as it is."""
        if environment_id not in self._poisonings:
            return None
        return min((since + PROVEN_S for since in self._young.get(environment_id, {}).values()), default=None)

    def explain(self, environment_id: str, trouble: str) -> None:
        """What was read of a runner that has failed."""
        poisoning = self._poisonings.get(environment_id)
        if poisoning is not None:
            poisoning.trouble = trouble

    def _is_own_fault(self, job: Job, verdict: Verdict) -> bool:
        """Whether a runner has failed by itself before it was of any use, and not because of a node or of Nomad."""
        if job.used or job.id in self._proven or verdict.cause not in _OWN_FAULT:
            return False
        # Ordered to stop while it ran: that is how Nomad ends a living job, and no fault of the job's.
        return verdict.cause != "stuck-complete" or job.current is None or job.current.data.desired_status == "run"

    def _succeeded(self, job_id: str, environment_id: str, at: float) -> None:
        if job_id not in self._proven:
            self._proven.add(job_id)
            self._well_at[environment_id] = max(at, self._well_at.get(environment_id, at))
        self._poisonings.pop(environment_id, None)

    def _failed(self, job: Job, verdict: Verdict, now: float) -> None:
        if job.first_seen < self._well_at.get(job.environment_id, job.first_seen):
            # It was on its way before another one succeeded, and tells of the time before that.
            return
        cause = verdict.cause or ""
        known = self._poisonings.get(job.environment_id)
        if known is None:
            self._poisonings[job.environment_id] = Poisoning(now, 1, now, now + _FIRST_WAIT_S, cause)
        elif job.first_seen <= known.failed_at:
            # Of the same round: it was on its way already when another one failed.
            known.cause = cause
        else:
            known.rounds += 1
            known.failed_at, known.cause = now, cause
            known.ready_at = now + min(_FIRST_WAIT_S * 2 ** min(known.rounds - 1, 30), LONGEST_WAIT_S)
