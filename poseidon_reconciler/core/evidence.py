"""The facts behind a verdict, each with the event that told it.

Not a log: of each object only the last that was said of it counts, and only what the matching rule could see.
"""

from __future__ import annotations

from msgspec import Struct

from poseidon_reconciler.core.diagnosis import Diagnosis, is_killer
from poseidon_reconciler.core.events import EvaluationPayload, PlacementFailure
from poseidon_reconciler.core.facts import Facts
from poseidon_reconciler.core.records import UNREACHABLE, Allocation, Job, Node, Origin
from poseidon_reconciler.core.wording import counted

_SHORT_ID_CHARS = 8


class Evidence(Struct, frozen=True):
    """One fact: where it came from (`index`, `topic`, `type`, `key` of the event; type `list` for a list) and a
    sentence.
    """

    index: int
    topic: str
    type: str
    key: str
    text: str


def evidence_for(diagnosis: Diagnosis, job: Job, now: float) -> list[Evidence]:
    """The facts that the job's present verdict rests on, in the order in which they happened."""
    facts = diagnosis.facts(job, now)
    found = [_evidence("Job", job.id, job.origin, _job_text(job))] if job.seen else []
    found += [
        _evidence("Allocation", a.data.id, a.origin, _allocation_text(job, a))
        for a in job.allocations.values()
        if a is job.current or is_killer(job, a.data)
    ]
    if not facts.placed:
        live = job.live_evaluations.values()
        found += [_evidence("Evaluation", e.data.id, e.origin, evaluation_text(e.data)) for e in live]
    if facts.node is not None and _node_matters(facts, facts.node):
        found.append(_evidence("Node", facts.node.id, facts.node.origin, _node_text(facts.node)))
    return sorted(found, key=lambda evidence: evidence.index)


def _evidence(topic: str, key: str, origin: Origin, text: str) -> Evidence:
    return Evidence(origin.index, topic, origin.type, key, text)


def _node_matters(facts: Facts, node: Node) -> bool:
    return facts.placed and (node.draining or node.status in UNREACHABLE)


def short(object_id: str) -> str:
    """An id as Nomad's own tools shorten it."""
    return object_id[:_SHORT_ID_CHARS]


def _job_text(job: Job) -> str:
    if job.gone is not None:
        return {
            "stopped": "the job was stopped, then removed",
            "purged": "the job was purged",
            "collected": "the job was collected as garbage",
            "vanished": "the job is not in the list of all jobs, and no event had said so",
        }[job.gone]
    text = f"the job is {job.status or 'of unknown status'}, {'stopped' if job.stop else 'not stopped'}"
    return text + (", marked used" if job.used else "")


def _allocation_text(job: Job, allocation: Allocation) -> str:
    data = allocation.data
    text = f"allocation {short(data.id)} is {data.client_status}"
    task = allocation.main_task_state
    if data.client_status == "running" and task not in ("running", ""):
        text += f", its main task still {task}"
    if data.desired_status != "run":
        text += f", ordered to {data.desired_status}"
        if data.desired_description:
            text += f" ({data.desired_description})"
    if is_killer(job, data):
        text += "; unlinked and of the current version: Nomad takes such a one, once complete, for the job's success"
    if data.followup_eval_id:
        text += f"; evaluation {short(data.followup_eval_id)} is to follow"
    return text


def evaluation_text(data: EvaluationPayload) -> str:
    """An evaluation in a sentence, with the scheduler's reason where it found no place."""
    text = f"evaluation {short(data.id)} is {data.status}"
    if data.wait_until and not data.wait_until.startswith("0001-"):
        text += f" until {data.wait_until}"
    for group, failure in (data.failed_tg_allocs or {}).items():
        text += f"; no place for {group}: {placement_text(failure)}"
    return text


def placement_text(failure: PlacementFailure) -> str:
    """Why no node was found."""
    parts = [f"{counted(failure.nodes_evaluated, 'node')} looked at"]
    parts += [f"{what} exhausted on {n}" for what, n in sorted((failure.dimension_exhausted or {}).items())]
    parts += [f"{what} filtered {n}" for what, n in sorted((failure.constraint_filtered or {}).items())]
    return ", ".join(parts)


def _node_text(node: Node) -> str:
    name = node.name or short(node.id)
    return f"node {name} is {node.status}" + (" and draining" if node.draining else "")
