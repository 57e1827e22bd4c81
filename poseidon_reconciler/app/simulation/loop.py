"""An event loop whose time passes only while everybody waits: an hour takes as long as what happens in it.

The loop's time is the cluster's. When no callback is ready, it goes on to whatever comes first, a timer of the loop or
something that is due in the cluster. There are no sockets, no threads and no waiting, so the same calls give the same
history.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

# Code takes time. Without this a timer that is rounded down would find that it is not due, again and again.
_STEP_S: Final = 1e-6
# Whoever is woken so often while no time passes is not waiting for anything.
_MOST_STEPS: Final = 20_000
_SPINNING_STEP_S: Final = 0.01


class Timed(Protocol):
    """Something with a course of its own in the same time."""

    def next_due(self) -> float | None: ...

    def advance(self, now: float) -> None: ...


class StuckError(Exception):
    """Everybody waits, and nothing is due any more."""


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs tasks beside a cluster.

    Attributes:
        on_error: is told of what nobody caught.
    """

    # What the base class keeps; it asks its selector how long to wait, which is all that this class changes.
    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, now: float, other: Timed, on_error: Callable[[dict[str, Any]], None]) -> None:
        super().__init__()
        self._now = now
        self._other = other
        self._selector = self
        self._on_error = on_error
        self._steps = 0
        self.set_exception_handler(lambda _, context: on_error(context))

    def time(self) -> float:
        """Seconds on the cluster's clock."""
        return self._now

    def select(self, _: float | None) -> list[Any]:
        """Lets time pass until a callback is ready."""
        self._steps += 1
        if self._steps == _MOST_STEPS:
            self._on_error({"message": "somebody keeps busy with nothing to do, and never waits"})
        self._go_to(self._now + (_STEP_S if self._steps < _MOST_STEPS else _SPINNING_STEP_S))
        while not self._ready:
            self._steps = min(self._steps, _MOST_STEPS) if self._steps >= _MOST_STEPS else 0
            timer = self._scheduled[0].when() if self._scheduled else None
            due = self._other.next_due()
            if timer is None and due is None:
                raise StuckError
            if due is None or (timer is not None and timer < due):
                assert timer is not None
                self._now = max(self._now, timer)
                break
            self._go_to(max(self._now, due))
        return []

    def _go_to(self, now: float) -> None:
        due = self._other.next_due()
        # Whatever the cluster does is done at the loop's own time of it.
        while due is not None and due <= now:
            self._now = max(self._now, due)
            self._other.advance(self._now)
            due = self._other.next_due()
        self._now = max(self._now, now)

    def _process_events(self, _: list[Any]) -> None:
        """There are no sockets."""

    def _write_to_self(self) -> None:
        """There are no other threads that could wake the loop."""
