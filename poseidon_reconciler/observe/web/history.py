"""How full each pool was over the last hours, in as little memory and work as a chart of that needs.

A chart shows so many points and no more. So so many are kept: when there is no room for another, two and two become one
and each stands for twice as long, until they span eight hours; from then on the oldest goes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from typing import Any, Final

from poseidon_reconciler.core.documents import iso
from poseidon_reconciler.core.status import EnvironmentRow

SAMPLE_S: Final = 15.0
POINTS: Final = 120
# 120 points of 16 samples of 15 s are eight hours.
_MOST_SAMPLES_A_POINT: Final = 16
_MAX_ENVIRONMENTS: Final = 2000
_UNKNOWN: Final = -1

# Of an environment's row, and the number of its runners that are on their way.
_SERIES: Final[dict[str, Callable[[EnvironmentRow, int], int]]] = {
    "target": lambda row, _: _UNKNOWN if row.target is None else row.target,
    "idle": lambda row, _: row.idle,
    "coming": lambda _, coming: coming,
    "lost": lambda row, _: row.lost,
}
# Of several samples that become one point, trouble is what must stay to be seen.
_JOINED: Final[dict[str, Callable[[int, int], int]]] = {"target": max, "idle": min, "coming": max, "lost": max}


class History:
    """The points of all pools, of the same times. `sample_s` is the time between two samples, in seconds."""

    def __init__(self, sample_s: float = SAMPLE_S) -> None:
        self.sample_s = sample_s
        self._samples_a_point = 1
        self._samples_in_last = 0
        self._points = 0
        self._last_at: float | None = None
        self._environments: dict[str, dict[str, array[int]]] = {}

    def take(self, at: float, rows: Mapping[str, EnvironmentRow], coming: Mapping[str, int]) -> None:
        """Takes a sample of all pools, and of each how many runners are on their way; without rows it says that nothing
        is known of that time.
        """
        if self._points == 0 or self._samples_in_last == self._samples_a_point:
            self._begin_point()
        self._samples_in_last += 1
        self._last_at = at
        for id_, row in rows.items():
            series = self._environments.get(id_)
            if series is None:
                if len(self._environments) >= _MAX_ENVIRONMENTS:
                    continue
                series = self._environments[id_] = {name: array("i", [_UNKNOWN]) * self._points for name in _SERIES}
            for name, values in series.items():
                values[-1] = _join(name, values[-1], _SERIES[name](row, coming[id_]))

    def document(self) -> dict[str, Any]:
        """All of it, by environment and series, the oldest first; null where nothing is known."""
        return {
            "to": iso(self._last_at),
            "step_s": self.sample_s * self._samples_a_point,
            "environments": {
                id_: {name: _told(values) for name, values in series.items()}
                for id_, series in self._environments.items()
            },
        }

    def _begin_point(self) -> None:
        if self._points == POINTS:
            self._make_room()
        self._points += 1
        self._samples_in_last = 0
        for series in self._environments.values():
            for values in series.values():
                values.append(_UNKNOWN)

    def _make_room(self) -> None:
        if self._samples_a_point < _MOST_SAMPLES_A_POINT:
            self._samples_a_point *= 2
            self._points //= 2
            for series in self._environments.values():
                for name, values in series.items():
                    pairs = zip(values[::2], values[1::2], strict=True)
                    series[name] = array("i", [_join(name, one, other) for one, other in pairs])
            return
        self._points -= 1
        for id_, series in list(self._environments.items()):
            for values in series.values():
                del values[0]
            if max(series["idle"]) == _UNKNOWN:
                del self._environments[id_]


def _join(name: str, one: int, other: int) -> int:
    if _UNKNOWN in (one, other):
        return max(one, other)
    return _JOINED[name](one, other)


def _told(values: array[int]) -> list[int | None]:
    return [value if value != _UNKNOWN else None for value in values]
