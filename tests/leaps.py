"""Real sockets, real threads, and time that leaps: whatever minutes a cluster needs, nobody waits for them.

For tests in which both sides of each connection are in this process. While a thread is at work, time passes as it
does on the wall; else, once no socket has anything to say, it goes on at once to whatever is due first. So a busy
machine makes such a test slower, and nothing in it later.
"""

from __future__ import annotations

import asyncio
import functools
import selectors
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any, Final, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# A socket's bytes are on their way for a moment, even to a neighbour.
_ON_ITS_WAY_S: Final = 0.001
# Less than what is waited for while a thread is at work.
_MOST_S: Final = 0.05


class _Leaps(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.at_work = 0

    def select(self, timeout: float | None = None) -> list[Any]:
        if self.at_work:
            began = time.monotonic()
            found = super().select(_MOST_S if timeout is None else min(timeout, _MOST_S))
            self.now += time.monotonic() - began
            return found
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        found = super().select(min(timeout, _ON_ITS_WAY_S))
        if not found:
            self.now += timeout
        return found


class _LeapingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.leaps = _Leaps()
        super().__init__(self.leaps)

    def time(self) -> float:
        return self.leaps.now

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        future = super().run_in_executor(executor, func, *args)
        self.leaps.at_work += 1
        future.add_done_callback(self._is_done)
        return future

    def _is_done(self, _: object) -> None:
        self.leaps.at_work -= 1


class LeapingClock:
    """The loop's time, in seconds since an epoch, for a cluster and for whoever works on it."""

    def __init__(self) -> None:
        self._since = time.time()

    def now(self) -> float:
        """The time, in seconds since the epoch."""
        return self._since + asyncio.get_running_loop().time()

    async def sleep(self, duration_s: float) -> None:
        """Waits for so many seconds."""
        await asyncio.sleep(max(0.0, duration_s))


@contextmanager
def on_the_wall() -> Iterator[None]:
    """Time passes as on the wall meanwhile: for threads of which the loop knows nothing."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, _LeapingLoop)
    loop.leaps.at_work += 1
    try:
        yield
    finally:
        loop.leaps.at_work -= 1


def run_in_leaps(work: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns, run in a loop of its own."""
    with asyncio.Runner(loop_factory=_LeapingLoop) as runner:
        return runner.run(work)


def in_leaps(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Runs a coroutine as a test, in a loop of its own."""

    @functools.wraps(test)
    def run(*args: Any, **fixtures: Any) -> None:
        run_in_leaps(test(*args, **fixtures))

    return run
