"""A reconciler in the lab is the real one: what it writes reaches the cluster and is told, the same every time."""

from __future__ import annotations

import asyncio

import pytest

from poseidon_reconciler.app.observers import Observers
from poseidon_reconciler.app.simulation.lab import Lab
from poseidon_reconciler.config import Settings
from poseidon_reconciler.twin import poseidon_jobs as pj
from poseidon_reconciler.twin.cluster import Cluster

START = 1_000_000.0


def filled(seed: int) -> Lab:
    """An environment whose pool of three was never filled by anybody."""
    cluster = Cluster(3, now=START - 60, seed=seed)
    cluster.advance(START)
    lab = Lab(cluster, seed=seed)
    cluster.jobs.register(pj.environment_job(10, 3))

    async def main() -> None:
        running = lab.reconciler(Settings(), Observers())
        task = asyncio.create_task(running.run())
        await asyncio.sleep(60)
        running.stop()
        await task

    lab.run(main)
    return lab


def test_what_is_written_is_told_and_done() -> None:
    lab = filled(1)
    assert [line.partition(" ")[0] for line in lab.written] == ["post"] * 3
    running = [job.id for job in lab.cluster.state.jobs.values() if job.status == "running"]
    assert len(running) == 4


def test_the_same_seed_gives_the_same_course() -> None:
    first, again, other = filled(1), filled(1), filled(2)
    assert (first.written, first.cluster.state.index) == (again.written, again.cluster.state.index)
    assert first.cluster.state.allocations.keys() != other.cluster.state.allocations.keys()


def test_what_nobody_catches_is_told() -> None:
    lab = Lab(Cluster(1, now=START))

    def fail() -> None:
        raise ValueError("broken")

    async def main() -> None:
        asyncio.get_running_loop().call_later(1.0, fail)
        await asyncio.sleep(2.0)

    with pytest.raises(RuntimeError, match="broken"):
        lab.run(main)
