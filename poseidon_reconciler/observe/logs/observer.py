"""What a reconciler does, as messages with ids in fields of their own."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, Final

from structlog.stdlib import BoundLogger

from poseidon_reconciler.core.diagnosis import Change
from poseidon_reconciler.core.events import UNKNOWN
from poseidon_reconciler.core.ledger import Action, ActionOutcome
from poseidon_reconciler.core.reconciler import Step, Storm
from poseidon_reconciler.observe.logs.events import message
from poseidon_reconciler.observe.logs.nodes import node_messages
from poseidon_reconciler.policy import format_duration

_OUTCOMES: Final = {
    "done": "action-done",
    "not-done": "action-failed",
    "not-wanted": "action-not-wanted",
    "unknown": "action-unknown",
    "withdrawn": "action-withdrawn",
}
# A note that is about one environment begins with it.
_ABOUT: Final = re.compile(r"environment (?P<id>\d+)(?:: |$)")


class LogObserver:
    """Logs what it is told of."""

    def __init__(self, logger: BoundLogger) -> None:
        self._logger = logger

    def stepped(self, step: Step) -> None:
        # First what happened to the cluster, then what came of it.
        for name, fields in node_messages(step.nodes):
            self._log(name, **fields)
        if step.storm is not None:
            self._storm(step.storm, step.at)
        for change in step.changes:
            self._change(change)
        for action in step.actions:
            self._log("action-decided", **_fields_of(action), reason=action.reason, replaces=action.replaces)

    def acted(self, action: Action, outcome: ActionOutcome) -> None:
        index = outcome.index if outcome.index != UNKNOWN else None
        name = _OUTCOMES[outcome.result]
        self._log(name, **_fields_of(action), outcome=outcome.result, detail=outcome.detail, index=index)

    def noted(self, event: str, detail: str) -> None:
        about = _ABOUT.match(detail)
        if about is None:
            self._log(event, detail=detail)
        else:
            self._log(event, environment_id=about["id"], detail=detail[about.end() :] or None)

    def _change(self, change: Change) -> None:
        name = message_of(change)
        if not self._logger.isEnabledFor(message(name).level):
            return
        job, verdict = change.job, change.verdict
        placed = job.current.data if job.current is not None else None
        self._log(
            name,
            environment_id=job.environment_id,
            job_id=job.id,
            state=verdict.state,
            cause=verdict.cause,
            rule=verdict.rule,
            before=change.before.state if change.before is not None else None,
            node=placed.node_id or None if placed is not None else None,
            node_name=placed.node_name or None if placed is not None else None,
            index=job.known_index if job.known_index != UNKNOWN else None,
        )

    def _storm(self, storm: Storm, now: float) -> None:
        if storm.until is not None:
            until = datetime.fromtimestamp(storm.until, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            self._log("storm-began", detail=storm.reason, until=until)
        else:
            lasted = format_duration(round(now - storm.since, 1))
            self._log("storm-over", detail=f"after {lasted}; it began with {storm.reason}")

    def _log(self, name: str, **fields: Any) -> None:
        self._logger.log(message(name).level, name, **fields)


def message_of(change: Change) -> str:
    """The name of the message about a change: losses and what ends them stand out, all that is healthy does not."""
    kind, state = change.job.kind, change.verdict.state
    before = change.before.state if change.before is not None else None
    if state == "lost" and before != "lost":
        return f"{kind}-lost"
    if before == "lost" and state not in ("lost", "gone", "stopped"):
        return f"{kind}-back"
    if kind == "environment" and state == "stopped" and before != "stopped":
        return "environment-stopped"
    if change.verdict.at_risk and not (change.before is not None and change.before.at_risk):
        return "job-at-risk"
    return "job-changed"


def _fields_of(action: Action) -> dict[str, Any]:
    return {"environment_id": action.environment_id, "job_id": action.job_id, "action": action.kind}
