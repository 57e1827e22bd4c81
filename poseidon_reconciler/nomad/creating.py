"""create-runner and restore-environment: jobs that did not exist, registered only if they still do not.

The id is the same for everybody who sees the same loss, so that "exists already" is success, whoever was first.
"""

from __future__ import annotations

import orjson

from poseidon_reconciler.core.events import UNKNOWN
from poseidon_reconciler.core.ids import template_id
from poseidon_reconciler.nomad.confirm import View, read_view, why_not_lost
from poseidon_reconciler.nomad.documents import Document, restored, runner_from_template, with_stop_after
from poseidon_reconciler.nomad.execution import Executed, Task, Tools
from poseidon_reconciler.nomad.outcomes import Conflict, NotFound, Ok


async def create_runner(tools: Tools, task: Task) -> Executed:
    """Creates a runner as a copy of its environment's own job as that is now; `as_of` is of what it replaces."""
    action = task.action
    objection = await _why_not_replace(tools, task)
    if objection is not None:
        return objection
    # A refill rests on the template alone: one that is older than it was is of another history.
    not_before = task.as_of.job_index if action.replaces is None else UNKNOWN
    template = await tools.api.read_job(template_id(action.environment_id), not_before=not_before)
    if not isinstance(template, Ok):
        return task.unconfirmed(template)
    if template.value.payload.stop:
        return task.skipped("its environment was stopped by somebody")
    tools.templates[template.value.payload.id] = template.value.body
    document = runner_from_template(template.value.document(), action.job_id, task.stamp, replaces=action.replaces)
    policy = tools.policy.for_environment(action.environment_id)
    if policy.disconnect_policy == "exactly" and policy.stop_after_s is not None:
        document = with_stop_after(document, policy.stop_after_s)
    return await _create(tools, task, document)


async def restore_environment(tools: Tools, task: Task) -> Executed:
    """Registers an environment's own job again as it was last read."""
    read = await tools.api.read_job(task.action.job_id, not_before=task.as_of.job_index)
    if isinstance(read, Ok):
        return task.already("it exists", read.value.payload.job_modify_index)
    if not isinstance(read, NotFound):
        return task.unconfirmed(read)
    kept = tools.templates.get(task.action.job_id)
    if kept is None:
        return task.failed("its job was never read while it existed")
    return await _create(tools, task, restored(orjson.loads(kept), task.stamp))


async def _why_not_replace(tools: Tools, task: Task) -> Executed | None:
    """A lost runner that was cleared away meanwhile is still to be replaced; one that is back is not."""
    if task.action.replaces is None:
        return None
    view = await read_view(tools.api, task.action.replaces, task.as_of)
    if isinstance(view, NotFound):
        return None
    if not isinstance(view, View):
        return task.unconfirmed(view)
    policy = tools.policy.for_environment(task.action.environment_id)
    objection = why_not_lost(view, task.as_of, policy) if not view.job.payload.stop else None
    return task.skipped(f"what it replaces is not lost: {objection}") if objection is not None else None


async def _create(tools: Tools, task: Task, document: Document) -> Executed:
    if tools.dry_run:
        return task.would(f"register {document['ID']}")
    written = await tools.api.register(document, enforce_index=0)
    if isinstance(written, Ok):
        return task.done("registered", written.value)
    if not isinstance(written, Conflict):
        return task.not_written(written)
    read = await tools.api.read_job(document["ID"])
    if not isinstance(read, Ok):
        return task.not_written(read)
    return task.already("somebody registered it first", read.value.payload.job_modify_index)
