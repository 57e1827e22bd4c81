"""The story of one loss, as one trace: from the first sign of it until the runner that stands for it is idle.

Its parts follow one another: `evidence`, `verdict`, `hold`, the action with `confirm` and `register`, then `placed`,
`running`, `idle`. They are told with the core's times, some of them afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from opentelemetry.trace import SpanContext

from poseidon_reconciler.core.diagnosis import Change
from poseidon_reconciler.core.evidence import Evidence
from poseidon_reconciler.core.ledger import Action
from poseidon_reconciler.core.records import Job
from poseidon_reconciler.observe.telemetry import spans as on
from poseidon_reconciler.observe.telemetry.spans import Spans, end, fail, tell, trace_id_of

_GOOD: Final = frozenset({"replaced", "recovered", "gone", "filled-by-others"})
# What a story waits for; a removal beside it is no part of the way to the new runner.
_WAITED_FOR: Final = frozenset({"create-runner", "revive-environment", "restore-environment"})


class Story:
    """One open story.

    Attributes:
        root: its first span, under which all others stand.
        began_at: when it was opened, which is later than its first evidence.
        new_id: the runner that is to stand for the lost one, once that is decided.
        outcome: how it ended; None while it goes on.
        held_by: the rules of the holds that were seen in between.
        wants_replacement: whether another runner is to stand for what was lost.
        is_gone: whether what was lost has been removed.
    """

    def __init__(self, spans: Spans, name: str, environment_id: str, *, since: float, now: float) -> None:
        """It begins with what was first seen at `since`."""
        self.environment_id = environment_id
        self.root = spans.begin(name, since, attributes={on.ENVIRONMENT_ID: environment_id})
        self.began_at = now
        self.new_id: str | None = None
        self.outcome: str | None = None
        self.held_by: set[str] = set()
        self.wants_replacement = self.is_gone = False
        self._spans = spans
        # Up to when the story is told.
        self._told_until = since
        self._under_way = False
        self._told: set[str] = set()
        self._milestones: dict[str, tuple[float, str]] = {}

    def lost(self, change: Change, evidence: Iterable[Evidence], now: float) -> None:
        """The verdict fell, on this evidence."""
        job, verdict = change.job, change.verdict
        about = {on.JOB_ID: job.id, on.RULE: verdict.rule, on.CAUSE: str(verdict.cause)}
        if job.current is not None:
            about[on.ALLOCATION_ID] = job.current.data.id
        self.root.set_attributes(about)
        span = self._spans.begin("evidence", self._told_until, self.root)
        for fact in evidence:
            subject = {"Allocation": on.ALLOCATION_ID, "Evaluation": on.EVALUATION_ID, "Job": on.JOB_ID}.get(fact.topic)
            told: dict[str, str | int | list[str]] = {on.NOMAD_INDEX: fact.index, on.REASON: fact.text}
            tell(span, f"{fact.topic}/{fact.type}", now, {**told, **({subject: fact.key} if subject else {})})
        end(span, max(self._told_until, now))
        self._spans.whole("verdict", now, now, self.root, {on.RULE: verdict.rule, on.CAUSE: str(verdict.cause)})
        self._told_until = now

    def decided(self, action: Action, cycle: SpanContext) -> None:
        """What is to be done about it was decided, after whatever held it back."""
        self.root.add_link(cycle)
        if action.kind not in _WAITED_FOR:
            return
        attributes = {on.HOLD_RULES: sorted(self.held_by), on.ACTION_KIND: action.kind}
        self._spans.whole("hold", self._told_until, action.at, self.root, attributes)
        self._told_until = max(self._told_until, action.at)
        self.held_by.clear()
        if action.kind == "create-runner":
            self.new_id = action.job_id
            self.root.set_attribute("poseidon_reconciler.replacement", action.job_id)

    def begun(self, action: Action) -> None:
        """An action on its behalf is being carried out."""
        self._under_way = self._under_way or action.kind == "create-runner"

    def acted(self, action: Action, now: float) -> None:
        """An action on its behalf ended; what it led to may have been seen before."""
        if action.kind not in _WAITED_FOR:
            return
        self._told_until = max(self._told_until, now)
        if action.kind == "create-runner":
            self._under_way = False
            self._tell_milestones()

    def follow(self, job: Job, state: str, now: float) -> None:
        """The runner that stands for the lost one has become another."""
        current = job.current
        if current is not None:
            self._milestones.setdefault("placed", (current.first_seen, current.data.id))
            if current.data.client_status == "running":
                self._milestones.setdefault("running", (current.since, current.data.id))
        if state in ("idle", "used") and current is not None:
            self._milestones.setdefault("idle", (now, current.data.id))
        self._tell_milestones()
        if self.outcome is None and state in ("lost", "gone"):
            self.close(f"{state}-again", now)

    def _tell_milestones(self) -> None:
        if self._under_way:
            return
        for name, (at, allocation_id) in self._milestones.items():
            if name not in self._told:
                self._told.add(name)
                until = max(self._told_until, at)
                about = {on.ALLOCATION_ID: allocation_id, on.JOB_ID: self.new_id or ""}
                self._spans.whole(name, self._told_until, until, self.root, about)
                self._told_until = until
        if "idle" in self._told:
            self.close("replaced", self._told_until)

    def close(self, outcome: str, now: float) -> None:
        """The story is over."""
        if self.outcome is None:
            self.outcome = outcome
            self.root.set_attribute(on.OUTCOME, outcome)
            if outcome not in _GOOD:
                fail(self.root, outcome)
            end(self.root, max(self._told_until, now))

    @property
    def trace_id(self) -> str | None:
        """Its trace, as it is stamped into jobs; None if it is not recorded."""
        return trace_id_of(self.root)
