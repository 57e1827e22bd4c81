"""Spans with the times of the core, and the names of everything that stands on them.

Attributes are by OpenTelemetry's semantic conventions where these have a name. What is put on a span is chosen word by
word: ids, kinds, verdicts and our own sentences; never a payload, a header, or the text of somebody's answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, Tracer, set_span_in_context

from poseidon_reconciler.observe.telemetry.calls import Call

Attributes = Mapping[str, str | int | list[str]]

ENVIRONMENT_ID: Final = "poseidon.environment.id"
JOB_ID: Final = "nomad.job.id"
ALLOCATION_ID: Final = "nomad.allocation.id"
EVALUATION_ID: Final = "nomad.evaluation.id"
NOMAD_INDEX: Final = "nomad.index"
RULE: Final = "poseidon_reconciler.rule"
CAUSE: Final = "poseidon_reconciler.cause"
REASON: Final = "poseidon_reconciler.reason"
ACTION_KIND: Final = "poseidon_reconciler.action.kind"
OUTCOME: Final = "poseidon_reconciler.outcome"
HOLD_RULES: Final = "poseidon_reconciler.hold.rules"
REPLACES: Final = "poseidon_reconciler.replaces"
CHANGES: Final = "poseidon_reconciler.changes"
ACTIONS: Final = "poseidon_reconciler.actions"

_NANOSECONDS: Final = 1_000_000_000
_NO_CONTEXT: Final = Context()


def _ns(at: float) -> int:
    return int(at * _NANOSECONDS)


class Spans:
    """Begins spans; all times in seconds since the epoch."""

    def __init__(self, tracer: Tracer, server: Attributes) -> None:
        """`server`: the attributes that say where Nomad is."""
        self._tracer = tracer
        self._server = server

    def begin(
        self, name: str, at: float, parent: Span | None = None, *, links: Iterable[SpanContext] = (),
        attributes: Attributes | None = None, kind: SpanKind = SpanKind.INTERNAL,
    ) -> Span:  # fmt: skip
        """A span that is ended with `end`; without a parent the first of a new trace."""
        return self._tracer.start_span(
            name,
            set_span_in_context(parent, _NO_CONTEXT) if parent is not None else _NO_CONTEXT,
            kind,
            attributes,
            [Link(context) for context in links],
            _ns(at),
        )

    def whole(self, name: str, since: float, until: float, parent: Span, attributes: Attributes | None = None) -> Span:
        """A span that is over already."""
        span = self.begin(name, since, parent, attributes=attributes)
        end(span, max(since, until))
        return span

    def call(self, call: Call, since: float, until: float, parent: Span) -> None:
        """A request to Nomad that is over."""
        attributes: dict[str, str | int | list[str]] = {
            **self._server,
            "http.request.method": call.method,
            "url.template": call.route,
            OUTCOME: call.outcome,
        }
        if call.status is not None:
            attributes["http.response.status_code"] = call.status
        span = self.begin(f"{call.method} {call.route}", since, parent, attributes=attributes, kind=SpanKind.CLIENT)
        # A 404 is an answer like any other here: that something is gone is what was asked.
        if call.status is None or (call.status >= 400 and call.outcome != "not-found"):
            fail(span, str(call.status) if call.status is not None else call.outcome)
        end(span, until)


def end(span: Span, at: float) -> None:
    """Ends a span."""
    span.end(_ns(at))


def fail(span: Span, error_type: str) -> None:
    """Marks a span as failed, by a word of few."""
    span.set_attribute("error.type", error_type)
    span.set_status(Status(StatusCode.ERROR))


def tell(span: Span, name: str, at: float, attributes: Attributes | None = None) -> None:
    """Notes on a span that something happened."""
    span.add_event(name, attributes, _ns(at))


def trace_id_of(span: Span) -> str | None:
    """The trace of a span as it is written down elsewhere, in hexadecimal; None if nobody records it."""
    context = span.get_span_context()
    return f"{context.trace_id:032x}" if context.trace_flags.sampled else None
