"""A job read again right before something is done to it, and whether it is still what the decision took it for.

The model follows events, and events come late or not at all. Between the decision and the deed the job may have been
claimed, revived, stopped or replaced; then nothing is done. What cannot be read confirms nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from poseidon_reconciler.core.events import UNKNOWN, AllocationPayload, EvaluationPayload, parse_time
from poseidon_reconciler.core.records import LIVE_EVALUATION, UNREACHABLE, Job
from poseidon_reconciler.nomad.api import Api, JobRead
from poseidon_reconciler.nomad.outcomes import Failure, NotFound, Ok
from poseidon_reconciler.nomad.trouble import ToldAllocation, trouble_of
from poseidon_reconciler.policy import PoolPolicy

_PLACED: Final = frozenset({"running", "pending", "unknown"})
_FINISHED: Final = frozenset({"lost", "complete"})
_MAIN_TASK: Final = "default-task"


class AsOf(NamedTuple):
    """What a decision about a job rests on: how new a confirming read must be at least, by table."""

    create_index: int = UNKNOWN
    job_index: int = UNKNOWN
    allocation_index: int = UNKNOWN
    evaluation_index: int = UNKNOWN

    @staticmethod
    def of(job: Job) -> AsOf:
        """What the model knows of a job."""
        return AsOf(
            create_index=job.create_index,
            job_index=max(job.modify_index, job.gone_index),
            allocation_index=max((a.data.modify_index for a in job.allocations.values()), default=UNKNOWN),
            evaluation_index=max((e.data.modify_index for e in job.evaluations.values()), default=UNKNOWN),
        )


@dataclass(frozen=True, slots=True)
class View:
    """A job with all that hangs on it. `out_of_reach`: the nodes with its allocations that have lost their servers."""

    job: JobRead
    allocations: list[ToldAllocation]
    evaluations: list[EvaluationPayload]
    out_of_reach: frozenset[str] = frozenset()

    @property
    def placed(self) -> list[ToldAllocation]:
        """The allocations that Nomad wants to run and that have not ended."""
        return [a for a in self.allocations if a.desired_status == "run" and a.client_status in _PLACED]

    @property
    def hangs(self) -> bool:
        """Whether something is placed, and all of that is in reach and has not come to run."""
        placed = self.placed
        return bool(placed) and all(
            a.client_status != "unknown"
            and a.node_id not in self.out_of_reach
            and (a.client_status == "pending" or not _main_task_runs(a))
            for a in placed
        )

    @property
    def live_evaluations(self) -> list[EvaluationPayload]:
        """The evaluations that Nomad still works on; what is older than a job's death is not worked on any more."""
        job = self.job.payload
        since = job.modify_index if job.status == "dead" else UNKNOWN
        return [e for e in self.evaluations if e.status in LIVE_EVALUATION and e.modify_index >= since]

    @property
    def used(self) -> bool:
        groups = self.job.payload.task_groups or ()
        return any((group.meta or {}).get("used") == "true" for group in groups if group.name == "config")

    @property
    def trouble(self) -> str:
        """What Nomad says of why the job does not run; empty if nothing."""
        return trouble_of(self.allocations, self.evaluations)

    @property
    def at_risk(self) -> bool:
        """Whether an allocation of the current version will pass for the job's success at the next evaluation."""
        job = self.job.payload
        return any(
            a.desired_status == "stop"
            and a.client_status in _FINISHED
            and not a.next_allocation
            and a.job_version in (UNKNOWN, job.version)
            for a in self.allocations
        )


async def read_view(api: Api, job_id: str, as_of: AsOf) -> View | Failure:
    """Reads a job anew, with everything that can contradict its loss; the first thing that cannot be read ends it."""
    job = await api.read_job(job_id, not_before=as_of.job_index)
    if not isinstance(job, Ok):
        return job
    allocations, evaluations = await asyncio.gather(
        api.read_job_allocations(job_id, not_before=as_of.allocation_index),
        api.read_job_evaluations(job_id, not_before=as_of.evaluation_index),
    )
    if not isinstance(allocations, Ok):
        return allocations
    if not isinstance(evaluations, Ok):
        return evaluations
    view = View(job.value, allocations.value, evaluations.value)
    unreachable = await _unreachable(api, {a.node_id for a in view.allocations if a.client_status in _PLACED})
    if not isinstance(unreachable, frozenset):
        return unreachable
    return View(view.job, view.allocations, view.evaluations, unreachable)


def why_not_lost(view: View, as_of: AsOf, policy: PoolPolicy) -> str | None:
    """What contradicts that a job is lost for good; None if it still is.

    A pending allocation contradicts it only if it is newer than the decision: an older one has used up its time, and is
    not helped by an evaluation that is left over from a node's absence and waits for hours. Where copies out of reach
    matter, the decision rests on what each allocation was last heard of.
    """
    job = view.job.payload
    newest = max((a.modify_index for a in view.allocations), default=UNKNOWN)
    if policy.disconnect_policy != "at-least" and newest > as_of.allocation_index > UNKNOWN:
        return "an allocation of it has changed"
    if UNKNOWN < as_of.create_index != job.create_index:
        return "it was registered anew"
    hangs = view.hangs
    evaluations = [e for e in view.live_evaluations if not (hangs and _may_wait_for_long(e))]
    if evaluations:
        return f"an evaluation of it is {evaluations[0].status}"
    for allocation in view.allocations:
        if allocation.client_status not in _PLACED or allocation.node_id in view.out_of_reach:
            continue
        if allocation.client_status == "unknown":
            return "its node is back"
        if allocation.client_status == "running" and _main_task_runs(allocation):
            return "it runs"
        if allocation.desired_status == "run" and allocation.create_index > as_of.allocation_index:
            return "it has a new allocation"
    if view.used and view.placed:
        return "it is used, and its task may still run out of reach"
    return None


def _may_wait_for_long(evaluation: EvaluationPayload) -> bool:
    """Whether an evaluation waits for its time or for room, and is not worked on now."""
    return evaluation.status == "blocked" or parse_time(evaluation.wait_until) is not None


def _main_task_runs(allocation: AllocationPayload) -> bool:
    states = allocation.task_states
    if not states:
        return True
    main = states.get(_MAIN_TASK)
    tasks = [main] if main is not None else states.values()
    return not any(task.state == "pending" for task in tasks)


async def _unreachable(api: Api, node_ids: Iterable[str]) -> frozenset[str] | Failure:
    """Those of the nodes that are surely not in contact with their servers."""
    unreachable = []
    for node_id in sorted(filter(None, node_ids)):
        node = await api.read_node(node_id)
        if isinstance(node, NotFound) or (isinstance(node, Ok) and node.value.status in UNREACHABLE):
            unreachable.append(node_id)
        elif not isinstance(node, Ok):
            return node
    return frozenset(unreachable)
