"""Time, chance and order in the embedded cluster, all three handed in from outside.

Everything that happens later is an action in one queue, ordered by its time and then by when it was asked for. So the
same seed and the same calls give the same history, whether an hour takes a second or an hour.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random


class Timer:
    """An action that waits for its time; `cancel` makes it never happen."""

    __slots__ = ("action", "due")

    def __init__(self, due: float, action: Callable[[], None]) -> None:
        self.due = due
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None

    @property
    def waiting(self) -> bool:
        return self.action is not None


class Kernel:
    """The clock (seconds since the epoch), the source of chance and the queue of what is due."""

    def __init__(self, now: float, rng: Random) -> None:
        self.now = now
        self.rng = rng
        self._queue: list[tuple[float, int, Timer]] = []
        self._asked = 0

    def after(self, delay_s: float, action: Callable[[], None]) -> Timer:
        """Does something `delay_s` seconds from now; a delay that is not positive comes as soon as time is advanced."""
        return self.at(self.now + max(0.0, delay_s), action)

    def at(self, due: float, action: Callable[[], None]) -> Timer:
        """Does something at a time; a time in the past comes as soon as time is advanced."""
        timer = Timer(max(due, self.now), action)
        self._asked += 1
        heapq.heappush(self._queue, (timer.due, self._asked, timer))
        return timer

    def next_due(self) -> float | None:
        """When the next action is due, if any is."""
        while self._queue and not self._queue[0][2].waiting:
            heapq.heappop(self._queue)
        return self._queue[0][0] if self._queue else None

    def advance(self, now: float) -> None:
        """Does everything that is due up to `now`, in order, each at its own time. Time never goes backwards."""
        while (due := self.next_due()) is not None and due <= now:
            _, _, timer = heapq.heappop(self._queue)
            self.now = max(self.now, due)
            action, timer.action = timer.action, None
            if action is not None:
                action()
        self.now = max(self.now, now)

    def new_id(self) -> str:
        """A random id in the shape of Nomad's."""
        digits = f"{self.rng.getrandbits(128):032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def spread(self, seconds: float) -> float:
        """A duration around `seconds`, between half and one and a half of it."""
        return seconds * self.rng.uniform(0.5, 1.5)
