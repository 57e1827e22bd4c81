"""A whole reconciler on a live cluster: the stream, the lists, the actions and the loop, one falling with the other.

A part of it that dies must not leave the rest behind as if nothing were: all of them run in one task group, so that the
process ends and whoever supervises it starts it anew. That is safe at any moment, because all state comes from Nomad.
What only looks on (see `companions`) begins anew by itself.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import Any, Final

from poseidon_reconciler.app.companions import Companion
from poseidon_reconciler.app.edges import NomadActions, NomadLists, connection_of, input_of
from poseidon_reconciler.app.observers import Observers
from poseidon_reconciler.app.start import hopeless
from poseidon_reconciler.app.templates import TemplateStore
from poseidon_reconciler.app.tracing import Tracing
from poseidon_reconciler.config import Settings
from poseidon_reconciler.controller import Controller, Observer, PolicyChanged, ProtectionChanged
from poseidon_reconciler.core.reconciler import Reconciler
from poseidon_reconciler.core.records import Job
from poseidon_reconciler.core.shadow import Shadow
from poseidon_reconciler.nomad.api import Api
from poseidon_reconciler.nomad.executor import Executor
from poseidon_reconciler.nomad.items import Closed, Item, Opened
from poseidon_reconciler.nomad.lists import ListReader
from poseidon_reconciler.nomad.outcomes import Ok
from poseidon_reconciler.nomad.stream import EventStream
from poseidon_reconciler.nomad.transport import Transport
from poseidon_reconciler.nomad.versions import needs_protection
from poseidon_reconciler.observe.drift import PoseidonView
from poseidon_reconciler.policy import Policy, os_reason

_DRAIN_S: Final = 8.0


class StartError(Exception):
    """The cluster cannot be followed with these settings; one line that says why."""


class Running:
    """A reconciler and all its parts.

    Attributes:
        clock, speed: its time, and how many times as fast as the machine's that goes.
        core: what it knows and decides.
        controller: its loop.
        stream: the event stream that it follows.
        companions: what else runs as long as it does, and ends with it.
        shadow: in a dry run, what would have been done and what became of it.
        item_listeners: are told of each item of the stream before the controller is; must not block and not raise.
        poseidon: what the Poseidon beside us believes; None where nobody asks it.
    """

    def __init__(
        self,
        settings: Settings,
        observer: Observer,
        *,
        dry_run: bool = False,
        clock: Callable[[], float] = time.time,
        speed: float = 1.0,
        transport: Transport | None = None,
        stream: EventStream | None = None,
        run_id: str | None = None,
    ) -> None:
        """`clock` may go `speed` times as fast as the machine's, for clusters that do; `transport` and `stream` lead to
        the cluster where it is not reached over the network; `run_id` tells the decisions of this process from others.

        Raises:
            StartError: the state directory cannot be used.
        """
        policy = settings.policy()
        connection = connection_of(settings)
        try:
            templates = TemplateStore(settings.state_dir)
        except OSError as error:
            raise StartError(f"state_dir: {settings.state_dir}: {os_reason(error)}") from None
        except ValueError as error:
            raise StartError(f"state_dir: {error}") from None
        self.clock, self.speed = clock, speed
        self._address = settings.nomad.address
        self._observer = observer
        self._stop = asyncio.Event()
        self._opened = asyncio.Event()
        self.shadow: Shadow | None = None
        self._traced_transport = transport or Transport(connection)
        self._api = Api(self._traced_transport)
        self.companions: list[Companion] = []
        self.item_listeners: list[Callable[[Item], None]] = []
        self.poseidon: Callable[[], PoseidonView | None] = lambda: None
        self.stream = stream or EventStream(connection, clock=clock, sleep=lambda wait_s: asyncio.sleep(wait_s / speed))
        self.core = Reconciler(policy)
        self._executor = Executor(self._api, policy, templates, dry_run=dry_run)
        self._traced_lists = NomadLists(ListReader(self._api, templates), templates)
        self._traced_actions = NomadActions(self._executor, self._job, run_id or uuid.uuid4().hex[:12])
        if dry_run:
            self.core.planner.desk.imagines = True
            self.shadow = Shadow(self.core)
            # First: whoever is told of a step may want to know the score.
            observer = Observers(self.shadow, observer)
        self.controller = Controller(
            self.core,
            self._traced_lists,
            self._traced_actions,
            observer,
            resync_interval_s=settings.nomad.resync_interval_s,
            clock=clock,
            speed=speed,
            restart_stream=self.stream.restart,
        )

    def _job(self, job_id: str) -> Job | None:
        # By way of the model each time: a new epoch gives it other tables.
        return self.core.model.jobs.get(job_id)

    def accompany(self, name: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Has something run beside it, to be told before it runs; see `Companion`."""
        self.companions.append(Companion(name, run))

    def trace(self, tracing: Tracing) -> None:
        """Has the edges tell of themselves from now on."""
        self._traced_lists.tracing = self._traced_actions.tracing = tracing
        self._traced_transport.on_answer = tracing.asked

    def stop(self) -> None:
        """Asks for an orderly end: no new decisions, writes under way are finished."""
        self._stop.set()

    def change_policy(self, policy: Policy) -> None:
        """Reconciles by another policy from now on."""
        self._executor.change_policy(policy)
        self.controller.put(PolicyChanged(policy))

    async def run(self) -> None:
        """Runs until it is stopped.

        Raises:
            StartError: there is no use in waiting for this cluster.
        """
        try:
            async with asyncio.TaskGroup() as group:
                parts = {group.create_task(self._follow_stream()), group.create_task(self.controller.run())}
                parts.add(group.create_task(self._follow_versions()))
                beside = (companion.keep_running(self._observer.noted) for companion in self.companions)
                parts.update(map(group.create_task, beside))
                await self._stop.wait()
                await self.controller.drain(_DRAIN_S)
                for part in parts:
                    part.cancel()
        except* StartError as errors:
            raise errors.exceptions[0] from None
        finally:
            await self._api.close()

    async def _follow_stream(self) -> None:
        opened = False
        async with aclosing(self.stream.items()) as items:
            async for item in items:
                if isinstance(item, Closed) and not opened and (why := hopeless(self._address, item)) is not None:
                    raise StartError(why)
                opened = opened or self.controller.synced
                for listener in self.item_listeners:
                    listener(item)
                if isinstance(item, Opened):
                    self._opened.set()
                converted = input_of(item)
                if converted is not None:
                    self.controller.put(converted)

    async def _follow_versions(self) -> None:
        """Finds out whether these servers end living jobs at all; an upgrade ends the stream, so it asks after each."""
        while True:
            await self._opened.wait()
            self._opened.clear()
            versions = await self._api.read_server_versions()
            needed = needs_protection(versions.value if isinstance(versions, Ok) else ())
            if needed != self.core.planner.protection.wanted:
                self.controller.put(ProtectionChanged(needed))
                why = "may end" if needed else "do not end"
                self._observer.noted("protection-on" if needed else "protection-off", f"the servers {why} living jobs")
