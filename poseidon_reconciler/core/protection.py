"""Which jobs are protected, and when: those at risk, once for each of their versions.

Never held back by a storm, because it prevents the losses that everything else repairs.
"""

from __future__ import annotations

from collections.abc import Iterable

from poseidon_reconciler.core.conditions import may_still_run
from poseidon_reconciler.core.desk import Desk
from poseidon_reconciler.core.ledger import Action
from poseidon_reconciler.core.pace import RateLimit
from poseidon_reconciler.core.records import Job

_REASON = "Nomad would end it at its next evaluation, for an old allocation that passes for its success"


class Protection:
    """The jobs that wait for it.

    Attributes:
        wanted: whether jobs at risk are protected where their policy says so; not on servers that do not end them.
        rate: how many in a second.
    """

    def __init__(self, desk: Desk) -> None:
        self.wanted = True
        self.rate = RateLimit(desk.policy.pace.max_protects_per_second)
        self._desk = desk
        self._waiting: dict[str, Job] = {}

    def __bool__(self) -> bool:
        """Whether any job waits."""
        return bool(self._waiting)

    def clear(self) -> None:
        """Forgets all that wait."""
        self._waiting.clear()

    def consider(self, jobs: Iterable[Job]) -> None:
        """These are at risk, or were not protected after all."""
        self._waiting.update((job.id, job) for job in jobs)

    def forget(self, job_id: str) -> None:
        """The job is no longer remembered."""
        self._waiting.pop(job_id, None)

    def plan(self, now: float) -> list[Action]:
        """The jobs to protect at `now`; environments first."""
        desk = self._desk
        actions = []
        for job in sorted(self._waiting.values(), key=lambda job: job.kind):
            if self._is_wanted(job):
                if desk.is_paused(job.environment_id, now) or self._would_double(job, now):
                    continue
                if not self.rate.take(now):
                    desk.alarm.set(self.rate.next_at())
                    break
                desk.ledger.do_once("protect-job", job.id, job.job_modify_index)
                actions.append(Action(now, "protect-job", job.environment_id, job.id, _REASON))
            del self._waiting[job.id]
        return actions

    def _is_wanted(self, job: Job) -> bool:
        desk = self._desk
        return (
            self.wanted
            and job.id in desk.diagnosis.at_risk
            and desk.policy_of(job.environment_id).protect
            and not desk.ledger.is_done("protect-job", job.id, job.job_modify_index)
        )

    def _would_double(self, job: Job, now: float) -> bool:
        """Whether a new version would have Nomad place the job while an old copy of it may run, where that must not be.

        Nomad itself waits for the old copy's stop; the evaluation of a new version does not.
        """
        facts = self._desk.diagnosis.facts(job, now)
        if facts.policy.disconnect_policy != "exactly" or facts.placed or not may_still_run.holds(facts):
            return False
        self._desk.alarm.set(facts.old_copies_end_at)
        return True
