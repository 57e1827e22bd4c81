"""Whether reconcilers work at a bearable pace: how much they create at a time, and whether they run in circles."""

from __future__ import annotations

from collections import deque
from typing import Final

from poseidon_reconciler.app.simulation.life import Deed, Life
from poseidon_reconciler.twin.cluster import Cluster

_WINDOW_S: Final = 5.0
# The clocks of machine and cluster may be rounded differently.
_SLACK_S: Final = 0.001
_CIRCLE_S: Final = 30.0
_MOST_IN_A_CIRCLE: Final = 6


class TooFastError(Exception):
    """More was done than may be."""


class PaceWatch:
    """Counts what each reconciler decides to create, and what all of them do to each job."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._created_at: dict[Life, deque[float]] = {}
        self._done_at: dict[tuple[str, str], deque[float]] = {}

    def decided(self, life: Life, deeds: list[Deed]) -> None:
        """A reconciler has decided. Raises `TooFastError`."""
        pace = life.place.settings.pace
        times = self._created_at.setdefault(life, deque())
        for deed in deeds:
            if deed.action.kind != "create-runner":
                continue
            number = _count(times, deed.at, _WINDOW_S - _SLACK_S)
            allowed = pace.max_creates_per_second * _WINDOW_S + max(1.0, pace.max_creates_per_second)
            if number > allowed:
                raise TooFastError(f"{life.name} decided on {number} creations within {_WINDOW_S:g} s")

    def written(self, deed: Deed, job_id: str) -> None:
        """A write was carried out. Raises `TooFastError`."""
        kind = deed.action.kind
        number = _count(self._done_at.setdefault((kind, job_id), deque()), self._cluster.now, _CIRCLE_S)
        if number > _MOST_IN_A_CIRCLE:
            raise TooFastError(f"{kind} {job_id} was done {number} times within {_CIRCLE_S:g} s")


def _count(times: deque[float], now: float, window_s: float) -> int:
    """How many times there were within the window, with this one."""
    times.append(now)
    while times[0] < now - window_s:
        times.popleft()
    return len(times)
