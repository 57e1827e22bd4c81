"""What is decided and held back, as JSON by the names of the contract, for all who show it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from poseidon_reconciler.core.holds import Hold
from poseidon_reconciler.core.ledger import Action


def iso(at: float | None) -> str | None:
    """A time in seconds as ISO 8601 in UTC, to the millisecond."""
    if at is None:
        return None
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def action_document(action: Action) -> dict[str, Any]:
    """An action, its time as ISO 8601."""
    document: dict[str, Any] = msgspec.to_builtins(action)
    document["at"] = iso(action.at)
    return document


def hold_document(hold: Hold) -> dict[str, Any]:
    """A hold, its times as ISO 8601."""
    document: dict[str, Any] = msgspec.to_builtins(hold)
    document["since"], document["until"] = iso(hold.since), iso(hold.until)
    return document
