"""The service manager that watches over `run`: told when it is ready, and that it lives, while it really does.

Alive is more than that the process is there: the event loop must turn, and the controller must take what it is given.
So each sign of life goes through the controller's own queue.
"""

from __future__ import annotations

import asyncio
from typing import Final

from poseidon_reconciler.app.pulse import turned
from poseidon_reconciler.app.running import Running
from poseidon_reconciler.observe.service_manager import ServiceManager, status_line

_STATUS_INTERVAL_S: Final = 5.0
_UNTIL_READY_S: Final = 0.2


class Supervision:
    """Tells the service manager how a reconciler is; `run` is one of its companions."""

    def __init__(self, manager: ServiceManager, running: Running) -> None:
        self._manager = manager
        self._running = running
        self._is_ready = False
        self._said = ""

    async def run(self) -> None:
        """Runs until it is cancelled; at once over where nobody listens."""
        if not self._manager.listens:
            return
        while True:
            await turned(self._running.controller)
            self._manager.alive()
            if self._running.controller.synced and not self._is_ready:
                self._is_ready = True
                self._manager.ready()
            self._say_status()
            await asyncio.sleep(self._interval_s())

    def reloading(self) -> None:
        """The configuration is read anew."""
        if self._is_ready:
            self._manager.reloading()

    def reloaded(self) -> None:
        """It has been, or the old one stays."""
        if self._is_ready:
            self._manager.ready()

    def stopping(self) -> None:
        """An orderly end has begun."""
        self._manager.stopping()

    def _say_status(self) -> None:
        line = status_line(self._running.core, synced=self._running.controller.synced)
        if line != self._said:
            self._said = line
            self._manager.status(line)

    def _interval_s(self) -> float:
        interval_s = _STATUS_INTERVAL_S if self._is_ready else _UNTIL_READY_S
        watchdog_s = self._manager.watchdog_s
        return interval_s if watchdog_s is None else min(interval_s, watchdog_s / 2)
