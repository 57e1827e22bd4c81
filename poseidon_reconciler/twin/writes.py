"""The API's writes: what a request does to the cluster, and what is answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from poseidon_reconciler.twin import stubs
from poseidon_reconciler.twin.acl import LIFECYCLE, MANAGEMENT, READ_JOB, SUBMIT_JOB, WRITE_NODE
from poseidon_reconciler.twin.asking import Answer, Ask
from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.documents import evaluation_document
from poseidon_reconciler.twin.jobs import Dry, Refused
from poseidon_reconciler.twin.jobspec import NANOSECONDS
from poseidon_reconciler.twin.reads import find_allocation, find_node


def _body(ask: Ask) -> Mapping[str, Any]:
    if not isinstance(ask.body, Mapping):
        raise Refused(400, "EOF")
    return ask.body


def _job_of(ask: Ask) -> dict[str, Any]:
    job = _body(ask).get("Job")
    if not isinstance(job, Mapping) or not job:
        raise Refused(400, "Job must be specified")
    named = ask.path.get("id")
    if named is not None and job.get("ID") != named:
        raise Refused(400, "Job ID does not match name")
    return {**job, "Namespace": job.get("Namespace") or ask.namespace}


def register_job(cluster: Cluster, ask: Ask) -> Answer:
    """`POST /v1/jobs` and `/v1/job/:id`."""
    body = _body(ask)
    job, evaluation = cluster.jobs.register(
        _job_of(ask),
        enforce_index=bool(body.get("EnforceIndex")),
        job_modify_index=int(body.get("JobModifyIndex") or 0),
    )
    return Answer(stubs.registered(evaluation.id, evaluation.create_index, job.job_modify_index))


def validate_job(cluster: Cluster, ask: Ask) -> Answer:
    """`POST /v1/validate/job`."""
    error = ""
    try:
        cluster.jobs.plan(_job_of(ask))
    except Refused as refused:
        error = str(refused)
    document = {
        "DriverConfigValidated": True, "Error": error, "ValidationErrors": [error] if error else None, "Warnings": "",
    }  # fmt: skip
    return Answer(document)


def plan_job(cluster: Cluster, ask: Ask) -> Answer:
    """`POST /v1/job/:id/plan`: what a registration would do."""
    dry = cluster.jobs.plan(_job_of(ask))
    document = {
        "Annotations": {"DesiredTGUpdates": dry.plan.updates, "PreemptedAllocs": None},
        "CreatedEvals": [evaluation_document(later) for later in dry.plan.followups] or None,
        "Diff": _diff(dry) if _body(ask).get("Diff") else None,
        "FailedTGAllocs": dry.plan.failed or None, "Index": cluster.state.index,
        "JobModifyIndex": dry.known.job_modify_index if dry.known is not None else 0,
        "NextPeriodicLaunch": None, "Warnings": "",
    }  # fmt: skip
    return Answer(document)


def _diff(dry: Dry) -> dict[str, Any]:
    kind = "Added" if dry.known is None else "None" if dry.known is dry.job else "Edited"
    groups = [
        {"Fields": None, "Name": group.name, "Objects": None, "Tasks": None, "Type": kind, "Updates": None}
        for group in dry.job.groups
    ]
    return {"Fields": None, "ID": dry.job.id, "Objects": None, "TaskGroups": groups, "Type": kind}


def deregister_job(cluster: Cluster, ask: Ask) -> Answer:
    """`DELETE /v1/job/:id`: stop, or with `purge` delete."""
    evaluation = cluster.jobs.deregister(ask.job_key, purge=ask.flag("purge"))
    if evaluation is None:
        return Answer(stubs.deregistered("", 0))
    return Answer(stubs.deregistered(evaluation.id, evaluation.create_index))


def evaluate_job(cluster: Cluster, ask: Ask) -> Answer:
    """`POST /v1/job/:id/evaluate`."""
    options = ask.body.get("EvalOptions") if isinstance(ask.body, Mapping) else None
    force = bool((options or {}).get("ForceReschedule"))
    evaluation = cluster.jobs.evaluate(ask.job_key, force_reschedule=force)
    job = cluster.state.jobs[ask.job_key]
    return Answer(stubs.registered(evaluation.id, evaluation.create_index, job.job_modify_index))


def stop_allocation(cluster: Cluster, ask: Ask) -> Answer:
    """`POST /v1/allocation/:id/stop`: the allocation is placed anew."""
    (evaluation,) = cluster.nodes.migrate([find_allocation(ask)], "alloc-stop")
    return Answer({"EvalID": evaluation.id, "Index": evaluation.create_index})


def drain_node(cluster: Cluster, ask: Ask) -> Answer:
    """`POST /v1/node/:id/drain`: start a drain, or end it."""
    node_id, body = find_node(ask), _body(ask)
    spec = body.get("DrainSpec")
    if spec:
        deadline_s = (spec.get("Deadline") or 0) / NANOSECONDS
        ignore = bool(spec.get("IgnoreSystemJobs"))
        cluster.nodes.drain(node_id, -1.0 if deadline_s < 0 else deadline_s, ignore_system_jobs=ignore)
    else:
        cluster.nodes.cancel_drain(node_id, eligible=bool(body.get("MarkEligible")))
    return _node_answer(cluster, node_id)


def set_eligibility(cluster: Cluster, ask: Ask) -> Answer:
    """`POST /v1/node/:id/eligibility`."""
    node_id, wanted = find_node(ask), _body(ask).get("Eligibility")
    if wanted not in {"eligible", "ineligible"}:
        raise Refused(500, f'invalid scheduling eligibility "{wanted}"')
    if wanted == "eligible" and cluster.state.nodes[node_id].drain is not None:
        raise Refused(500, "can not set node's scheduling eligibility to eligible while it is draining")
    cluster.nodes.set_eligible(node_id, eligible=wanted == "eligible")
    return _node_answer(cluster, node_id)


def _node_answer(cluster: Cluster, node_id: str) -> Answer:
    state, node = cluster.state, cluster.state.nodes[node_id]
    made = [
        evaluation.id
        for evaluation in state.evaluations.values()
        if evaluation.node_id == node_id and evaluation.create_index > node.modify_index
    ]
    document = {
        "EvalCreateIndex": state.index if made else 0, "EvalIDs": made or None, "Index": node.modify_index,
        "KnownLeader": False, "LastContact": 0, "NodeModifyIndex": node.modify_index,
    }  # fmt: skip
    return Answer(document)


def evaluate_node(cluster: Cluster, ask: Ask) -> Answer:
    """`POST /v1/node/:id/evaluate`: every job that was ever on the node is looked at again."""
    node_id = find_node(ask)
    cluster.nodes.evaluate(cluster.state.nodes[node_id])
    return _node_answer(cluster, node_id)


def collect_garbage(cluster: Cluster, _: Ask) -> Answer:
    """`PUT /v1/system/gc`: as if everything that is over were old."""
    cluster.collect_garbage(force=True)
    return Answer(None)


Write = Callable[[Cluster, Ask], Answer]

WRITES: tuple[tuple[str, str, Write, str], ...] = (
    ("PUT", "/v1/jobs", register_job, SUBMIT_JOB),
    ("PUT", "/v1/job/{id}", register_job, SUBMIT_JOB),
    ("PUT", "/v1/validate/job", validate_job, READ_JOB),
    ("PUT", "/v1/job/{id}/plan", plan_job, SUBMIT_JOB),
    ("PUT", "/v1/job/{id}/evaluate", evaluate_job, SUBMIT_JOB),
    ("DELETE", "/v1/job/{id}", deregister_job, SUBMIT_JOB),
    ("PUT", "/v1/allocation/{id}/stop", stop_allocation, LIFECYCLE),
    ("PUT", "/v1/node/{id}/drain", drain_node, WRITE_NODE),
    ("PUT", "/v1/node/{id}/eligibility", set_eligibility, WRITE_NODE),
    ("PUT", "/v1/node/{id}/evaluate", evaluate_node, WRITE_NODE),
    ("PUT", "/v1/system/gc", collect_garbage, MANAGEMENT),
)
"""Method (`PUT` stands for `POST` too), path, write and needed capability."""
