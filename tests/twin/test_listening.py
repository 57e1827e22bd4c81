"""Hearing every batch of events, with what a server forgets long before."""

from __future__ import annotations

from poseidon_reconciler.twin.events import BUFFERED_BATCHES, Batch
from poseidon_reconciler.twin.listening import listen
from poseidon_reconciler.twin.poseidon_jobs import runner_job
from tests.twin.labs import lab


def test_no_batch_is_missed_however_many_come_at_once() -> None:
    cluster = lab()
    heard: list[Batch] = []
    listen(cluster, heard.append)
    for number in range(BUFFERED_BATCHES):
        cluster.jobs.register(runner_job(f"10-{number}"))
    cluster.run_for(5)
    assert heard == cluster.log[-len(heard) :]
    assert len(heard) > 2 * BUFFERED_BATCHES


def test_a_listener_sees_the_change_made_and_every_listener_is_told() -> None:
    cluster = lab()
    statuses: list[str] = []
    told: list[int] = []
    listen(cluster, lambda batch: told.append(batch.index))
    listen(cluster, lambda _: statuses.append(cluster.state.jobs["default", "10-a"].status))
    cluster.jobs.register(runner_job("10-a"))
    cluster.run_for(2)
    assert statuses[0] == "pending"
    assert statuses[-1] == "running"
    assert len(told) == len(statuses)
