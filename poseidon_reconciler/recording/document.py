"""The story as one JSON document, by the names of the contract."""

from __future__ import annotations

from typing import Any

import msgspec

from poseidon_reconciler.core.blame import NodeLosses
from poseidon_reconciler.core.documents import action_document, hold_document, iso
from poseidon_reconciler.recording.story import JobRow, Story


def story_document(story: Story) -> dict[str, Any]:
    """What `replay --json` prints."""
    return {
        "frames": story.frames,
        "events": story.events,
        "heartbeats": story.heartbeats,
        "last_index": story.last_index,
        "malformed": story.malformed,
        "started_at": iso(story.started_at),
        "ended_at": iso(story.ended_at),
        "environments": {id_: msgspec.to_builtins(row) for id_, row in story.environments.items()},
        "jobs": {id_: _job_document(row) for id_, row in story.jobs.items()},
        "actions": [action_document(action) for action in story.actions],
        "holds": [hold_document(hold) for hold in story.holds],
        "blame": [blame_document(losses) for losses in story.blame],
    }


def _job_document(row: JobRow) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(row)
    document["since"], document["due_at"] = iso(row.since), iso(row.due_at)
    return document


def blame_document(losses: NodeLosses) -> dict[str, Any]:
    """What was lost with a node, its time as ISO 8601."""
    document: dict[str, Any] = msgspec.to_builtins(losses)
    document["at"] = iso(losses.at)
    return document
