"""A whole reconciler with telemetry on the embedded cluster, whose runners can be made to die for good.

For tests in time that leaps (tests/leaps.py).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from poseidon_reconciler.app.observers import Observers
from poseidon_reconciler.app.running import Running
from poseidon_reconciler.app.telemetry import attach_telemetry
from poseidon_reconciler.config import NomadSettings, Settings
from poseidon_reconciler.config.observing import TelemetrySettings
from poseidon_reconciler.observe.telemetry.telemetry import Telemetry
from poseidon_reconciler.policy import PacePolicy, PoolPolicy
from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.poseidon_jobs import IDLE, Work, environment_job, runner_job
from poseidon_reconciler.twin.server import TwinServer
from tests.controllers import Notes
from tests.leaps import LeapingClock, on_the_wall
from tests.twin.labs import lab

# Ends by itself with success: stuck for good, by Nomad's own rules.
MORTAL: Final = "10-mortal"
RUNNERS: Final = (MORTAL, "10-a", "10-b")


@dataclass
class Living:
    """The reconciler at work, and the cluster."""

    running: Running
    telemetry: Telemetry
    notes: Notes
    server: TwinServer
    task: asyncio.Task[None]

    async def until(self, condition: Callable[[], bool], timeout_s: float = 300.0) -> None:
        async with asyncio.timeout(timeout_s):
            while not condition():
                assert not self.task.done(), "the reconciler has ended"
                self.server.touch()
                await asyncio.sleep(0.25)

    async def replaced(self) -> None:
        """Until the runner that dies was replaced and removed, and the pool is full."""
        pools = self.running.core.diagnosis.pools
        done = ("create-runner", "done")
        await self.until(lambda: done in self.notes.outcomes and ("remove-job", "done") in self.notes.outcomes)
        await self.until(lambda: pools["10"].count("idle") == len(RUNNERS) and not pools["10"].lost)

    async def stop(self) -> float:
        """Stops the reconciler in an orderly way; how long that took, in seconds."""
        began = time.monotonic()
        self.running.stop()
        # What is left is sent on a thread of its own.
        with on_the_wall():
            await asyncio.wait([self.task], timeout=30)
        assert self.task.done()
        self.task.result()
        return time.monotonic() - began


def pool_with_a_mortal() -> Cluster:
    """A pool of three, of which one is about to end."""
    cluster = lab(version="1.10.5")
    cluster.jobs.register(environment_job(10, len(RUNNERS)))
    cluster.run_for(3)
    for job_id in RUNNERS:
        cluster.jobs.register(runner_job(job_id, Work(("sh", "-c", "sleep 40; exit 0")) if job_id == MORTAL else IDLE))
    cluster.run_for(3)
    return cluster


@asynccontextmanager
async def living(telemetry: TelemetrySettings) -> AsyncIterator[Living]:
    clock = LeapingClock()
    async with TwinServer(pool_with_a_mortal(), clock=clock) as server:
        settings = Settings(
            nomad=NomadSettings(address=server.address),
            pool=PoolPolicy(lost_grace_s=2.0, settle_s=4.0),
            pace=PacePolicy(max_starting_per_node=4),
            telemetry=telemetry,
        )
        notes = Notes()
        observers = Observers(notes)
        running = Running(settings, observers, clock=clock.now)
        found = attach_telemetry(running, settings, observers, clock=clock.now)
        task = asyncio.create_task(running.run())
        try:
            yield Living(running, found, notes, server, task)
        finally:
            running.stop()
            with on_the_wall():
                await asyncio.wait([task], timeout=30)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
