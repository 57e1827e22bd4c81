"""The verdicts that a demo shows: a core of its own, fed with every event of the cluster; its decisions nobody follows.

So the screen says the same with and without a reconciler, and says it of the cluster as it is, not as it looks from
the other end of a stream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import orjson
from msgspec.structs import replace

from poseidon_reconciler.core.diagnosis import Change
from poseidon_reconciler.core.lines import read_line
from poseidon_reconciler.core.reconciler import Reconciler, Step
from poseidon_reconciler.core.status import POOL_STATES, EnvironmentRow, environment_rows
from poseidon_reconciler.policy import Policy
from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.documents import frame
from poseidon_reconciler.twin.events import Batch
from poseidon_reconciler.twin.listening import listen

_BAD: Final = frozenset({"lost", "missing"})


class Judge:
    """Judges every job of a cluster. `on_loss` is told of each that was found lost."""

    def __init__(self, cluster: Cluster, policy: Policy, on_loss: Callable[[Change], None]) -> None:
        self.core = Reconciler(policy)
        self._cluster = cluster
        self._on_loss = on_loss
        listen(cluster, self._hear)

    def _hear(self, batch: Batch) -> None:
        line = read_line(orjson.dumps(frame(batch, batch.events, self._cluster.traits)))
        self._tell(self.core.feed_frame(line, self._cluster.now))

    def advance(self) -> None:
        """Brings the verdicts to the cluster's time."""
        self._tell(self.core.advance(self._cluster.now))

    def _tell(self, step: Step) -> None:
        for change in step.changes:
            newly = change.before is None or change.before.state not in _BAD
            if change.verdict.state in _BAD and newly:
                self._on_loss(change)

    def rows(self) -> dict[str, EnvironmentRow]:
        """How each environment stands; what this core would have liked to do does not count as done."""
        rows = environment_rows(self.core)
        return {id_: replace(row, deficit=max(0, (row.target or 0) - self._counting(id_))) for id_, row in rows.items()}

    def _counting(self, environment_id: str) -> int:
        return self.core.diagnosis.pools[environment_id].counting

    def numbers(self, environment_id: str) -> dict[str, int]:
        """How many runners of an environment are in each state."""
        pool = self.core.diagnosis.pools.get(environment_id)
        return {state: pool.count(state) if pool is not None else 0 for state in POOL_STATES}
