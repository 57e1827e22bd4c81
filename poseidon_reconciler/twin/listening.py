"""Hears every event of an embedded cluster at the moment in which it is published.

A server forgets after a hundred batches and cuts off who is slow; a model of a client, or somebody who watches over the
cluster's truth, must miss nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.events import Batch


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
