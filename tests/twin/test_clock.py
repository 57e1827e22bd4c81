"""Clocks: one that runs faster, and one that is turned by hand."""

from __future__ import annotations

import asyncio
import time

import pytest

from poseidon_reconciler.twin.clock import RealClock, VirtualClock


async def test_a_faster_clock_passes_more_seconds() -> None:
    clock = RealClock(speed=100.0)
    assert clock.now() == pytest.approx(time.time(), abs=60.0)
    before, started = clock.now(), time.monotonic()
    await clock.sleep(5.0)
    assert clock.now() - before >= 5.0
    assert time.monotonic() - started < 2.0


async def test_a_clock_turned_by_hand_wakes_everybody_on_the_way_at_the_right_time() -> None:
    clock, seen = VirtualClock(100.0), []

    async def sleeper(*durations_s: float) -> None:
        for duration_s in durations_s:
            await clock.sleep(duration_s)
            seen.append((durations_s[0], clock.now()))

    tasks = [
        asyncio.create_task(sleeper(2.0, 2.0)),
        asyncio.create_task(sleeper(3.0)),
        asyncio.create_task(sleeper(9.0)),
    ]
    await clock.advance(5.0)
    assert seen == [(2.0, 102.0), (3.0, 103.0), (2.0, 104.0)]
    assert clock.now() == 105.0
    tasks[-1].cancel()
    await clock.advance(10.0)
    assert len(seen) == 3


async def test_sleeping_for_nothing_does_not_wait_for_anybody() -> None:
    clock = VirtualClock()
    await asyncio.wait_for(clock.sleep(0.0), 1.0)
