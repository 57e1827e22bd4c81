"""The front of the room: told of everything as an observer, it feeds metrics and traces, and closes them at the end."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Final
from urllib.parse import urlsplit

from poseidon_reconciler.config.observing import TelemetrySettings
from poseidon_reconciler.core.ledger import Action, ActionOutcome
from poseidon_reconciler.core.reconciler import Reconciler, Step
from poseidon_reconciler.observe.drift import PoseidonView
from poseidon_reconciler.observe.telemetry import asking
from poseidon_reconciler.observe.telemetry.calls import Call
from poseidon_reconciler.observe.telemetry.deeds import Deed
from poseidon_reconciler.observe.telemetry.exporting import CLOSE_BOUND_S, Exporting
from poseidon_reconciler.observe.telemetry.harmless import complain, harmless
from poseidon_reconciler.observe.telemetry.metrics import Metrics
from poseidon_reconciler.observe.telemetry.quiet import Quiet
from poseidon_reconciler.observe.telemetry.sample import Loop, Sampler
from poseidon_reconciler.observe.telemetry.scrape import Scrape
from poseidon_reconciler.observe.telemetry.shortage import Shortages
from poseidon_reconciler.observe.telemetry.spans import Spans
from poseidon_reconciler.observe.telemetry.stream import StreamCounts
from poseidon_reconciler.observe.telemetry.traces import Traces

_TICK_S: Final = 1.0


class _Unrecorded:
    """An action that nobody traces."""

    trace_id: str | None = None

    def ended(self, outcome: ActionOutcome) -> None: ...


_UNRECORDED: Final = _Unrecorded()


class Telemetry:
    """Metrics always, traces where they go somewhere. All methods but `render` are called on the event loop.

    Attributes:
        stream: to be told what comes over the stream.
        poseidon: gives the latest of what Poseidon believes, on any thread.
    """

    def __init__(
        self,
        settings: TelemetrySettings,
        core: Reconciler,
        loop: Loop,
        *,
        nomad_address: str,
        endings: Iterable[str],
        note: Callable[[str, str], None],
        clock: Callable[[], float],
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """`core` is what it is about, and `loop` what drives it.

        `endings`: the ways in which a stream can end; `note` is told what is wrong with the telemetry itself; `clock`
        tells the time in seconds since the epoch.
        """
        self.stream = StreamCounts(endings)
        self.poseidon: Callable[[], PoseidonView | None] = lambda: None
        self._quiet = Quiet()
        self._quiet.install()
        self._core = core
        self._note = note
        self._clock = clock
        self._scrape = Scrape()
        self._exporting = Exporting(settings, environ, uuid.uuid4().hex[:12], self._scrape.reader)
        self._shortages = Shortages(self._refilled)
        self._sampler = Sampler(core, loop, self._shortages, clock)
        self._metrics = Metrics(self._exporting.meters, lambda: self._sampler.latest, self.stream, self._view)
        self._traces: Traces | None = None
        if self._exporting.tracers is not None:
            spans = Spans(self._exporting.tracers.get_tracer("poseidon_reconciler"), _server(nomad_address))
            self._traces = Traces(spans, core, clock, self._short_since)

    def _view(self) -> PoseidonView | None:
        return self.poseidon()

    def render(self) -> tuple[bytes, str]:
        """The page for Prometheus, and its content type; it is as of the last second.

        May be called on any thread, and better on one of its own: with hundreds of environments it takes a while.
        """
        return self._scrape.render()

    def trace_id_of(self, action: Action) -> str | None:
        """The trace of the story that an action is a part of, in hexadecimal; None if it is not traced."""
        return self._traces.trace_id_of(action) if self._traces is not None else None

    async def run(self) -> None:
        """Keeps the samples fresh until it is cancelled; then sends what is left, within a bound."""
        try:
            while True:
                self._tick()
                await asyncio.sleep(_TICK_S)
        except asyncio.CancelledError:
            await self.close()
            raise

    @harmless
    def _tick(self) -> None:
        for line in self._quiet.take():
            self._note("telemetry-not-sent", line)
        self._sampler.refresh()
        if self._traces is not None:
            self._traces.tick()

    async def close(self, bound_s: float = CLOSE_BOUND_S) -> None:
        """Ends what is open, sends what is left, and stops; takes no longer than `bound_s`."""
        if self._traces is not None:
            self._traces.close()
            self._traces = None
        await self._exporting.close(bound_s)
        self._quiet.uninstall()

    # --- told by the controller ----------------------------------------------------------------------------------

    @harmless
    def stepped(self, step: Step) -> None:
        self._metrics.stepped(step)
        touched = {change.job.environment_id for change in step.changes}
        for environment_id in touched.union(action.environment_id for action in step.actions):
            self._shortages.look(self._core, environment_id, step.at)
        if self._traces is not None:
            self._traces.stepped(step)

    @harmless
    def acted(self, action: Action, outcome: ActionOutcome) -> None:
        self._metrics.acted(action, outcome)
        if self._traces is not None:
            self._traces.acted(action)

    @harmless
    def noted(self, event: str, detail: str) -> None:
        if self._traces is not None:
            self._traces.noted(event, detail)

    @harmless
    def turned(self, duration_s: float) -> None:
        """The controller has made a turn, which took so long."""
        self._metrics.turned(duration_s)

    # --- told by the edges ---------------------------------------------------------------------------------------

    def acting(self, action: Action) -> AbstractContextManager[Deed | _Unrecorded]:
        """Around an action that is carried out."""
        if self._traces is not None:
            try:
                return self._traces.acting(action)
            except Exception as error:  # noqa: BLE001 - an action is not to fail because it cannot be told
                complain(error)
        return nullcontext(_UNRECORDED)

    def listing(self) -> AbstractContextManager[None]:
        """Around a reading of the lists."""
        return self._traces.listing() if self._traces is not None else nullcontext()

    @harmless
    def asked(self, call: Call) -> None:
        """A request ended, in the task that made it."""
        self._metrics.asked(call)
        asking.asked(call, self._clock())

    @harmless
    def stream_opened(self, at: float) -> None:
        """The stream is open, though nothing was heard yet."""
        self.stream.heard()
        if self._traces is not None:
            self._traces.connects.opened(at)

    @harmless
    def stream_closed(self, ending: str, at: float) -> None:
        """The stream has ended, or an attempt to open it has failed."""
        self.stream.closed(ending)
        if self._traces is not None:
            self._traces.connects.closed(ending, at)

    # -------------------------------------------------------------------------------------------------------------

    def _refilled(self, duration_s: float) -> None:
        self._metrics.refilled(duration_s)

    def _short_since(self, environment_id: str) -> float | None:
        account = self._shortages.pools.get(environment_id)
        return account.short_since if account is not None else None


def _server(address: str) -> Mapping[str, str | int]:
    """The attributes that say where Nomad is."""
    parts = urlsplit(address)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return {"server.address": parts.hostname or "", "server.port": port, "url.scheme": parts.scheme}
