"""How everything stands at one instant, as one value that other threads may read.

Metrics are collected on threads of the SDK, and the model belongs to the event loop. So the loop writes down what
the metrics need, once a second, and hands over the finished page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from msgspec import Struct

from poseidon_reconciler.core.reconciler import Reconciler
from poseidon_reconciler.core.status import EnvironmentRow, environment_rows
from poseidon_reconciler.observe.telemetry.shortage import Shortages

# Remembered by the model for another hour.
GONE: Final = "gone"


ALL: Final = "all"


class Loop(Protocol):
    """The part of the controller that is looked at."""

    synced: bool

    @property
    def inputs_waiting(self) -> int: ...


class PoolSample(Struct, frozen=True):
    row: EnvironmentRow
    expected: int
    lacked_runner_s: float
    shortage_age_s: float


class Sample(Struct, frozen=True):
    """What there was to see; `holds` by environment and rule."""

    synced: bool = False
    inputs_waiting: int = 0
    pools: Mapping[str, PoolSample] = {}
    holds: Mapping[tuple[str, str], int] = {}
    nodes: Mapping[str, int] = {}
    jobs: int = 0
    allocations: int = 0
    at_risk: int = 0


class Sampler:
    """Takes samples, on the event loop.

    Attributes:
        latest: the newest one; may be read on any thread.
    """

    def __init__(
        self,
        core: Reconciler,
        loop: Loop,
        shortages: Shortages,
        clock: Callable[[], float],
    ) -> None:
        self.latest = Sample()
        self._core = core
        self._loop = loop
        self._shortages = shortages
        self._clock = clock

    def refresh(self) -> None:
        """Takes a new sample."""
        self.latest = self._take(self._clock())

    def _take(self, now: float) -> Sample:
        core = self._core
        self._shortages.look_at_all(core, now)
        holds = Counter((hold.environment_id or ALL, str(hold.rule)) for hold in core.holds(max(now, core.now)))
        nodes = [node for node in core.model.nodes.values() if node.status]
        return Sample(
            synced=self._loop.synced,
            inputs_waiting=self._loop.inputs_waiting,
            pools={id_: self._pool(id_, row, now) for id_, row in environment_rows(core).items() if row.state != GONE},
            holds=dict(holds),
            nodes=dict(Counter("draining" if node.draining else node.status for node in nodes)),
            jobs=len(core.model.jobs),
            allocations=sum(len(job.allocations) for job in core.model.jobs.values()),
            at_risk=len(core.diagnosis.at_risk),
        )

    def _pool(self, environment_id: str, row: EnvironmentRow, now: float) -> PoolSample:
        account = self._shortages.pools[environment_id]
        expected = self._core.planner.ledger.expected_in(environment_id)
        return PoolSample(row, expected, account.lacked(now), account.age_s(now))
