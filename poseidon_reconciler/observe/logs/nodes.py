"""The nodes that a step tells of, as messages: one each, or one for all where many change at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from poseidon_reconciler.core.records import UNREACHABLE, NodeChange

MOST_ALONE: Final = 5
_MOST_NAMES: Final = 20
_BY_STATUS: Final = {
    "down": "node-down",
    "disconnected": "node-disconnected",
    "gone": "node-removed",
    "initializing": "node-initializing",
    "ready": "node-ready",
}


def node_messages(changes: Iterable[NodeChange]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The names of the messages about nodes that changed together, each with its fields."""
    by_name: dict[str, list[NodeChange]] = {}
    for change in changes:
        if (name := message_of_node(change)) is not None:
            by_name.setdefault(name, []).append(change)
    for name, together in by_name.items():
        if len(together) > MOST_ALONE:
            # The lists after an outage tell of a whole cluster in one step.
            yield name, {"count": len(together), "node_names": [_name(each) for each in together[:_MOST_NAMES]]}
        else:
            yield from ((name, _fields(each)) for each in together)


def message_of_node(change: NodeChange) -> str | None:
    """The name of the message about a node; None for one that is as all are, and for a status that nobody knows."""
    if change.status != change.status_before and (change.status_before or change.status in UNREACHABLE):
        return _BY_STATUS.get(change.status)
    if change.draining != change.draining_before:
        return "node-draining" if change.draining else "node-drained"
    return None


def _fields(change: NodeChange) -> dict[str, Any]:
    return {"node": change.id, "node_name": change.name or None, "before": change.status_before or None}


def _name(change: NodeChange) -> str:
    return change.name or change.id
