"""Whether a reconciler still turns: its loop is asked again and again, through the queue that tells it everything.

That the process is there, and its event loop answers, says little: who takes nothing from that queue decides nothing.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from poseidon_reconciler.controller import Controller, Ping

INTERVAL_S: Final = 5.0
# The longest turn of the largest cluster takes a small part of it.
BOUND_S: Final = 10.0


async def turned(controller: Controller) -> None:
    """Waits until a controller takes what it is given."""
    answered = asyncio.Event()
    controller.put(Ping(answered.set))
    await answered.wait()


class Pulse:
    """Asks one controller; `run` is a companion of it. One question at a time: who is stuck is not buried in them."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._asked_at: float | None = None

    async def run(self) -> None:
        """Asks until it is cancelled."""
        while True:
            self._asked_at = time.monotonic()
            await turned(self._controller)
            self._asked_at = None
            await asyncio.sleep(INTERVAL_S)

    def trouble(self) -> str | None:
        """What is wrong with the loop, in a few words; None if nothing is."""
        if self._controller.stopping:
            return "the loop has ended"
        silent_s = time.monotonic() - self._asked_at if self._asked_at is not None else 0.0
        return f"the loop has not turned for {silent_s:.0f} s" if silent_s > BOUND_S else None
