"""Whether the loop turns, as `/healthz` has it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from poseidon_reconciler.app import pulse as module
from poseidon_reconciler.app.observers import Observers
from poseidon_reconciler.app.pulse import Pulse
from poseidon_reconciler.app.running import Running
from poseidon_reconciler.app.web import add_page
from poseidon_reconciler.config import Settings
from poseidon_reconciler.config.observing import HttpSettings
from tests.controllers import Notes


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INTERVAL_S", 0.01)
    monkeypatch.setattr(module, "BOUND_S", 0.3)


@asynccontextmanager
async def beating(running: Running) -> AsyncIterator[Pulse]:
    pulse = Pulse(running.controller)
    task = asyncio.create_task(pulse.run())
    try:
        yield pulse
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until_trouble(pulse: Pulse) -> str:
    async with asyncio.timeout(20):
        while (trouble := pulse.trouble()) is None:  # noqa: ASYNC110 - time alone brings it about
            await asyncio.sleep(0.01)
    return trouble


async def test_one_that_turns_is_well_and_one_that_takes_nothing_any_more_is_not() -> None:
    running = Running(Settings(), Notes())
    async with beating(running) as pulse:
        loop = asyncio.create_task(running.controller.run())
        await asyncio.sleep(0.5)
        assert pulse.trouble() is None
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)
        assert (await until_trouble(pulse)).startswith("the loop has not turned for ")
        await asyncio.sleep(0.1)
        # However long that lasts, it is asked once.
        assert running.controller.inputs_waiting == 1
        loop = asyncio.create_task(running.controller.run())
        await asyncio.sleep(0.1)
        assert pulse.trouble() is None
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)


async def test_one_that_is_asked_to_stop_is_at_its_end() -> None:
    running = Running(Settings(), Notes())
    await running.controller.drain(0)
    assert Pulse(running.controller).trouble() == "the loop has ended"


async def test_the_page_says_that_the_loop_is_stuck() -> None:
    settings = Settings(http=HttpSettings(listen="127.0.0.1:0"))
    running = Running(settings, Notes())
    address = await add_page(running, Observers(), settings)
    companions = [asyncio.create_task(companion.run()) for companion in running.companions]
    async with aiohttp.ClientSession(address) as client, asyncio.timeout(20):
        while (answer := await client.get("/healthz")).status == 200:  # noqa: ASYNC110 - it is asked from outside
            await asyncio.sleep(0.05)
        assert "the loop has not turned for" in (await answer.json())["error"]
    for companion in companions:
        companion.cancel()
    await asyncio.gather(*companions, return_exceptions=True)
