"""`run`: reconcile a live cluster until a signal ends it."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from poseidon_reconciler.app.around import add_notices, add_poseidon
from poseidon_reconciler.app.errors import UsageError
from poseidon_reconciler.app.flight import attach_flight_recorder, write_on_signal
from poseidon_reconciler.app.observers import Observers
from poseidon_reconciler.app.running import Running, StartError
from poseidon_reconciler.app.settings import load_settings
from poseidon_reconciler.app.shadow import table, telling
from poseidon_reconciler.app.signals import obey_signals
from poseidon_reconciler.app.telemetry import attach_telemetry
from poseidon_reconciler.app.web import add_page
from poseidon_reconciler.config import Settings
from poseidon_reconciler.observe.logs.pipeline import Logs


def run(options: argparse.Namespace) -> int:
    """Runs the command.

    Raises:
        UsageError: the configuration is wrong, or the cluster cannot be followed with it.
    """
    settings = load_settings(options.config, read_files=True)
    with Logs(settings.log, sys.stderr.fileno()) as logs:
        return asyncio.run(_run(settings, logs, options.config, dry_run=options.dry_run))


async def _run(settings: Settings, logs: Logs, path: Path | None, *, dry_run: bool) -> int:
    observer = Observers(logs.observer)
    try:
        running = Running(settings, observer, dry_run=dry_run)
        telemetry = attach_telemetry(running, settings, observer)
        await add_page(running, observer, settings, metrics=telemetry.render)
    except StartError as error:
        raise UsageError(str(error)) from None
    if running.shadow is not None:
        running.accompany("the shadow score", telling(running.shadow, observer))
    add_notices(running, observer, settings)
    add_poseidon(running, observer, settings)
    obey_signals(running, observer, settings, path)
    write_on_signal(attach_flight_recorder(running, observer, settings), observer)
    mode = ", dry run: nothing is written" if dry_run else ""
    observer.noted("started", f"{settings.nomad.address}, namespace {settings.nomad.namespace}{mode}")
    try:
        await running.run()
    except StartError as error:
        raise UsageError(str(error)) from None
    observer.noted("stopped", "by a signal")
    if running.shadow is not None:
        logs.write(table(running.shadow.scores()))
    return 0
