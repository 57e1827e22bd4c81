"""`run`: reconcile a live cluster until a signal ends it."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from datetime import UTC, datetime
from typing import Final, TextIO

from poseidon_reconciler.app.errors import UsageError
from poseidon_reconciler.app.observers import Observers
from poseidon_reconciler.app.running import Running, StartError
from poseidon_reconciler.app.settings import load_settings
from poseidon_reconciler.app.telemetry import attach_telemetry
from poseidon_reconciler.config import Settings
from poseidon_reconciler.core.ledger import Action, ActionOutcome
from poseidon_reconciler.core.printable import printable
from poseidon_reconciler.core.reconciler import Step

_TOLD_STATES: Final = frozenset({"lost", "missing", "stopped"})


def run(options: argparse.Namespace) -> int:
    """Runs the command.

    Raises:
        UsageError: the configuration is wrong, or the cluster cannot be followed with it.
    """
    settings = load_settings(options.config, read_files=True)
    return asyncio.run(_run(settings, dry_run=options.dry_run))


async def _run(settings: Settings, *, dry_run: bool) -> int:
    observer = Observers(LineLog(sys.stderr))
    try:
        running = Running(settings, observer, dry_run=dry_run)
    except StartError as error:
        raise UsageError(str(error)) from None
    attach_telemetry(running, settings, observer)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, running.stop)
    mode = ", dry run: nothing is written" if dry_run else ""
    observer.noted("started", f"{settings.nomad.address}, namespace {settings.nomad.namespace}{mode}")
    try:
        await running.run()
    except StartError as error:
        raise UsageError(str(error)) from None
    observer.noted("stopped", "by a signal")
    return 0


class LineLog:
    """Tells what goes on, one line each."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def stepped(self, step: Step) -> None:
        """Tells of losses and of what was decided; healthy changes are too many to read."""
        for change in step.changes:
            if change.verdict.state in _TOLD_STATES:
                self.noted(change.verdict.state, f"{change.job.id}: {change.verdict.cause} ({change.verdict.rule})")
        for action in step.actions:
            self.noted("decided", f"{action.kind} {action.job_id}: {action.reason}")

    def acted(self, action: Action, outcome: ActionOutcome) -> None:
        self.noted(outcome.result, f"{action.kind} {action.job_id}: {outcome.detail}")

    def noted(self, event: str, detail: str) -> None:
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        print(printable(f"{at} {event} {detail}"), file=self._out, flush=True)
