"""Signals to `run`: some end it, one has its configuration read anew, and a service manager wants to hear of both."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from poseidon_reconciler.app.reload import Reload
from poseidon_reconciler.app.running import Running
from poseidon_reconciler.app.supervision import Supervision
from poseidon_reconciler.config import Settings
from poseidon_reconciler.controller import Observer
from poseidon_reconciler.observe.service_manager import ServiceManager


def obey_signals(running: Running, observer: Observer, settings: Settings, path: Path | None) -> None:
    """Has SIGTERM and SIGINT end what runs and SIGHUP reload its policy; `settings` were read from `path`."""
    supervision = Supervision(ServiceManager(os.environ), running)
    running.accompany("the service manager", supervision.run)
    reload = Reload(path, settings, running, observer)

    def stop() -> None:
        supervision.stopping()
        running.stop()

    def hang_up() -> None:
        supervision.reloading()
        reload()
        supervision.reloaded()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGHUP, hang_up)
