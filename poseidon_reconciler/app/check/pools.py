"""What the lists say about the pools as they are now: who has no environment, and who would die at its next evaluation.

Lists hold stubs: of a job without its version, of an allocation (on old servers) without the one that follows it. Both
decide whether an old allocation can end its job. So the few jobs and allocations that it may concern are read whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from poseidon_reconciler.app.check.report import Check, ok, warn
from poseidon_reconciler.app.check.rights import Tables
from poseidon_reconciler.app.check.version import spares_jobs
from poseidon_reconciler.core.diagnosis import is_killer
from poseidon_reconciler.core.events import AllocationPayload, JobPayload, Snapshot
from poseidon_reconciler.core.ids import parse_job_id, template_id
from poseidon_reconciler.core.reconciler import Reconciler
from poseidon_reconciler.core.records import Job
from poseidon_reconciler.core.wording import counted
from poseidon_reconciler.policy import Policy

_SHOWN_IDS: Final = 5


@dataclass(frozen=True, slots=True)
class Ours:
    """The jobs of ours in a list.

    Attributes:
        templates: environments' own jobs, by environment id, in the order of their numbers.
        runners: all others, by job id.
    """

    templates: dict[str, JobPayload]
    runners: dict[str, JobPayload]

    @staticmethod
    def of(jobs: Iterable[JobPayload]) -> Ours:
        templates, runners = {}, {}
        for job in jobs:
            name = parse_job_id(job.id)
            if name is None:
                continue
            if name.kind == "environment":
                templates[name.environment_id] = job
            elif job.type in (None, "batch"):
                runners[job.id] = job
        return Ours(dict(sorted(templates.items(), key=lambda item: int(item[0]))), runners)

    def example(self) -> str | None:
        """A job to try things with; an environment's if there is one."""
        for job in (*self.templates.values(), *self.runners.values()):
            return job.id
        return None


def look_at_configured(ours: Ours, policy: Policy) -> list[Check]:
    """Whether there are the environments that the configuration speaks of, and any at all."""
    checks = []
    if not ours.templates:
        advice = "is nomad.namespace (NOMAD_NAMESPACE) right, and has Poseidon registered its environments?"
        checks.append(warn("environments", f"there is none in the namespace {policy.namespace}", advice))
    for environment_id in policy.environments:
        if environment_id not in ours.templates:
            detail = f"configured, but there is no job {template_id(environment_id)}"
            checks.append(warn(f"environment {environment_id}", detail, "take it out of environments, or create it"))
    return checks


def look_at_orphans(ours: Ours) -> Check:
    """The runners whose environment has no job."""
    orphans = [
        job
        for job in ours.runners.values()
        if not job.stop and (name := parse_job_id(job.id)) is not None and name.environment_id not in ours.templates
    ]
    if not orphans:
        return ok("orphans", f"none of {counted(len(ours.runners), 'runner')}")
    detail = f"{counted(len(orphans), 'runner')} of environments without a job: {_shown(orphans)}"
    return warn("orphans", detail, "create the environment again through Poseidon, or stop them")


def suspects(tables: Tables) -> list[AllocationPayload]:
    """The allocations for which their job may be at risk, as far as the lists tell."""
    if tables.jobs is None or tables.allocations is None:
        return []
    alive = {job.id: job for job in tables.jobs.members if job.status != "dead" and not job.stop}
    found = []
    for allocation in tables.allocations.members:
        job, name = alive.get(allocation.job_id), parse_job_id(allocation.job_id)
        if job is None or name is None:
            continue
        known = Job(job.id, name.kind, name.environment_id, version=job.version)
        if is_killer(known, allocation):
            found.append(allocation)
    return found


def look_at_risks(snapshot: Snapshot, policy: Policy, version: str | None, now: float) -> Check:
    """How many jobs live that the next evaluation can end, by lists in which the suspects stand whole."""
    core = Reconciler(policy)
    core.feed_snapshot(snapshot, now)
    at_risk = list(core.diagnosis.at_risk.values())
    if not at_risk:
        return ok("at risk", f"none of {counted(len(core.diagnosis.verdicts), 'job')}")
    runners = sum(job.kind == "runner" for job in at_risk)
    concerned = f"{counted(runners, 'runner')} and {counted(len(at_risk) - runners, 'environment')}"
    if spares_jobs(version):
        return ok("at risk", f"none: {concerned} have an old allocation that ends no job in this version of Nomad")
    detail = f"{concerned} can be ended by their next evaluation: {_shown(at_risk)}"
    unprotected = [job for job in at_risk if not policy.for_environment(job.environment_id).protect]
    if unprotected:
        return warn("at risk", detail, "set pool.protect: true for them, and start `run`")
    return warn("at risk", detail, "start `run`: it protects them; evaluate or register nothing before")


def _shown(jobs: Iterable[JobPayload | Job]) -> str:
    ids = sorted(job.id for job in jobs)
    return ", ".join(ids[:_SHOWN_IDS]) + (f" and {len(ids) - _SHOWN_IDS} more" if len(ids) > _SHOWN_IDS else "")
