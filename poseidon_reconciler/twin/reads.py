"""The API's reads: lists, single objects, and what tools ask a server about itself."""

from __future__ import annotations

from collections.abc import Callable

from poseidon_reconciler.twin import documents, stubs
from poseidon_reconciler.twin.acl import READ_JOB, READ_NODE
from poseidon_reconciler.twin.asking import Answer, Ask, page
from poseidon_reconciler.twin.jobs import Refused
from poseidon_reconciler.twin.records import Allocation, Evaluation, Job

_ID_LENGTH = 36


def jobs(ask: Ask) -> Answer:
    """`GET /v1/jobs`."""
    prefix, meta = ask.query.get("prefix", ""), ask.flag("meta")
    found = [job for job in ask.state.jobs.values() if ask.in_namespace(job.namespace) and job.id.startswith(prefix)]
    found.sort(key=lambda job: job.key)
    return page(
        ask, "jobs", found, lambda job: f"{job.namespace}.{job.id}",
        lambda job: stubs.job_stub(ask.state, job, ask.traits, with_meta=meta),
    )  # fmt: skip


def _job(ask: Ask) -> Job:
    job = ask.state.jobs.get(ask.job_key)
    if job is None:
        raise Refused(404, "job not found", ask.state.table_index["jobs"])
    return job


def job(ask: Ask) -> Answer:
    """`GET /v1/job/:id`."""
    found = _job(ask)
    return Answer(documents.job_document(found), found.modify_index)


def job_versions(ask: Ask) -> Answer:
    """`GET /v1/job/:id/versions`, newest first."""
    found = _job(ask)
    versions = ask.state.versions[found.key][::-1]
    document = {"Diffs": None, "Versions": [documents.job_document(version) for version in versions]}
    return Answer(document, found.modify_index)


def job_summary(ask: Ask) -> Answer:
    """`GET /v1/job/:id/summary`."""
    found = _job(ask)
    return Answer(stubs.summary(ask.state, found, ask.traits), found.modify_index)


def job_allocations(ask: Ask) -> Answer:
    """`GET /v1/job/:id/allocations`; `all` includes those of an earlier job of the same name."""
    known = ask.state.jobs.get(ask.job_key)
    found = [
        allocation
        for allocation in ask.state.allocations_of(ask.job_key)
        if ask.flag("all") or known is None or allocation.job.create_index == known.create_index
    ]
    return page(ask, "allocs", found, lambda a: a.id, lambda a: stubs.allocation_stub(a, ask.traits))


def job_evaluations(ask: Ask) -> Answer:
    """`GET /v1/job/:id/evaluations`."""
    found = ask.state.evaluations_of(ask.job_key)
    return page(ask, "evals", found, lambda evaluation: evaluation.id, _evaluation_document)


def job_deployments(ask: Ask) -> Answer:
    """`GET /v1/job/:id/deployments`: batch jobs have none."""
    return Answer([], ask.state.table_index["jobs"])


def job_deployment(ask: Ask) -> Answer:
    """`GET /v1/job/:id/deployment`: batch jobs have none."""
    return Answer(None, ask.state.table_index["jobs"])


def allocations(ask: Ask) -> Answer:
    """`GET /v1/allocations`."""
    prefix = ask.query.get("prefix", "")
    with_tasks = ask.query.get("task_states", "true") != "false"
    found = [
        allocation
        for allocation in ask.state.allocations.values()
        if ask.in_namespace(allocation.job.namespace) and allocation.id.startswith(prefix)
    ]
    return page(
        ask, "allocs", found, lambda a: a.id,
        lambda a: stubs.allocation_stub(a, ask.traits, with_tasks=with_tasks),
    )  # fmt: skip


def allocation(ask: Ask) -> Answer:
    """`GET /v1/allocation/:id`."""
    found = find_allocation(ask)
    document = documents.without_empty(documents.allocation_document(found))
    return Answer(document, found.modify_index)


def find_allocation(ask: Ask) -> Allocation:
    """The allocation that the path names. Raises `Refused`."""
    identity = ask.path["id"]
    if len(identity) != _ID_LENGTH:
        raise Refused(500, "alloc lookup failed: index error: UUID must be 36 characters")
    found = ask.state.allocations.get(identity)
    if found is None:
        raise Refused(404, "alloc not found", ask.state.table_index["allocs"])
    return found


def _evaluation_document(evaluation: Evaluation) -> documents.Document:
    return documents.without_empty(documents.evaluation_document(evaluation))


def evaluations(ask: Ask) -> Answer:
    """`GET /v1/evaluations`."""
    prefix, job_id, status = (ask.query.get(name, "") for name in ("prefix", "job", "status"))
    found = [
        evaluation
        for evaluation in ask.state.evaluations.values()
        if ask.in_namespace(evaluation.namespace)
        and evaluation.id.startswith(prefix)
        and job_id in {"", evaluation.job_id}
        and status in {"", evaluation.status}
    ]
    return page(ask, "evals", found, lambda evaluation: evaluation.id, _evaluation_document)


def _evaluation(ask: Ask) -> Evaluation:
    identity = ask.path["id"]
    if len(identity) != _ID_LENGTH:
        raise Refused(500, "eval lookup failed: index error: UUID must be 36 characters")
    found = ask.state.evaluations.get(identity)
    if found is None:
        raise Refused(404, "eval not found", ask.state.table_index["evals"])
    return found


def evaluation(ask: Ask) -> Answer:
    """`GET /v1/evaluation/:id`."""
    found = _evaluation(ask)
    return Answer(_evaluation_document(found), found.modify_index)


def evaluation_allocations(ask: Ask) -> Answer:
    """`GET /v1/evaluation/:id/allocations`."""
    found = [a for a in ask.state.allocations.values() if a.evaluation_id == _evaluation(ask).id]
    return page(ask, "allocs", found, lambda a: a.id, lambda a: stubs.allocation_stub(a, ask.traits))


def nodes(ask: Ask) -> Answer:
    """`GET /v1/nodes`."""
    prefix = ask.query.get("prefix", "")
    found = [node for node in ask.state.nodes.values() if node.id.startswith(prefix)]
    return page(ask, "nodes", found, lambda node: node.id, lambda node: stubs.node_stub(node, ask.traits))


def find_node(ask: Ask) -> str:
    """The id of the node that the path names. Raises `Refused`."""
    identity = ask.path["id"]
    if len(identity) != _ID_LENGTH:
        raise Refused(500, "node lookup failed: index error: UUID must be 36 characters")
    if identity not in ask.state.nodes:
        raise Refused(404, "node not found", ask.state.table_index["nodes"])
    return identity


def node(ask: Ask) -> Answer:
    """`GET /v1/node/:id`."""
    found = ask.state.nodes[find_node(ask)]
    return Answer(documents.node_document(found), found.modify_index)


def node_allocations(ask: Ask) -> Answer:
    """`GET /v1/node/:id/allocations`: whole allocations."""
    found = ask.state.allocations_on(find_node(ask))
    document = [documents.without_empty(documents.allocation_document(a)) for a in found]
    return Answer(document, ask.state.table_index["allocs"])


def namespaces(ask: Ask) -> Answer:
    """`GET /v1/namespaces`: the default one, and those in use."""
    names = sorted({"default", *(namespace for namespace, _ in ask.state.jobs)})
    document = [
        {"CreateIndex": 1, "Description": _described(name), "ModifyIndex": 1, "Name": name, "Quota": ""}
        for name in names
    ]
    return Answer(document, 1)


def _described(namespace: str) -> str:
    return "Default shared namespace" if namespace == "default" else ""


def regions(_: Ask) -> Answer:
    """`GET /v1/regions`."""
    return Answer(["global"])


READS: tuple[tuple[str, Callable[[Ask], Answer], str], ...] = (
    ("/v1/jobs", jobs, READ_JOB),
    ("/v1/job/{id}", job, READ_JOB),
    ("/v1/job/{id}/versions", job_versions, READ_JOB),
    ("/v1/job/{id}/summary", job_summary, READ_JOB),
    ("/v1/job/{id}/allocations", job_allocations, READ_JOB),
    ("/v1/job/{id}/evaluations", job_evaluations, READ_JOB),
    ("/v1/job/{id}/deployments", job_deployments, READ_JOB),
    ("/v1/job/{id}/deployment", job_deployment, READ_JOB),
    ("/v1/allocations", allocations, READ_JOB),
    ("/v1/allocation/{id}", allocation, READ_JOB),
    ("/v1/evaluations", evaluations, READ_JOB),
    ("/v1/evaluation/{id}", evaluation, READ_JOB),
    ("/v1/evaluation/{id}/allocations", evaluation_allocations, READ_JOB),
    ("/v1/nodes", nodes, READ_NODE),
    ("/v1/node/{id}", node, READ_NODE),
    ("/v1/node/{id}/allocations", node_allocations, READ_NODE),
    ("/v1/namespaces", namespaces, ""),
    ("/v1/regions", regions, ""),
)
"""Path, read and needed capability."""
