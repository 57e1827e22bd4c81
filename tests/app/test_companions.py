"""What runs beside a reconciler fails without harm."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from poseidon_reconciler.app import companions as module
from poseidon_reconciler.app.companions import Companion
from poseidon_reconciler.app.observers import Observers
from poseidon_reconciler.app.running import Running
from poseidon_reconciler.app.simulation.lab import Lab
from poseidon_reconciler.app.web import add_page
from poseidon_reconciler.config import Settings
from poseidon_reconciler.config.observing import HttpSettings
from poseidon_reconciler.observe.web.server import WebServer
from tests.controllers import Notes
from tests.twin.labs import lab


async def fail() -> None:
    raise ValueError("https://hooks.example/s3cr3t")


async def test_a_part_that_fails_is_told_and_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FAILED_WAIT_S", 0.01)
    notes, calls = Notes(), 0

    async def fail_twice() -> None:
        nonlocal calls
        calls += 1
        if calls < 3:
            async with asyncio.TaskGroup() as group:
                group.create_task(fail())

    async with asyncio.timeout(10):
        await Companion("a part", fail_twice).keep_running(notes.noted)

    assert calls == 3
    (name, text), (_, again) = notes.notes
    assert name == "companion-failed"
    assert text.startswith("a part: ValueError in test_companions.py, line ")
    assert text == again


def test_a_reconciler_goes_on_without_a_part_that_fails() -> None:
    course, notes = Lab(lab(version="1.10.5")), Notes()

    async def look_on() -> None:
        running = course.reconciler(Settings(), notes)
        running.accompany("a part", fail)
        task = asyncio.create_task(running.run())
        await asyncio.sleep(100)
        assert running.controller.synced
        running.stop()
        await task

    course.run(look_on)

    assert notes.count("companion-failed") == 2


async def test_a_page_whose_charts_fail_is_served_on(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(http=HttpSettings(listen="127.0.0.1:0"))
    running, notes = Running(settings, Notes()), Notes()
    address = await add_page(running, Observers(), settings)
    monkeypatch.setattr(WebServer, "_sample", lambda _: fail())
    task = asyncio.create_task(running.companions[0].keep_running(notes.noted))
    async with aiohttp.ClientSession(address) as client, asyncio.timeout(10):
        while not notes.notes:  # noqa: ASYNC110 - it is told from within
            await asyncio.sleep(0.01)
        assert (await client.get("/healthz")).status == 200

    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert notes.notes[0][1].startswith("the page: ValueError in test_companions.py")
