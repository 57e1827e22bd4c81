"""What Nomad itself says of a job that did not come to life: the driver's message, or why no node was found.

The stream carries the same messages in every event of every allocation. Only a job that is read again because it is
lost is worth decoding them for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from poseidon_reconciler.core.events import AllocationPayload, EvaluationPayload, TaskState
from poseidon_reconciler.core.evidence import placement_text

_MAX_CHARS: Final = 300
# They say that something is over, not why.
_SILENT: Final = frozenset({"Not Restarting", "Restarting", "Killing", "Killed", "Alloc Unhealthy"})


class TaskEvent(msgspec.Struct, rename="pascal"):
    """What an agent says of a task."""

    type: str = ""
    display_message: str = ""


class ToldTaskState(TaskState):
    """With its events, the oldest first."""

    events: list[TaskEvent] | None = None


class ToldAllocation(AllocationPayload):
    """An allocation with what its agent says of its tasks."""

    task_states: dict[str, ToldTaskState] | None = None  # type: ignore[assignment]  # narrower, and never replaced


def trouble_of(allocations: Iterable[ToldAllocation], evaluations: Iterable[EvaluationPayload]) -> str:
    """Why the newest allocation ended or does not run, or why there is none; empty if nobody says."""
    newest = max(allocations, key=lambda allocation: allocation.create_index, default=None)
    if newest is not None:
        for state in (newest.task_states or {}).values():
            told = (event.display_message for event in reversed(state.events or ()) if event.type not in _SILENT)
            if message := next(filter(None, told), ""):
                return message[:_MAX_CHARS]
        return ""
    latest = max(evaluations, key=lambda evaluation: evaluation.modify_index, default=None)
    failures = (latest.failed_tg_allocs or {}).values() if latest is not None else ()
    return "; ".join(f"no place: {placement_text(failure)}" for failure in failures)[:_MAX_CHARS]
