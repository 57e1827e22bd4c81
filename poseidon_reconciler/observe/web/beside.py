"""Poseidon beside us: what it says of its pools next to what is, and in one sentence whether the two agree."""

from __future__ import annotations

from typing import Any

from poseidon_reconciler.core.documents import iso
from poseidon_reconciler.core.wording import counted
from poseidon_reconciler.observe.drift import EnvironmentView, PoseidonView


def poseidon_document(view: PoseidonView | None) -> dict[str, Any] | None:
    """The latest comparison, the environments that differ first; None where nobody is asked."""
    if view is None:
        return None
    rows = [_row(id_, each) for id_, each in view.environments.items()]
    return {
        "at": iso(view.at),
        "problem": view.problem,
        "text": _text(view),
        "environments": sorted(rows, key=lambda row: (row["drift"] is None, not row["lasting"])),
    }


def _text(view: PoseidonView) -> str:
    if view.problem is not None:
        then = "" if view.at is None else " What it said last is shown."
        return f"Poseidon tells nothing: {view.problem}.{then}"
    if view.at is None:
        return "Poseidon has not answered yet."
    number = len(view.environments)
    all_ = counted(number, "environment")
    differing = sum(each.drift is not None for each in view.environments.values())
    if differing:
        return f"Poseidon and Nomad differ on {differing} of {all_}."
    return f"Poseidon and Nomad agree on {all_}."


def _row(environment_id: str, view: EnvironmentView) -> dict[str, Any]:
    believed = view.believed
    return {
        "environment_id": environment_id,
        "believed_idle": believed.idle_runners if believed is not None else None,
        "believed_used": believed.used_runners if believed is not None else None,
        "idle": view.idle,
        "used": view.used,
        "target": view.target,
        "drift": view.drift,
        "since": iso(view.since),
        "lasting": view.lasting,
        "waiting": view.waiting,
        "adopted": view.adopted,
        "not_adopted": view.not_adopted,
    }
