"""Objects of the cluster in one line each, for the story of a run."""

from __future__ import annotations

from poseidon_reconciler.twin import poseidon_jobs as pj
from poseidon_reconciler.twin.events import Payload
from poseidon_reconciler.twin.records import Allocation, Evaluation, Job, Node


def describe(payload: Payload) -> str:
    """What an event says, as far as it matters here."""
    match payload:
        case Job():
            used = pj.config_of(dict(payload.spec)).get("used")
            stop = " stop" if payload.stop else ""
            return f"{payload.id} {payload.status}{stop} version={payload.version} used={used}"
        case Allocation():
            status = f"{payload.client_status}/{payload.desired_status}"
            why = f" ({payload.desired_description})" if payload.desired_description else ""
            link = f" next={payload.next_id[:8]}" if payload.next_id else ""
            return (
                f"{payload.job.id} {payload.id[:8]} on {payload.node_name} {status}{why}{link} v{payload.job.version}"
            )
        case Evaluation():
            return f"{payload.job_id} {payload.id[:8]} {payload.status} by {payload.triggered_by}"
        case Node():
            drains = " draining" if payload.drain is not None else ""
            return f"{payload.spec.name} {payload.id[:8]} {payload.status}{drains}"
