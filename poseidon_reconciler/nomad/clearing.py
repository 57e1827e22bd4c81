"""What follows once a runner's job was stopped: Poseidon hears of it on every version of Nomad, and the job is purged.

A deregistration cannot be made to depend on anything, and the answer to the write before it may take long. Whoever had
read the job before it was stopped may have registered it since as he knew it, say as claimed, and servers that were
restored have it as it was: then it may run, and in use. So it is read again before each.
"""

from __future__ import annotations

from collections.abc import Iterable

from poseidon_reconciler.nomad.execution import Executed, Task, Tools
from poseidon_reconciler.nomad.outcomes import NotFound, Ok


async def clear_away(tools: Tools, task: Task, index: int, purges: Iterable[bool] = (False, True)) -> Executed:
    """Deregisters a job that was stopped at an index, as long as it still is; each time with such a `purge`."""
    for purge in purges:
        found = await tools.api.read_job(task.action.job_id, not_before=index)
        if isinstance(found, NotFound):
            return task.done("stopped, and purged by somebody", index)
        if not isinstance(found, Ok):
            return task.unknown(f"stopped, but not cleared away: {found.detail}", index)
        if not found.value.payload.stop:
            return task.skipped("somebody has registered it anew since it was stopped")
        gone = await tools.api.deregister(task.action.job_id, purge=purge)
        if not isinstance(gone, Ok):
            return task.unknown(f"stopped, but not cleared away: {gone.detail}", index)
        index = gone.value
    return task.done("stopped and purged", index)
