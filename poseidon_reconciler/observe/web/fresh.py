"""What costs time to make is made once for all who ask within a while.

The page shares its event loop with the one that decides. So however large the cluster and however many ask, making
answers takes a fixed share of the loop's time at most: what takes longer to make may be older when it is given. What
may be made on a thread is, by one thread at a time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

_MIN_AGE_S: Final = 0.25
_SHARE: Final = 0.05
_ASIDE_AGE_S: Final = 1.0

T = TypeVar("T")


class Fresh(Generic[T]):
    """The last of what `make` gives, made anew when it is asked for and too old."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: T | None = None
        self._fresh_until = 0.0

    def get(self) -> T:
        """The thing, a quarter of a second old at most, or 20 times as old as it takes to make."""
        began = time.monotonic()
        if self._made is None or began >= self._fresh_until:
            self._made = self._make()
            self._fresh_until = began + max(_MIN_AGE_S, (time.monotonic() - began) / _SHARE)
        return self._made

    def expire(self) -> None:
        """Has it made anew for the next who asks: something was done that they will look for."""
        self._made = None


class FreshAside(Generic[T]):
    """The last of what `make` gives, made anew on a thread when it is asked for and older than a second.

    However many ask, one thread is busy with it: who comes while it is made gets the same.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._making: asyncio.Task[T] | None = None
        self._fresh_until = 0.0

    async def get(self) -> T:
        """The thing. Raises what `make` raises."""
        if self._making is None or (self._making.done() and time.monotonic() >= self._fresh_until):
            self._fresh_until = time.monotonic() + _ASIDE_AGE_S
            self._making = asyncio.create_task(asyncio.to_thread(self._make))
        # One who goes away must not take it from the others.
        return await asyncio.shield(self._making)

    def expire(self) -> None:
        """Has it made anew for the next who asks."""
        self._fresh_until = 0.0
