"""Hears every event of an embedded cluster at the moment in which it is published.

A server forgets after a hundred batches and cuts off who is slow; a model of a client, or somebody who watches over the
cluster's truth, must miss nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.events import Batch
from poseidon_reconciler.twin.records import Allocation, Evaluation, Job, JobKey, Node


def listen(cluster: Cluster, listener: Callable[[Batch], None]) -> None:
    """From now on `listener` is called with every batch, after its change was made.

    It is called in the middle of the cluster's work and must not change the cluster itself; what it wants done it can
    leave to `cluster.kernel`.
    """
    publish = cluster.state.publish

    def publish_and_tell(batch: Batch) -> None:
        publish(batch)
        listener(batch)

    cluster.state.publish = publish_and_tell


def jobs_concerned(cluster: Cluster, batch: Batch) -> list[JobKey]:
    """The jobs that a batch is about, each once; of a node, all that are placed on it."""
    return list(dict.fromkeys(key for event in batch.events for key in _concerned(cluster, event.payload)))


def _concerned(cluster: Cluster, payload: Job | Allocation | Evaluation | Node) -> Iterable[JobKey]:
    match payload:
        case Job():
            return (payload.key,)
        case Allocation() | Evaluation():
            return (payload.job_key,)
        case Node():
            return [allocation.job_key for allocation in cluster.state.allocations_on(payload.id)]
