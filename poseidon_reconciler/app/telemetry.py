"""Telemetry beside a running reconciler: what the rooms that do not know each other tell and are told."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import get_args

from poseidon_reconciler.app.observers import Observers
from poseidon_reconciler.app.running import Running
from poseidon_reconciler.app.tracing import Acting
from poseidon_reconciler.config import Settings
from poseidon_reconciler.core.ledger import Action
from poseidon_reconciler.nomad.items import Closed, Ending, FrameReceived, Gap, Heartbeat, Item, MalformedLine, Opened
from poseidon_reconciler.nomad.transport import RequestReport
from poseidon_reconciler.observe.drift import PoseidonView
from poseidon_reconciler.observe.telemetry.calls import Call
from poseidon_reconciler.observe.telemetry.telemetry import Telemetry


def attach_telemetry(
    running: Running,
    settings: Settings,
    observers: Observers,
    clock: Callable[[], float] = time.time,
    environ: Mapping[str, str] = os.environ,
) -> Telemetry:
    """Has telemetry follow a reconciler that does not run yet; what is wrong with it is noted to the observers.

    `environ` are the variables that may name a collector.
    """
    telemetry = Telemetry(
        settings.telemetry,
        running.core,
        running.controller,
        nomad_address=settings.nomad.address,
        endings=get_args(Ending),
        note=observers.noted,
        clock=clock,
        environ=environ,
    )

    def poseidon() -> PoseidonView | None:
        # Asked anew each time: who knows it may be added later.
        return running.poseidon()

    telemetry.poseidon = poseidon
    observers.add(telemetry)
    running.trace(_TracedEdges(telemetry))
    running.controller.on_turn = telemetry.turned
    running.item_listeners.append(lambda item: _tell(telemetry, item))
    running.accompany("telemetry", telemetry.run)
    return telemetry


class _TracedEdges:
    """Tells telemetry what the edges do."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry

    def acting(self, action: Action) -> AbstractContextManager[Acting]:
        return self._telemetry.acting(action)

    def listing(self) -> AbstractContextManager[None]:
        return self._telemetry.listing()

    def asked(self, report: RequestReport) -> None:
        """Tells of a request only what may be seen by everybody."""
        request = report.request
        method = request.method.upper()
        self._telemetry.asked(
            Call(method, request.route, request.writes, report.status, report.outcome, report.duration_s)
        )


def _tell(telemetry: Telemetry, item: Item) -> None:
    match item:
        case FrameReceived():
            line = item.line
            telemetry.stream.frame(line.index, len(line.events or ()), faulty=line.faults > 0)
        case Opened():
            telemetry.stream_opened(item.at)
        case Closed():
            telemetry.stream_closed(item.kind, item.at)
        case Heartbeat():
            telemetry.stream.heard()
        case MalformedLine():
            telemetry.stream.malformed_line()
        case Gap():
            telemetry.stream.gap()
