"""What people do to jobs: register, plan, stop, purge, evaluate; with Nomad's own conditions and refusals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from poseidon_reconciler.twin.evaluations import Evaluator
from poseidon_reconciler.twin.jobspec import canonical, groups_of
from poseidon_reconciler.twin.records import Evaluation, Job, JobKey
from poseidon_reconciler.twin.scheduler import Plan, schedule
from poseidon_reconciler.twin.state import State
from poseidon_reconciler.twin.traits import Traits

_CONFLICT = "Enforcing job modify index"


class Refused(Exception):  # noqa: N818 - the servers' answer, not an error of the program
    """The servers refuse a request; `status` and the text are what a client gets. `index` is the age of the answer, 0
    where Nomad tells none.
    """

    def __init__(self, status: int, text: str, index: int = 0) -> None:
        super().__init__(text)
        self.status = status
        self.index = index


class Dry(Struct, frozen=True):
    """What a dry run of a registration came to."""

    plan: Plan
    job: Job
    known: Job | None


class Jobs:
    """The servers' job endpoints."""

    def __init__(self, state: State, evaluator: Evaluator, traits: Traits) -> None:
        self._state = state
        self._kernel = state.kernel
        self._evaluator = evaluator
        self._traits = traits

    def register(
        self, raw: Mapping[str, Any], *, enforce_index: bool = False, job_modify_index: int = 0
    ) -> tuple[Job, Evaluation]:
        """Registers a job; one that is unchanged is no new version, only an evaluation.

        With `enforce_index` only if the job's own `JobModifyIndex` is that (0: only if there is none). Raises
        `Refused`.
        """
        spec = checked(raw)
        key = (spec["Namespace"], spec["ID"])
        known = self._state.jobs.get(key)
        if enforce_index:
            _enforce(known, job_modify_index)
        if known is not None and known.spec == spec:
            return known, self._evaluate(known)
        write = self._state.begin("JobRegistered")
        job = self._next_version(spec, known, write.index)
        write.put_job(job)
        write.commit()
        write = self._state.begin("JobRegistered", same_index=True)
        evaluation = self._evaluator.create(write, key, "job-register", job_modify_index=job.job_modify_index)
        write.commit()
        self._evaluator.enqueue(evaluation)
        return self._state.jobs[key], evaluation

    def deregister(self, key: JobKey, *, purge: bool = False) -> Evaluation | None:
        """Stops a job, or deletes it; one that is not there is evaluated all the same, except by newer servers."""
        known = self._state.jobs.get(key)
        if known is None and self._traits.refuses_unknown_deregistration:
            return None
        write = self._state.begin("JobDeregistered")
        index = write.index
        if known is not None and purge:
            if self._traits.purge_drops_allocations:
                write.drop([allocation.id for allocation in self._state.allocations_of(key)], [])
            write.drop_job(key, told=self._traits.purge_sends_job_event)
        elif known is not None:
            write.put_job(
                replace(
                    known, spec={**known.spec, "Stop": True}, stop=True, version=known.version + 1,
                    modify_index=index, job_modify_index=index, modified_at=self._kernel.now,
                )
            )  # fmt: skip
        write.commit()
        write = self._state.begin("JobDeregistered", same_index=True)
        priority = known.priority if known is not None else 50
        # Nomad gives these evaluations the default type, whatever the job was.
        evaluation = self._evaluator.create(
            write, key, "job-deregister", job_modify_index=index, priority=priority, type="service"
        )
        write.commit()
        self._evaluator.forget_blocked(key)
        self._evaluator.enqueue(evaluation)
        return evaluation

    def evaluate(self, key: JobKey, *, force_reschedule: bool = False) -> Evaluation:
        """Has a job looked at again; with force, failed allocations are replaced whatever their policy says."""
        job = self._state.jobs.get(key)
        if job is None:
            raise Refused(404, "job not found")
        if not force_reschedule:
            return self._evaluate(job)
        write = self._state.begin("AllocationUpdateDesiredStatus")
        for allocation in self._state.allocations_of(key):
            if allocation.client_status == "failed" and not allocation.next_id:
                write.put_allocation(replace(allocation, force_reschedule=True))
        evaluation = self._evaluator.create(write, key, "job-register", job_modify_index=job.job_modify_index)
        write.commit(settle=False)
        self._evaluator.enqueue(evaluation)
        return evaluation

    def plan(self, raw: Mapping[str, Any]) -> Dry:
        """What registering a job would do. Nothing is written."""
        spec = checked(raw)
        key = (spec["Namespace"], spec["ID"])
        known = self._state.jobs.get(key)
        job = known
        if job is None or job.spec != spec:
            job = self._next_version(spec, known, self._state.index + 1)
        asked = Evaluation(
            id=self._kernel.new_id(), namespace=job.namespace, job_id=job.id, type=job.type, priority=job.priority,
            triggered_by="job-register", create_index=self._state.index, modify_index=self._state.index,
            created_at=self._kernel.now, modified_at=self._kernel.now, job_modify_index=job.job_modify_index,
        )  # fmt: skip
        return Dry(schedule(self._state, asked, job, self._evaluator.rules), job, known)

    def _evaluate(self, job: Job) -> Evaluation:
        write = self._state.begin("EvaluationUpdated")
        evaluation = self._evaluator.create(write, job.key, "job-register", job_modify_index=job.job_modify_index)
        write.commit()
        self._evaluator.enqueue(evaluation)
        return evaluation

    def _next_version(self, spec: Mapping[str, Any], known: Job | None, index: int) -> Job:
        now = self._kernel.now
        key = (spec["Namespace"], spec["ID"])
        return Job(
            id=spec["ID"], namespace=spec["Namespace"], spec=spec, groups=groups_of(spec),
            version=known.version + 1 if known is not None else 0,
            status=self._state.status_of(key) if known is not None else "pending",
            stop=bool(spec["Stop"]), submitted_at=now,
            create_index=known.create_index if known is not None else index,
            modify_index=index, job_modify_index=index, modified_at=now,
        )  # fmt: skip


def checked(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The canonical form of a job that was handed in. Raises `Refused` if it is none."""
    if not raw:
        raise Refused(400, "Job must be specified")
    if not isinstance(raw.get("ID"), str) or not raw["ID"]:
        raise Refused(400, "Job ID hasn't been provided")
    try:
        spec = canonical(raw)
        groups_of(spec)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Refused(400, f"json: cannot unmarshal job: {error}") from error
    problems = []
    if " " in spec["ID"]:
        problems.append("Job ID contains a space")
    if spec["Type"] not in {"batch", "service", "system", "sysbatch"}:
        problems.append(f'Invalid job type: "{spec["Type"]}"')
    if not spec["TaskGroups"]:
        problems.append("Missing job task groups")
    problems += [
        f"Task group {g['Name']} validation failed: Missing tasks" for g in spec["TaskGroups"] if not g["Tasks"]
    ]
    if problems:
        noun = "error" if len(problems) == 1 else "errors"
        raise Refused(500, f"{len(problems)} {noun} occurred:\n" + "".join(f"\t* {text}\n" for text in problems) + "\n")
    return spec


def _enforce(known: Job | None, wanted: int) -> None:
    if known is None and wanted != 0:
        raise Refused(500, f"{_CONFLICT} {wanted}: job does not exist")
    if known is not None and wanted == 0:
        raise Refused(500, f"{_CONFLICT} 0: job already exists")
    if known is not None and known.job_modify_index != wanted:
        held = known.job_modify_index
        raise Refused(500, f"{_CONFLICT} {wanted}: job exists with conflicting job modify index: {held}")
