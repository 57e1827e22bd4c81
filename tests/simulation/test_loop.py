"""Time passes only while everybody waits, in the loop and in the cluster alike."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from poseidon_reconciler.app.simulation.loop import StuckError, VirtualLoop


class Bell:
    """Something that is due at given times."""

    def __init__(self, *times: float) -> None:
        self.times = list(times)
        self.rung: list[float] = []

    def next_due(self) -> float | None:
        return self.times[0] if self.times else None

    def advance(self, now: float) -> None:
        while self.times and self.times[0] <= now:
            self.rung.append(self.times.pop(0))


def run(main: Coroutine[Any, Any, Any], bell: Bell) -> list[dict[str, Any]]:
    errors: list[dict[str, Any]] = []
    loop = VirtualLoop(1000.0, bell, errors.append)
    try:
        loop.run_until_complete(main)
    finally:
        loop.close()
    return errors


def test_an_hour_takes_no_time() -> None:
    async def main() -> float:
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    began = time.perf_counter()
    bell = Bell()
    loop = VirtualLoop(1000.0, bell, lambda _: None)
    assert loop.run_until_complete(main()) == pytest.approx(4600.0, abs=0.001)
    loop.close()
    assert time.perf_counter() - began < 5


def test_what_is_due_elsewhere_is_done_at_its_time() -> None:
    bell = Bell(1001.0, 1005.0, 1020.0)
    seen: list[int] = []

    async def main() -> None:
        for _ in range(3):
            await asyncio.sleep(4.0)
            seen.append(len(bell.rung))

    assert run(main(), bell) == []
    assert seen == [1, 2, 2]


def test_everybody_waiting_for_nothing_is_an_error() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(StuckError):
        run(main(), Bell())


def test_who_never_waits_is_noticed() -> None:
    async def main() -> None:
        for _ in range(25_000):
            await asyncio.sleep(0)

    (error,) = run(main(), Bell())
    assert "never waits" in error["message"]


def test_what_nobody_catches_is_told() -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(1)

    (error,) = run(main(), Bell())
    assert isinstance(error["exception"], ZeroDivisionError)
