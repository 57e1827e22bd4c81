"""How full each pool was over the last hours, in as little memory as a chart of that needs.

A sample each 15 s for 6 h, four numbers a sample, in arrays that are written round and round: 23 kB for an environment.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from typing import Any, Final

from poseidon_reconciler.core.documents import iso
from poseidon_reconciler.core.status import EnvironmentRow

SAMPLE_S: Final = 15.0
CAPACITY: Final = 1440
# What a chart can show on the width that it has.
POINTS: Final = 120
_MAX_ENVIRONMENTS: Final = 2000
_UNKNOWN: Final = -1
_COMING: Final = ("starting", "recovering", "blocked", "disconnected")

_SERIES: Final[dict[str, Callable[[EnvironmentRow], int]]] = {
    "target": lambda row: _UNKNOWN if row.target is None else row.target,
    "idle": lambda row: row.idle,
    "coming": lambda row: sum(getattr(row, state) for state in _COMING),
    "lost": lambda row: row.lost,
}
# Of several samples that become one point, trouble is what must stay to be seen.
_THINNED: Final[dict[str, Callable[[array[int]], int]]] = {"target": max, "idle": min, "coming": max, "lost": max}


class History:
    """The samples. `sample_s` is the time between two of them, in seconds of the reconciler's clock."""

    def __init__(self, sample_s: float = SAMPLE_S) -> None:
        self.sample_s = sample_s
        self.taken = 0
        self._last_at = 0.0
        self._environments: dict[str, dict[str, array[int]]] = {}
        self._thinned: tuple[int, dict[str, Any]] = (-1, {})

    def take(self, at: float, rows: Mapping[str, EnvironmentRow]) -> None:
        """Takes a sample of all pools; without rows it says that nothing is known of that time."""
        place = self.taken % CAPACITY
        for id_ in rows:
            if id_ not in self._environments and len(self._environments) < _MAX_ENVIRONMENTS:
                self._environments[id_] = {name: array("i", [_UNKNOWN]) * CAPACITY for name in _SERIES}
        for id_, series in self._environments.items():
            row = rows.get(id_)
            for name, values in series.items():
                values[place] = _SERIES[name](row) if row is not None else _UNKNOWN
        self.taken += 1
        self._last_at = at
        if place == CAPACITY - 1:
            self._forget()

    def document(self) -> dict[str, Any]:
        """All of it thinned to what a chart shows, by environment and series; null where nothing is known."""
        if self._thinned[0] != self.taken:
            self._thinned = (self.taken, self._thin())
        return self._thinned[1]

    def _thin(self) -> dict[str, Any]:
        kept = min(self.taken, CAPACITY)
        each = max(1, -(-kept // POINTS))
        start = self.taken % CAPACITY if self.taken > CAPACITY else 0
        environments = {
            id_: {
                name: _points((values[start:] + values[:start])[:kept], each, _THINNED[name])
                for name, values in series.items()
            }
            for id_, series in self._environments.items()
        }
        return {
            "to": iso(self._last_at) if kept else None,
            "step_s": self.sample_s * each,
            "environments": environments,
        }

    def _forget(self) -> None:
        """Drops what was not seen for as long as is kept."""
        gone = [id_ for id_, series in self._environments.items() if max(series["idle"]) == _UNKNOWN]
        for id_ in gone:
            del self._environments[id_]


def _points(values: array[int], each: int, thin: Callable[[array[int]], int]) -> list[int | None]:
    """One point for each `each` values, counted from the newest, so that the last point is of now."""
    first = len(values) % each
    slices = [values[:first]] if first else []
    slices += [values[at : at + each] for at in range(first, len(values), each)]
    return [_point(part, thin) for part in slices]


def _point(part: array[int], thin: Callable[[array[int]], int]) -> int | None:
    if min(part) == _UNKNOWN:
        part = array("i", [value for value in part if value != _UNKNOWN])
    return thin(part) if part else None
