"""The span of one action while it is carried out: first it is confirmed, then it is done."""

from __future__ import annotations

from typing import Final

from opentelemetry.trace import Span, SpanContext

from poseidon_reconciler.core.ledger import Action, ActionKind, ActionOutcome
from poseidon_reconciler.observe.telemetry import spans as on
from poseidon_reconciler.observe.telemetry.calls import Call
from poseidon_reconciler.observe.telemetry.spans import Spans, end, fail, trace_id_of

_DOING: Final[dict[ActionKind, str]] = {"remove-job": "deregister"}
_GOOD: Final = frozenset({"done", "not-wanted", "withdrawn"})


class Deed:
    """An action under way: it is confirmed until a request is sent that changes something, and done from then on."""

    def __init__(self, spans: Spans, action: Action, at: float, parent: Span | None, cycle: SpanContext | None) -> None:
        """`cycle`: the decision, where the action is not told as a part of it."""
        attributes: dict[str, str | int | list[str]] = {
            on.ACTION_KIND: action.kind,
            on.ENVIRONMENT_ID: action.environment_id,
            on.JOB_ID: action.job_id,
            on.REASON: action.reason,
        }
        if action.replaces is not None:
            attributes[on.REPLACES] = action.replaces
        links = [cycle] if cycle is not None else []
        self._spans = spans
        self._action = action
        self._span = spans.begin(action.kind, at, parent, links=links, attributes=attributes)
        self._stage = spans.begin("confirm", at, self._span)
        self._stage_began_at = at
        self._doing = False
        self._result = "given-up"

    def asked(self, call: Call, at: float) -> None:
        """One of its requests ended."""
        # Durations are measured by another clock than times, and the two never agree entirely.
        began_at = max(self._stage_began_at, at - call.duration_s)
        if call.writes and not self._doing:
            self._doing = True
            end(self._stage, began_at)
            self._stage = self._spans.begin(_DOING.get(self._action.kind, "register"), began_at, self._span)
            self._stage_began_at = began_at
        self._spans.call(call, began_at, max(began_at, at), self._stage)

    @property
    def trace_id(self) -> str | None:
        """The trace that it is told in, in hexadecimal; None if nobody records it."""
        return trace_id_of(self._span)

    def ended(self, outcome: ActionOutcome) -> None:
        """It came to this."""
        self._result = outcome.result

    def end(self, at: float) -> None:
        """It is over."""
        self._span.set_attribute(on.OUTCOME, self._result)
        if self._result not in _GOOD:
            fail(self._span, self._result)
        end(self._stage, at)
        end(self._span, at)
