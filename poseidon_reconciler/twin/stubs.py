"""The shortened objects in the API's lists, and what is counted for them."""

from __future__ import annotations

from collections import Counter

from poseidon_reconciler.twin.documents import (
    Document,
    allocation_document,
    drivers,
    eligibility,
    job_document,
    last_drain,
)
from poseidon_reconciler.twin.records import Allocation, Job, Node
from poseidon_reconciler.twin.state import State
from poseidon_reconciler.twin.traits import Traits

_COUNTED = {
    "complete": "Complete", "failed": "Failed", "lost": "Lost", "pending": "Starting", "running": "Running",
    "unknown": "Unknown",
}  # fmt: skip


def summary(state: State, job: Job, traits: Traits) -> Document:
    """A job's summary: how many allocations of each group are in which state."""
    groups = {group.name: Counter(Queued=0) for group in job.groups}
    for allocation in state.allocations_of(job.key):
        if allocation.group_name in groups:
            groups[allocation.group_name][_COUNTED[allocation.client_status]] += 1
    for evaluation in state.evaluations_of(job.key):
        if evaluation.status == "blocked" and evaluation.failed_groups:
            for name in evaluation.failed_groups:
                groups[name]["Queued"] = 1
    names = ["Complete", "Failed", "Lost", "Queued", "Running", "Starting"]
    if traits.knows_disconnects:
        names.append("Unknown")
    return {
        "Children": {"Dead": 0, "Pending": 0, "Running": 0}, "CreateIndex": job.create_index, "JobID": job.id,
        "ModifyIndex": job.modify_index, "Namespace": job.namespace,
        "Summary": {group: {name: counts[name] for name in names} for group, counts in groups.items()},
    }  # fmt: skip


def job_stub(state: State, job: Job, traits: Traits, *, with_meta: bool = False) -> Document:
    """A job in `/v1/jobs`."""
    whole = job_document(job)
    names = (
        "CreateIndex", "Datacenters", "ID", "JobModifyIndex", "ModifyIndex", "Multiregion", "Name", "Namespace",
        "ParentID", "Priority", "Status", "StatusDescription", "Stop", "SubmitTime", "Type",
    )  # fmt: skip
    stub = {name: whole[name] for name in names}
    stub["JobSummary"] = summary(state, job, traits)
    stub["ParameterizedJob"] = whole["ParameterizedJob"] is not None
    stub["Periodic"] = whole["Periodic"] is not None
    if traits.stubs_show_pools:
        stub["NodePool"] = job.spec.get("NodePool") or "default"
    if with_meta and whole["Meta"]:
        stub["Meta"] = whole["Meta"]
    return stub


def allocation_stub(allocation: Allocation, traits: Traits, *, with_tasks: bool = True) -> Document:
    """An allocation in `/v1/allocations` and `/v1/job/:id/allocations`."""
    whole = allocation_document(allocation, with_job=False)
    names = [
        "ClientDescription", "ClientStatus", "CreateIndex", "CreateTime", "DeploymentStatus", "DesiredDescription",
        "DesiredStatus", "EvalID", "FollowupEvalID", "ID", "JobID", "ModifyIndex", "ModifyTime", "Name", "Namespace",
        "NodeID", "NodeName", "PreemptedAllocations", "PreemptedByAllocation", "RescheduleTracker", "TaskGroup",
        "TaskStates",
    ]  # fmt: skip
    if traits.stubs_show_pools:
        names.append("NextAllocation")
    stub = {name: whole[name] for name in names}
    stub["DesiredTransition"] = whole["DesiredTransition"] or {
        "ForceReschedule": None,
        "Migrate": None,
        "Reschedule": None,
    }
    stub["JobType"] = allocation.job.type
    stub["JobVersion"] = allocation.job.version
    if not with_tasks:
        stub["TaskStates"] = None
    return stub


def node_stub(node: Node, traits: Traits) -> Document:
    """A node in `/v1/nodes`."""
    stub: Document = {
        "Address": "127.0.0.1", "CreateIndex": node.create_index, "Datacenter": node.spec.datacenter,
        "Drain": node.drain is not None, "Drivers": drivers(node), "HostVolumes": None, "ID": node.id,
        "LastDrain": last_drain(node), "ModifyIndex": node.modify_index, "Name": node.spec.name,
        "NodeClass": node.spec.node_class, "SchedulingEligibility": eligibility(node), "Status": node.status,
        "StatusDescription": "", "Version": traits.version,
    }  # fmt: skip
    if traits.stubs_show_pools:
        stub["NodePool"] = "default"
    return stub


def deregistered(evaluation_id: str, index: int) -> Document:
    """The answer to a job's deregistration."""
    return {
        "EvalCreateIndex": index, "EvalID": evaluation_id, "Index": index, "JobModifyIndex": index,
        "KnownLeader": False, "LastContact": 0, "VolumeEvalID": "", "VolumeEvalIndex": 0,
    }  # fmt: skip


def registered(evaluation_id: str, evaluation_index: int, job_modify_index: int) -> Document:
    """The answer to a job's registration or evaluation."""
    return {
        "EvalCreateIndex": evaluation_index, "EvalID": evaluation_id, "Index": evaluation_index,
        "JobModifyIndex": job_modify_index, "KnownLeader": False, "LastContact": 0, "Warnings": "",
    }  # fmt: skip
