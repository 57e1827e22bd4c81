"""The one sentence that somebody who is called at night wants first."""

from __future__ import annotations

from typing import Any

from poseidon_reconciler.core.printable import printable


def summary(status: dict[str, Any], last_note: str) -> dict[str, str]:
    """How bad it is (`good`, `busy`, `bad`) and what is so, in words; `last_note` is what the loop said last."""
    if not status["synced"]:
        return {"level": "bad", "text": f"Not in step with Nomad, nothing is decided ({printable(last_note)})."}
    rows = status["environments"].values()
    lost = [row for row in rows if row["state"] in ("lost", "missing")]
    short = [row for row in rows if row["target"] is not None and row["idle"] < row["target"]]
    lacking = sum(row["target"] - row["idle"] for row in short)
    at_risk = sum(row["at_risk"] for row in rows)
    parts = [f"{_number(len(lost), 'environment')} lost or missing"] if lost else []
    parts += [f"{_number(lacking, 'idle runner')} missing in {_number(len(short), 'pool')}"] if short else []
    parts += [f"{_number(at_risk, 'job')} at risk"] if at_risk else []
    parts += ["a storm holds new runners back"] if status["storm"] is not None else []
    parts += [f"{_number(len(status['pauses']), 'pause')} in force"] if status["pauses"] else []
    if not parts:
        return {"level": "good", "text": f"All is well: {_number(len(rows), 'pool')} at the target."}
    dry = lost or any(row["idle"] == 0 and row["target"] for row in rows)
    text = ", ".join(parts)
    return {"level": "bad" if dry else "busy", "text": text[0].upper() + text[1:] + "."}


def _number(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
