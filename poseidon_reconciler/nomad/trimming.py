"""stop-surplus: an idle runner beyond the target goes, unless somebody has claimed it a moment before.

A deregistration cannot be made to depend on anything: a claim between the last look and the stop would lose. So the job
is first registered as stopped, on the condition that it is still as it was read; what follows only tidies up.
"""

from __future__ import annotations

from poseidon_reconciler.nomad.clearing import clear_away
from poseidon_reconciler.nomad.confirm import View, read_view
from poseidon_reconciler.nomad.documents import stopped
from poseidon_reconciler.nomad.execution import Executed, Task, Tools
from poseidon_reconciler.nomad.outcomes import NotFound, Ok


async def stop_surplus(tools: Tools, task: Task) -> Executed:
    """Stops and purges an idle runner."""
    job_id = task.action.job_id
    view = await read_view(tools.api, job_id, task.as_of)
    if isinstance(view, NotFound):
        return task.already("it is gone")
    if not isinstance(view, View):
        return task.unconfirmed(view)
    objection = _why_not_idle(view)
    if objection is not None:
        return task.skipped(f"it is not idle: {objection}")
    if tools.dry_run:
        return task.would("stop and purge it")
    again = await tools.api.read_job(job_id)
    if not isinstance(again, Ok):
        return task.unconfirmed(again)
    if again.value.payload.job_modify_index != view.job.payload.job_modify_index:
        return task.skipped("it was claimed or changed while it was read")
    document = stopped(again.value.document(), task.stamp)
    written = await tools.api.register(document, enforce_index=view.job.payload.job_modify_index)
    if not isinstance(written, Ok):
        return task.not_written(written)
    return await clear_away(tools, task, written.value)


def _why_not_idle(view: View) -> str | None:
    job = view.job.payload
    if view.used:
        return "it is used"
    if job.stop:
        return "somebody has stopped it"
    if view.live_evaluations:
        return f"an evaluation of it is {view.live_evaluations[0].status}"
    running = [a for a in view.placed if a.client_status == "running"]
    return None if running else "it does not run"
