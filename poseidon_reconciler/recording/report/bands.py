"""When which node was up: a lane for each node, the same below every chart and therefore drawn once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from poseidon_reconciler.markup.elements import Element, element
from poseidon_reconciler.recording.report import lanes
from poseidon_reconciler.recording.report.paths import percent
from poseidon_reconciler.recording.report.timescale import TimeScale
from poseidon_reconciler.recording.story import NodeChange

MAX_NODES: Final = 12
_COLUMNS: Final = 60
_LABEL_WIDTH: Final = 0.12
_SHORT_ID_CHARS: Final = 8
# The worst first: where there is no room for all that happened, this is shown.
_SEVERITY: Final = ("down", "disconnected", "gone", "draining", "initializing", "ready")


class _Band(NamedTuple):
    """A node's state from one moment to the next."""

    at: float
    end_at: float
    state: str


class NodeLanes:
    """The lanes of all nodes; where there are too many, of those to which most happened.

    Attributes:
        drawings: to be put into the page once; the lanes show them.
        left_out: how many nodes have no lane.
    """

    def __init__(self, changes: Sequence[NodeChange], scale: TimeScale) -> None:
        by_node: dict[str, list[NodeChange]] = {}
        for change in changes:
            by_node.setdefault(change.node_id, []).append(change)
        shown = sorted(sorted(by_node.values(), key=len, reverse=True)[:MAX_NODES], key=_name)
        self.left_out = len(by_node) - len(shown)
        self._names = [_name(history) for history in shown]
        self.drawings = [_drawing(f"node-{number}", history, scale) for number, history in enumerate(shown, 1)]

    def lanes(self) -> list[lanes.Lane]:
        """The lanes, for one chart."""
        return [lanes.Lane(name, _shown(f"node-{number}")) for number, name in enumerate(self._names, 1)]


def _name(history: list[NodeChange]) -> str:
    return history[-1].name or history[-1].node_id[:_SHORT_ID_CHARS]


def _shown(anchor: str) -> Element:
    return lanes.drawing(element("use", href=f"#{anchor}"), labelled_by=f"{anchor}-states")


def _drawing(anchor: str, history: list[NodeChange], scale: TimeScale) -> Element:
    bands = list(_bands(history, scale))
    moments = [f"{band.state} from {scale.clock(band.at)}" for band in bands]
    # Short bands of a bad state are drawn over long ones of a good one.
    shapes = [_shape(band, scale) for band in sorted(bands, key=lambda band: -_severity(band.state))]
    words = element("desc", f"{_name(history)}: {lanes.listed(moments)}", id=f"{anchor}-states")
    return element("g", words, *shapes, id=anchor)


def _bands(history: list[NodeChange], scale: TimeScale) -> Iterator[_Band]:
    """A node's states in time; of many within one column the worst and the last."""
    states = [
        (change.at, "draining" if change.draining and change.status == "ready" else change.status) for change in history
    ]
    kept: list[tuple[float, str]] = []
    for _, group in groupby(states, key=lambda state: int(scale.x(state[0]) * _COLUMNS)):
        column = list(group)
        worst = min(column, key=lambda state: _severity(state[1]))
        kept += [worst, column[-1]] if worst != column[-1] else [worst]
    ends = [*(at for at, _ in kept[1:]), scale.end]
    for (at, state), end_at in zip(kept, ends, strict=True):
        yield _Band(at, end_at, state)


def _severity(state: str) -> int:
    return _SEVERITY.index(state) if state in _SEVERITY else len(_SEVERITY)


def _shape(band: _Band, scale: TimeScale) -> Element:
    x, end_x = scale.x(band.at), scale.x(band.end_at)
    looks = band.state if band.state in _SEVERITY else "unknown"
    # What needs no attention is a line, everything else a box: told apart without colours.
    margin_px = 7 if looks == "ready" else 1
    place = {"x": percent(x), "width": percent(end_x - x)}
    box = element("rect", **place, y=margin_px, height=lanes.HEIGHT_PX - 2 * margin_px, class_=f"band {looks}")
    name = element("text", band.state, x=5, y=13)
    has_room = end_x - x >= _LABEL_WIDTH and looks != "ready"
    return element(
        "g",
        element("title", f"{band.state} from {scale.clock(band.at)} to {scale.clock(band.end_at)}"),
        box,
        element("svg", name, **place, height=lanes.HEIGHT_PX, class_=f"band-name {looks}") if has_room else None,
    )
