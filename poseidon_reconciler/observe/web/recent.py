"""What happened lately: the last decisions with what became of them, the last losses, the last word of the loop.

The model says how things are and forgets how they came to be; whoever is called at night asks just that. Rings of fixed
size, because nobody reads further back on a page, and a cluster can lose everything at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from poseidon_reconciler.core.diagnosis import Change
from poseidon_reconciler.core.documents import action_document, iso
from poseidon_reconciler.core.evidence import evidence_for
from poseidon_reconciler.core.ledger import Action, ActionOutcome
from poseidon_reconciler.core.reconciler import Reconciler, Step
from poseidon_reconciler.core.status import node_of

MAX_DECISIONS: Final = 1000
MAX_LOSSES: Final = 200


class Decision(Struct):
    """An action and what became of it. `changed` rises with every change of any decision."""

    id: int
    changed: int
    action: Action
    outcome: ActionOutcome | None = None
    ended_at: float | None = None

    def document(self) -> dict[str, Any]:
        """By the names of the contract, with times as ISO 8601."""
        document = {"id": self.id, "changed": self.changed, **action_document(self.action), "outcome": None}
        if self.outcome is not None:
            at = iso(self.ended_at)
            document["outcome"] = {"at": at, "result": self.outcome.result, "detail": self.outcome.detail}
        return document


class Loss(Struct, frozen=True):
    """A job that was found lost, with the last fact that told so."""

    at: float
    job_id: str
    kind: str
    environment_id: str
    used: bool
    cause: str | None
    rule: str
    node: str | None
    evidence: str

    def document(self, state: str) -> dict[str, Any]:
        """With `state`: what the job is by now."""
        return {name: getattr(self, name) for name in self.__struct_fields__} | {"at": iso(self.at), "state": state}


class Recent:
    """Listens to a reconciler.

    Attributes:
        decisions, losses: the newest last.
        last_note: the last thing that the loop said of itself.
        on_change: is called whenever something was found, decided or said.
    """

    def __init__(self, core: Reconciler, clock: Callable[[], float]) -> None:
        self.decisions: deque[Decision] = deque(maxlen=MAX_DECISIONS)
        self.losses: deque[Loss] = deque(maxlen=MAX_LOSSES)
        self.last_note = ""
        self.on_change: Callable[[], None] = lambda: None
        self._core = core
        self._clock = clock
        self._open: dict[Action, Decision] = {}
        self._last_id = 0
        self._last_change = 0

    @property
    def last_change(self) -> int:
        """The `changed` of the decision that changed last; 0 before any."""
        return self._last_change

    def stepped(self, step: Step) -> None:
        lost = [change for change in step.changes if change.verdict.state == "lost" and not _was_lost(change)]
        self.losses.extend(self._loss(change, step.at) for change in lost[-MAX_LOSSES:])
        for action in step.actions:
            self._last_id += 1
            self._last_change += 1
            decision = Decision(self._last_id, self._last_change, action)
            if len(self.decisions) == MAX_DECISIONS:
                self._open.pop(self.decisions[0].action, None)
            self.decisions.append(decision)
            self._open[action] = decision
        self.on_change()

    def acted(self, action: Action, outcome: ActionOutcome) -> None:
        decision = self._open.pop(action, None)
        if decision is not None:
            self._last_change += 1
            decision.changed, decision.outcome, decision.ended_at = self._last_change, outcome, self._clock()
        self.on_change()

    def noted(self, event: str, detail: str) -> None:
        self.last_note = f"{event}: {detail}"
        self.on_change()

    def since(self, changed: int, limit: int) -> list[Decision]:
        """The first `limit` decisions that changed after that, in the order of their last change."""
        later = sorted((each for each in self.decisions if each.changed > changed), key=lambda each: each.changed)
        return later[:limit]

    def _loss(self, change: Change, at: float) -> Loss:
        job, verdict = change.job, change.verdict
        evidence = evidence_for(self._core.diagnosis, job, at)
        return Loss(
            at=at,
            job_id=job.id,
            kind=job.kind,
            environment_id=job.environment_id,
            used=job.used,
            cause=verdict.cause,
            rule=verdict.rule,
            node=node_of(self._core, job),
            evidence=evidence[-1].text if evidence else "",
        )


def _was_lost(change: Change) -> bool:
    return change.before is not None and change.before.state == "lost"
