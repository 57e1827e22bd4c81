"""What the servers make of an agent's report about its allocations.

The report is believed whatever was known before: so an allocation that was given up as lost becomes `complete` when
its agent is back. Failures ask for an evaluation as long as the allocation has attempts left. What has ended makes
room for others, also where it was purged and only its agent still knew of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from poseidon_reconciler.twin.evaluations import Evaluator
from poseidon_reconciler.twin.records import Allocation, Evaluation, JobKey, TaskState
from poseidon_reconciler.twin.reschedule import next_attempt
from poseidon_reconciler.twin.state import State

_ENDED: Final = frozenset({"complete", "failed"})


class Report(Struct, frozen=True):
    """An allocation as its agent sees it."""

    allocation_id: str
    client_status: str
    client_description: str
    task_states: Mapping[str, TaskState]


def take_in(state: State, evaluator: Evaluator, node_id: str, reports: Iterable[Report]) -> bool:
    """Stores a node's report and asks for what follows from it; says whether the report was accepted."""
    node = state.nodes.get(node_id)
    gone = node is None or node.status in {"down", "disconnected"}
    if gone and evaluator.rules.traits.hears_only_live_nodes:
        return False
    write = state.begin("AllocationUpdated")
    triggers: dict[JobKey, str] = {}
    freed: dict[str, None] = {}
    for report in reports:
        if node is not None and report.client_status in _ENDED:
            freed[node.computed_class] = None
        known = state.allocations.get(report.allocation_id)
        if known is None:
            continue
        changed = replace(
            known, client_status=report.client_status, client_description=report.client_description,
            task_states=report.task_states, reported=True,
        )  # fmt: skip
        write.put_allocation(changed)
        trigger = _trigger(known, changed)
        if trigger is not None:
            triggers[changed.job_key] = trigger
    if node is not None and evaluator.rules.traits.reports_touch_node:
        write.put_node(node)
    write.commit()
    made = _evaluate(state, evaluator, triggers)
    for evaluation in made:
        evaluator.enqueue(evaluation)
    for computed_class in freed:
        evaluator.unblock(computed_class)
    return True


def _trigger(known: Allocation, changed: Allocation) -> str | None:
    group = changed.job.group(changed.group_name)
    if group is None or changed.job.stop:
        return None
    if known.client_status == "unknown" and changed.client_status in {"running", "failed"}:
        return "reconnect"
    failed = changed.client_status == "failed" and known.client_status != "failed"
    return "alloc-failure" if failed and next_attempt(changed, group.reschedule) is not None else None


def _evaluate(state: State, evaluator: Evaluator, triggers: Mapping[JobKey, str]) -> list[Evaluation]:
    wanted = {key: trigger for key, trigger in triggers.items() if key in state.jobs}
    if not wanted:
        return []
    write = state.begin("AllocationUpdated", same_index=True)
    made = [evaluator.create(write, key, trigger) for key, trigger in wanted.items()]
    write.commit()
    return made
