"""protect-job: a new version of a job in place, so that an old allocation cannot pass for its success.

It must never restart what runs. So the scheduler is asked first: every group may at most be updated in place or
ignored, and only a group that has nothing running may have something placed (a blocked job waits for just that). It
must never overwrite Poseidon's mark either: the job is registered only as it was read, and read again if it changed.
"""

from __future__ import annotations

from typing import Final

from poseidon_reconciler.nomad.api import DesiredUpdates, Plan
from poseidon_reconciler.nomad.confirm import View, read_view
from poseidon_reconciler.nomad.documents import Document, protected
from poseidon_reconciler.nomad.execution import Executed, Task, Tools, look_until
from poseidon_reconciler.nomad.outcomes import Conflict, NotFound, Ok

_ATTEMPTS: Final = 3
_HARMLESS: Final = frozenset({"ignore", "in_place_update", "place"})


async def protect_job(tools: Tools, task: Task) -> Executed:
    """Protects a job that is at risk, a used one too; reads it anew for each attempt."""
    for _ in range(_ATTEMPTS):
        result = await _try(tools, task)
        if not isinstance(result.cause, Conflict):
            return result
    return task.failed(f"it changed {_ATTEMPTS} times while it was read")


async def _try(tools: Tools, task: Task) -> Executed:
    view = await read_view(tools.api, task.action.job_id, task.as_of)
    if not isinstance(view, View):
        return task.unconfirmed(view)
    job = view.job.payload
    if job.stop or job.status == "dead":
        return task.skipped("it was stopped" if job.stop else "it is dead already")
    if not view.at_risk:
        return task.already("it is not at risk any more", job.job_modify_index)
    document = protected(view.job.document(), task.stamp)
    plan = await tools.api.plan(document)
    if not isinstance(plan, Ok):
        return task.unconfirmed(plan)
    objection = why_not_in_place(plan.value, view)
    if objection is not None:
        return task.failed(f"a new version would not be in place: {objection}")
    if tools.dry_run:
        return task.would(f"register version {job.version + 1} in place")
    return await _register(tools, task, view, document, plan.value)


async def _register(tools: Tools, task: Task, view: View, document: Document, plan: Plan) -> Executed:
    written = await tools.api.register(document, enforce_index=view.job.payload.job_modify_index)
    if not isinstance(written, Ok):
        return task.not_written(written)
    in_place = sum(updates.in_place_update for updates in (plan.updates or {}).values())
    before = {allocation.id for allocation in view.placed}

    async def look() -> Executed | None:
        return await _check(tools, task, written.value, before if in_place else set())

    seen = await look_until(tools, look)
    return seen or task.unknown("registered, but its allocation was not seen to follow", written.value)


async def _check(tools: Tools, task: Task, index: int, before: set[str]) -> Executed | None:
    """Whether the same allocations run on under the new version; None while that is not to be seen."""
    job = await tools.api.read_job(task.action.job_id, not_before=index)
    if isinstance(job, NotFound):
        # Poseidon deletes what it takes for lost; waiting for it would hold up the protection of others.
        return task.done("registered, and removed by somebody since", index)
    allocations = await tools.api.read_job_allocations(task.action.job_id)
    if not isinstance(job, Ok) or not isinstance(allocations, Ok):
        return None
    version = job.value.payload.version
    for allocation in allocations.value:
        if allocation.id not in before:
            continue
        if allocation.desired_status != "run":
            return task.failed(f"its allocation was stopped: {allocation.desired_description}", index)
        if allocation.job_version < version:
            return None
    return task.done(f"version {version}, in place", index)


def why_not_in_place(plan: Plan, view: View) -> str | None:
    """What a plan would do to a job beyond updating it in place; None if nothing."""
    if not plan.updates:
        return "the scheduler did not tell what it would do"
    for group, updates in plan.updates.items():
        for name in DesiredUpdates.__struct_fields__:
            if name not in _HARMLESS and getattr(updates, name):
                return f"{name} {getattr(updates, name)} in group {group}"
        placed = sum(allocation.task_group in (group, "") for allocation in view.placed)
        if updates.place and placed:
            return f"place {updates.place} in group {group}, where {placed} run already"
    return None
