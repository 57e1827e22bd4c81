"""A cluster on a clock: it goes on by itself, and whoever waits for a change hears of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from poseidon_reconciler.twin.clock import VirtualClock
from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.driver import Driver
from poseidon_reconciler.twin.poseidon_jobs import runner_job


@pytest.fixture
async def driver() -> AsyncIterator[Driver]:
    driver = Driver(Cluster(3, seed=1, now=500.0), VirtualClock(1000.0))
    task = asyncio.create_task(driver.run())
    yield driver
    task.cancel()


def clock_of(driver: Driver) -> VirtualClock:
    assert isinstance(driver.clock, VirtualClock)
    return driver.clock


async def test_the_cluster_goes_on_from_its_own_time(driver: Driver) -> None:
    await clock_of(driver).advance(30.0)
    driver.catch_up()
    assert driver.cluster.now == pytest.approx(530.0)
    assert {node.status for node in driver.cluster.state.nodes.values()} == {"ready"}


async def test_what_is_done_from_outside_is_taken_up_at_once(driver: Driver) -> None:
    clock = clock_of(driver)
    await clock.advance(30.0)
    driver.catch_up()
    driver.cluster.jobs.register(runner_job("10-a"))
    driver.touched()
    await clock.advance(3.0)
    assert driver.cluster.state.jobs["default", "10-a"].status == "running"


async def test_waiting_for_a_change_ends_with_the_change_or_with_the_time(driver: Driver) -> None:
    clock = clock_of(driver)
    await clock.advance(60.0)
    waiting = asyncio.create_task(driver.change(10.0))
    await clock.advance(11.0)
    assert waiting.done()
    assert waiting.result() is False
    waiting = asyncio.create_task(driver.change(10.0))
    await asyncio.sleep(0)
    driver.cluster.jobs.register(runner_job("10-a"))
    driver.touched()
    assert await asyncio.wait_for(waiting, 1.0) is True
