"""revive-environment and remove-job: what is done about jobs that Nomad has given up.

Nomad takes a dead batch job for finished and replaces nothing of it. Registering it as it is changes nothing; a changed
job runs again. A lost runner is stopped first and purged then: of which one Poseidon hears depends on the server.
"""

from __future__ import annotations

from dataclasses import replace

from poseidon_reconciler.nomad.api import JobRead
from poseidon_reconciler.nomad.clearing import clear_away
from poseidon_reconciler.nomad.confirm import View, read_view, why_not_lost
from poseidon_reconciler.nomad.documents import revived
from poseidon_reconciler.nomad.execution import Executed, Task, Tools, look_until
from poseidon_reconciler.nomad.outcomes import NotFound, Ok


async def revive_environment(tools: Tools, task: Task) -> Executed:
    """Makes an environment's dead job run again, and looks whether it does."""
    view = await read_view(tools.api, task.action.job_id, task.as_of)
    if not isinstance(view, View):
        return task.unconfirmed(view)
    job = view.job.payload
    if job.stop:
        return task.skipped("it was stopped by somebody")
    objection = why_not_lost(view, task.as_of, tools.policy.for_environment(task.action.environment_id))
    if objection is not None:
        # It may be lost again when that has ended: nothing was done yet.
        return task.skipped(f"it is not lost: {objection}")
    if view.placed:
        return await _place_anew(tools, task, view)
    if tools.dry_run:
        return task.would(f"register version {job.version + 1}")
    written = await tools.api.register(revived(view.job.document(), task.stamp), enforce_index=job.job_modify_index)
    if not isinstance(written, Ok):
        return task.not_written(written)
    return await _check_revived(tools, task, written.value)


async def _place_anew(tools: Tools, task: Task, view: View) -> Executed:
    """Ends what hangs while it starts; a new version of the job would leave it where it is."""
    if tools.dry_run:
        return task.would("stop its allocation")
    hanging = sorted(allocation.id for allocation in view.placed)
    for allocation_id in hanging:
        stopped = await tools.api.stop_allocation(allocation_id)
        if not isinstance(stopped, Ok):
            return task.not_written(stopped)
    return task.done(f"stopped {len(hanging)} allocation that never started, for another to be placed")


async def _check_revived(tools: Tools, task: Task, index: int) -> Executed:
    latest = ""

    async def look() -> Executed | None:
        nonlocal latest
        read = await tools.api.read_job(task.action.job_id, not_before=index)
        if isinstance(read, Ok):
            latest = read.value.payload.status
            if latest == "running":
                return task.done("it runs", index)
        return None

    seen = await look_until(tools, look)
    if seen is not None:
        return seen
    if latest == "pending":
        return task.done("it waits for an allocation", index)
    if latest == "dead":
        return task.failed("it is dead again", index)
    return task.unknown("registered, but what became of it cannot be read", index)


async def remove_job(tools: Tools, task: Task) -> Executed:
    """Stops and purges a runner's job that is lost for good; never one that a learner may still use."""
    view = await read_view(tools.api, task.action.job_id, task.as_of)
    if isinstance(view, NotFound):
        return task.already("it is gone")
    if not isinstance(view, View):
        return task.unconfirmed(view)
    objection = why_not_lost(view, task.as_of, tools.policy.for_environment(task.action.environment_id))
    if objection is not None:
        return task.skipped(f"it is not lost: {objection}")
    return replace(await _remove(tools, task, view), trouble=view.trouble)


async def _remove(tools: Tools, task: Task, view: View) -> Executed:
    if tools.dry_run:
        return task.would("stop and purge it")
    # Nomad cannot be told to stop a job only if it is as it was read, so nothing may come between this and the stop.
    again = await tools.api.read_job(task.action.job_id)
    if not isinstance(again, Ok):
        return task.unconfirmed(again)
    if _has_changed(view.job, again.value):
        return task.skipped("it changed while it was read")
    stopped = await tools.api.deregister(task.action.job_id, purge=False)
    if not isinstance(stopped, Ok):
        return task.not_written(stopped)
    return await clear_away(tools, task, stopped.value, purges=(True,))


def _has_changed(before: JobRead, now: JobRead) -> bool:
    return before.payload.modify_index != now.payload.modify_index
