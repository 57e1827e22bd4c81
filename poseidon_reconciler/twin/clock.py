"""Clocks that drive an embedded cluster behind a server: the machine's own, faster or slower, or one turned by hand."""

from __future__ import annotations

import asyncio
import heapq
import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time in seconds since the epoch, and waits for a time to come."""

    def now(self) -> float:
        """The time, in seconds since the epoch."""

    async def sleep(self, duration_s: float) -> None:
        """Waits for so many of this clock's seconds."""


class RealClock:
    """The machine's clock; with `speed` 10 ten seconds pass in one."""

    def __init__(self, *, speed: float = 1.0) -> None:
        self.speed = speed
        self._since = time.time()
        self._started = time.monotonic()

    def now(self) -> float:
        """The time, in seconds since the epoch; it never goes backwards."""
        return self._since + (time.monotonic() - self._started) * self.speed

    async def sleep(self, duration_s: float) -> None:
        """Waits for so many of this clock's seconds."""
        await asyncio.sleep(max(0.0, duration_s) / self.speed)


class VirtualClock:
    """A clock that stands still until somebody turns it with `advance`."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self._now = now
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._asked = 0

    def now(self) -> float:
        """The time, in seconds since the epoch."""
        return self._now

    async def sleep(self, duration_s: float) -> None:
        """Waits until somebody has turned the clock by so many seconds."""
        if duration_s <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asked += 1
        heapq.heappush(self._sleepers, (self._now + duration_s, self._asked, woken))
        await woken

    async def advance(self, duration_s: float) -> None:
        """Turns the clock; whoever wakes up on the way has done its part before the clock goes on."""
        target = self._now + duration_s
        await _let_others_run()
        while self._sleepers and self._sleepers[0][0] <= target:
            due, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                self._now = max(self._now, due)
                woken.set_result(None)
                await _let_others_run()
        self._now = target
        await _let_others_run()


async def _let_others_run() -> None:
    for _ in range(10):
        await asyncio.sleep(0)
