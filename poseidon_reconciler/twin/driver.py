"""Keeps an embedded cluster going on a clock, and wakes whoever waits for something to change."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from poseidon_reconciler.twin.clock import Clock
from poseidon_reconciler.twin.cluster import Cluster


class Driver:
    """Advances a cluster whenever something is due, while `run` is running.

    The cluster goes on from its own time, whatever the clock says when the driver is made: only what passes counts.
    """

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self.cluster = cluster
        self.clock = clock
        self._ahead_s = cluster.now - clock.now()
        self._poked = asyncio.Event()
        self._changed = asyncio.Event()
        self._seen = -1

    def catch_up(self) -> None:
        """Brings the cluster to the clock's time, before somebody looks at it or does something to it."""
        self.cluster.advance(self.clock.now() + self._ahead_s)
        self._announce()

    def wake(self) -> None:
        """Lets everybody who waits for a change look again."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def touched(self) -> None:
        """Somebody did something to the cluster: what is due next may have changed."""
        self._announce()
        self._poked.set()

    async def run(self) -> None:
        """Keeps the cluster going until it is cancelled."""
        while True:
            self._poked.clear()
            self.catch_up()
            due = self.cluster.next_due()
            waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._poked.wait())]
            if due is not None:
                waits.append(
                    asyncio.ensure_future(self.clock.sleep(max(0.001, due - self._ahead_s - self.clock.now())))
                )
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()

    async def change(self, timeout_s: float) -> bool:
        """Waits for the next change, at most so many of the clock's seconds; says whether there was one."""
        changed = asyncio.ensure_future(self._changed.wait())
        sleep = asyncio.ensure_future(self.clock.sleep(timeout_s))
        try:
            await asyncio.wait([changed, sleep], return_when=asyncio.FIRST_COMPLETED)
            return changed.done()
        finally:
            for wait in (changed, sleep):
                wait.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await wait

    def _announce(self) -> None:
        seen = self.cluster.revision
        if seen != self._seen:
            self._seen = seen
            self.wake()
