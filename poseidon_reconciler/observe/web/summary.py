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
    at_risk = sum(row["at_risk"] for row in rows)
    parts = [f"{_number(len(lost), 'environment')} lost or missing"] if lost else []
    parts += [_missing(short)] if short else []
    parts += [f"{_number(at_risk, 'job')} at risk"] if at_risk else []
    parts += ["a storm holds new runners back"] if status["storm"] is not None else []
    parts += [f"{_number(len(status['pauses']), 'pause')} in force"] if status["pauses"] else []
    if not parts:
        return {"level": "good", "text": f"All is well: {_number(len(rows), 'pool')} at the target."}
    dry = lost or any(row["idle"] == 0 and row["target"] for row in rows)
    text = ", ".join(parts)
    return {"level": "bad" if dry else "busy", "text": text[0].upper() + text[1:] + "."}


def _missing(short: list[dict[str, Any]]) -> str:
    """What those who want a runner lack, and how much of that comes by itself: the rest is the deficit."""
    lacking = [row["target"] - row["idle"] for row in short]
    on_their_way = sum(min(lack, sum(row["on_their_way"].values())) for lack, row in zip(lacking, short, strict=True))
    deficit = sum(row["deficit"] for row in short)
    of_these = [f"{on_their_way} on their way"] if on_their_way else []
    of_these += [f"a deficit of {deficit}"] if deficit else []
    text = f"{_number(sum(lacking), 'idle runner')} missing in {_number(len(short), 'pool')}"
    return f"{text} ({' and '.join(of_these)})" if of_these else text


def _number(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
