"""A reconciler on the bench whose traces are kept in memory."""

from __future__ import annotations

from typing import Final

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from poseidon_reconciler.core.ledger import Action, ActionOutcome
from poseidon_reconciler.core.reconciler import Step
from poseidon_reconciler.observe.telemetry.asking import asked
from poseidon_reconciler.observe.telemetry.calls import Call
from poseidon_reconciler.observe.telemetry.shortage import Shortages
from poseidon_reconciler.observe.telemetry.spans import Spans
from poseidon_reconciler.observe.telemetry.traces import Traces
from tests.core.builders import Bench, allocation, job, node_id

DONE: Final = ActionOutcome("done", "registered", 900)
WRITE: Final = Call("POST", "/v1/jobs", True, 200, "ok", 0.01)
READ: Final = Call("GET", "/v1/job/:id", False, 200, "ok", 0.01)


class Telling:
    """Tells of all that happens on a bench.

    Attributes:
        traces: what is open.
    """

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.shortages = Shortages(lambda _: None)
        spans = Spans(provider.get_tracer("test"), {"server.address": "nomad"})
        self.traces = Traces(spans, bench.core, lambda: bench.now, self._short_since)
        self._before = bench._keep
        bench._keep = self._keep  # type: ignore[method-assign]

    def _keep(self, step: Step) -> Step:
        for change in step.changes:
            self.shortages.look(self.bench.core, change.job.environment_id, step.at)
        self.traces.stepped(step)
        return self._before(step)

    def _short_since(self, environment_id: str) -> float | None:
        account = self.shortages.pools.get(environment_id)
        return account.short_since if account is not None else None

    def act(self, action: Action, outcome: ActionOutcome | None = DONE, *calls: Call) -> str | None:
        """Carries out an action; `outcome` None: it is given up. Returns the trace id that is stamped."""
        with self.traces.acting(action) as deed:
            for call in calls:
                self.asked(call)
            if outcome is not None:
                deed.ended(outcome)
            stamped = deed.trace_id
        self.traces.acted(action)
        return stamped

    def asked(self, call: Call) -> None:
        """A request ends, in the present context."""
        asked(call, self.bench.now)

    def runs(self, job_id: str, *, index: int) -> None:
        """A new runner is seen, placed and running."""
        self.bench.feed(
            job(job_id, index=index, created=index),
            allocation(f"new-{index}", job_id, index=index, node=node_id(1)),
        )

    def spans(self, name: str | None = None) -> list[ReadableSpan]:
        """The spans that have ended."""
        return [span for span in self._exporter.get_finished_spans() if name in (None, span.name)]

    def names(self) -> list[str]:
        """The names of the spans that have ended, in that order."""
        return [span.name for span in self.spans()]

    def outcomes(self, name: str = "runner lost") -> list[str]:
        """How the stories of a name ended."""
        return [str((span.attributes or {})["poseidon_reconciler.outcome"]) for span in self.spans(name)]
