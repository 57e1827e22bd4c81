"""What a service manager hears of a controller at work, at rest, and stuck."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

from poseidon_reconciler.app.running import Running
from poseidon_reconciler.app.supervision import Supervision
from poseidon_reconciler.observe.service_manager import ServiceManager
from tests.controllers import Rig, at_once, in_virtual_time, now, rig


class Heard(ServiceManager):
    """A service manager's socket that notes what is sent, and when."""

    def __init__(self, **variables: str) -> None:
        super().__init__({"NOTIFY_SOCKET": "@nobody", **variables})
        self.messages: list[tuple[float, str]] = []

    def _send(self, *lines: str) -> None:
        self.messages.append((now(), lines[0]))

    def times(self, message: str) -> list[float]:
        return [at for at, told in self.messages if told == message]


def supervision(r: Rig, manager: ServiceManager) -> Supervision:
    running: Any = SimpleNamespace(controller=r.controller, core=r.core)
    return Supervision(manager, cast(Running, running))


@in_virtual_time
async def test_it_is_ready_once_the_first_lists_are_read_and_not_before() -> None:
    async with rig() as r:
        r.lists.slow = True
        manager = Heard()
        task = asyncio.create_task(supervision(r, manager).run())
        await r.open()
        await asyncio.sleep(60)
        assert [told for _, told in manager.messages] == [
            "STATUS=the view of the cluster is not complete: nothing is decided"
        ]

        r.lists.answer_now()
        at = now()
        await asyncio.sleep(60)

        (ready_at,) = manager.times("READY=1")
        assert ready_at - at < 1
        assert manager.messages[-1][1] == "STATUS=1 environment, 3 of 3 idle"
        task.cancel()


@in_virtual_time
async def test_it_lives_at_least_twice_in_each_interval_of_the_watchdog() -> None:
    async with rig() as r:
        manager = Heard(WATCHDOG_USEC="6000000")
        task = asyncio.create_task(supervision(r, manager).run())
        await r.open()
        await asyncio.sleep(60)
        lives = manager.times("WATCHDOG=1")
        assert max(after - before for before, after in pairwise(lives)) <= 3.01
        task.cancel()


@in_virtual_time
async def test_a_controller_that_is_stuck_gives_no_sign_of_life() -> None:
    async with rig() as r:
        manager = Heard(WATCHDOG_USEC="6000000")
        task = asyncio.create_task(supervision(r, manager).run())
        await r.open()
        await asyncio.sleep(10)
        r.task.cancel()
        await asyncio.gather(r.task, return_exceptions=True)
        stuck_at = now()

        await asyncio.sleep(60)

        assert max(manager.times("WATCHDOG=1")) <= stuck_at
        task.cancel()
        r.task = asyncio.create_task(r.controller.run())
        await at_once()


@in_virtual_time
async def test_a_reload_is_told_only_by_what_was_ready_before() -> None:
    async with rig() as r:
        manager = Heard()
        told = supervision(r, manager)
        told.reloading()
        told.reloaded()
        assert manager.messages == []

        task = asyncio.create_task(told.run())
        await r.open()
        await asyncio.sleep(1)
        told.reloading()
        told.reloaded()
        told.stopping()

        assert [message for _, message in manager.messages[-3:]] == ["RELOADING=1", "READY=1", "STOPPING=1"]
        task.cancel()


@in_virtual_time
async def test_where_nobody_listens_it_is_over_at_once() -> None:
    async with rig() as r:
        await asyncio.wait_for(supervision(r, ServiceManager({})).run(), 1)
