"""Whether reconcilers work at a bearable pace: how much they do at a time, and whether they run in circles."""

from __future__ import annotations

from collections import deque
from typing import Final

from poseidon_reconciler.app.simulation.life import Deed, Life
from poseidon_reconciler.core.ledger import ActionKind
from poseidon_reconciler.twin.cluster import Cluster

_WINDOW_S: Final = 5.0
# The clocks of machine and cluster may be rounded differently.
_SLACK_S: Final = 0.001
_CIRCLE_S: Final = 30.0
_MOST_IN_A_CIRCLE: Final = 6
_PACED: Final[dict[ActionKind, str]] = {"create-runner": "creations", "stop-surplus": "stops"}


class TooFastError(Exception):
    """More was done than may be."""


class PaceWatch:
    """Counts what each reconciler decides on and begins, and what it does to each job."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lately: dict[tuple[Life, ActionKind, str], deque[tuple[float, Deed]]] = {}
        self._done_at: dict[tuple[Life, str, str], deque[float]] = {}

    def decided(self, life: Life, deeds: list[Deed]) -> None:
        """A reconciler has decided. Raises `TooFastError`."""
        for deed in deeds:
            if deed.action.kind in _PACED:
                self._count(life, deed, "decided on", deed.at)

    def begun(self, life: Life, deed: Deed) -> None:
        """A reconciler begins to do what it has decided. Raises `TooFastError`."""
        if deed.action.kind == "create-runner":
            self._count(life, deed, "began", self._cluster.now)

    def _count(self, life: Life, deed: Deed, verb: str, at: float) -> None:
        kind = deed.action.kind
        lately = self._lately.setdefault((life, kind, verb), deque())
        lately.append((at, deed))
        while lately[0][0] < at - _WINDOW_S + _SLACK_S:
            lately.popleft()
        # A rate that was changed held for what was decided before.
        rate = max(each.policy.pace.max_creates_per_second for _, each in lately)
        if len(lately) > rate * _WINDOW_S + max(1.0, rate):
            raise TooFastError(f"{life.name} {verb} {len(lately)} {_PACED[kind]} within {_WINDOW_S:g} s")

    def written(self, deed: Deed, job_id: str) -> None:
        """A write was carried out. Raises `TooFastError`."""
        kind = deed.action.kind
        # One that was killed knows nothing of what it did before, and another nothing of what comes of this.
        times, now = self._done_at.setdefault((deed.life, kind, job_id), deque()), self._cluster.now
        times.append(now)
        while times[0] < now - _CIRCLE_S:
            times.popleft()
        if len(times) > _MOST_IN_A_CIRCLE:
            raise TooFastError(f"{kind} {job_id} was done {len(times)} times within {_CIRCLE_S:g} s")
