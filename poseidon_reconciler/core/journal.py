"""What was found and decided, one canonical line for each step that found or decided anything.

Two runs over the same input write the same bytes; where they do not, the first line that differs is where to look.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final

import orjson

from poseidon_reconciler.core.diagnosis import Change, Verdict
from poseidon_reconciler.core.ledger import Action
from poseidon_reconciler.core.reconciler import Step

_DIGEST_BYTES: Final = 16


class Journal:
    """Writes the lines. `digest` stands for all verdicts at once, in whatever order they came about."""

    def __init__(self) -> None:
        self._digest = 0
        self._hashes: dict[str, int] = {}

    @property
    def digest(self) -> str:
        return self._digest.to_bytes(_DIGEST_BYTES).hex()

    def line(self, step: Step) -> bytes | None:
        """The line for a step, without its newline; None for a step that changed and decided nothing."""
        if step.new_epoch:
            self._hashes.clear()
            self._digest = 0
        # A sum without order, so that each verdict can be taken out and put in where it changes.
        for job in step.forgotten:
            self._digest ^= self._hashes.pop(job.id, 0)
        for change in step.changes:
            hashed = _hash(change.job.id, change.verdict)
            self._digest ^= self._hashes.get(change.job.id, 0) ^ hashed
            self._hashes[change.job.id] = hashed
        if not step.changes and not step.actions:
            return None
        record = {
            "at": step.at,
            "digest": self.digest,
            "findings": [_finding(change) for change in step.changes],
            "plan": [action_document(action) for action in step.actions],
        }
        return orjson.dumps(record, option=orjson.OPT_SORT_KEYS)


def _finding(change: Change) -> dict[str, Any]:
    verdict = change.verdict
    return {
        "job_id": change.job.id,
        "state": verdict.state,
        "before": change.before.state if change.before is not None else None,
        "cause": verdict.cause,
        "rule": verdict.rule,
        "at_risk": verdict.at_risk,
    }


def action_document(action: Action) -> dict[str, Any]:
    """An action by the names of the contract; `at` in seconds."""
    return {
        "at": action.at,
        "kind": action.kind,
        "environment_id": action.environment_id,
        "job_id": action.job_id,
        "replaces": action.replaces,
        "reason": action.reason,
    }


def _hash(job_id: str, verdict: Verdict) -> int:
    text = f"{job_id}\0{verdict.state}\0{verdict.rule}\0{verdict.cause}\0{verdict.at_risk}"
    return int.from_bytes(blake2b(text.encode(), digest_size=_DIGEST_BYTES).digest())
