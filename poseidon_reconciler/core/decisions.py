"""What was decided about each job and what became of it, for whoever asks why it is as it is.

Nothing is decided by this. For each job the last decision of each kind is kept, for as long as the job is remembered,
and no more than a fixed number of all: what is ordered and never seen is forgotten with nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, get_args

from msgspec import Struct
from msgspec.structs import replace

from poseidon_reconciler.core.ledger import Action, ActionKind, ActionOutcome, Result

MAX_DECISIONS: Final = 10_000


class Ending(Struct, frozen=True, gc=False):
    """What became of a decision, and when that was known."""

    at: float
    result: Result
    detail: str


class Decision(Struct, frozen=True):
    """An action by the names of the contract. `times`: how often it was decided on, this being the last time.

    `outcome` is None while it is under way, and for good where nobody carries it out, as in a replay.
    """

    at: float
    kind: ActionKind
    environment_id: str
    job_id: str
    reason: str
    replaces: str | None
    times: int = 1
    outcome: Ending | None = None

    def what(self, job_id: str) -> str:
        """The action in words, for who asks about a job: which, and how often it was decided on."""
        place = f" {self.job_id} in its place" if self.job_id != job_id else ""
        return self.kind + place + (f", {self.times} times" if self.times > 1 else "")

    def became(self, meanwhile: str) -> str:
        """What became of it in words; `meanwhile` if that is not known."""
        if self.outcome is None:
            return meanwhile
        return self.outcome.result + (f" ({self.outcome.detail})" if self.outcome.detail else "")


class Decisions:
    """The latest decisions, by what they are about."""

    def __init__(self) -> None:
        # The latest last.
        self._latest: dict[tuple[str, ActionKind], Decision] = {}
        self._replacements: dict[str, str] = {}

    def note(self, actions: Iterable[Action]) -> None:
        """These were decided on."""
        for action in actions:
            before = self._latest.pop((action.job_id, action.kind), None)
            times = before.times + 1 if before is not None else 1
            self._latest[action.job_id, action.kind] = Decision(
                action.at, action.kind, action.environment_id, action.job_id, action.reason, action.replaces, times
            )
            if action.replaces is not None:
                self._replacements[action.replaces] = action.job_id
            if len(self._latest) > MAX_DECISIONS:
                self._drop_oldest()

    def ended(self, action: Action, outcome: ActionOutcome, now: float) -> None:
        """This became of one of them."""
        key = (action.job_id, action.kind)
        decision = self._latest.get(key)
        # An answer that comes late is not of a decision that was taken since.
        if decision is not None and decision.at == action.at:
            self._latest[key] = replace(decision, outcome=Ending(now, outcome.result, outcome.detail))

    def about(self, job_id: str) -> list[Decision]:
        """What was decided about a job, and to have another in its place, in the order of time."""
        return sorted(self._about(job_id), key=lambda decision: decision.at)

    def order_of(self, job_id: str) -> Decision | None:
        """The decision to create a runner under this id."""
        return self._latest.get((job_id, "create-runner"))

    def ordered(self) -> Iterator[str]:
        """The ids of all runners that were decided on."""
        return (job_id for job_id, kind in self._latest if kind == "create-runner")

    def forget(self, job_id: str) -> None:
        """The job is no longer remembered."""
        for kind in get_args(ActionKind):
            self._latest.pop((job_id, kind), None)
        self._replacements.pop(job_id, None)

    def _about(self, job_id: str) -> Iterator[Decision]:
        keys: list[tuple[str, ActionKind]] = [(job_id, kind) for kind in get_args(ActionKind)]
        if (replacement := self._replacements.get(job_id)) is not None:
            keys.insert(0, (replacement, "create-runner"))
        return (self._latest[key] for key in keys if key in self._latest)

    def _drop_oldest(self) -> None:
        oldest = self._latest.pop(next(iter(self._latest)))
        if oldest.replaces is not None and self._replacements.get(oldest.replaces) == oldest.job_id:
            del self._replacements[oldest.replaces]
