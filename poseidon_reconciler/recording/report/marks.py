"""When which kind of action was planned: a lane for each kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from poseidon_reconciler.core.ledger import Action
from poseidon_reconciler.markup.elements import Element, element
from poseidon_reconciler.recording.report import lanes
from poseidon_reconciler.recording.report.paths import percent
from poseidon_reconciler.recording.report.timescale import TimeScale

# A mark with its count needs this much room before the next one of its kind.
_ROOM: Final = 0.09


class _Mark(NamedTuple):
    """Actions of one kind that are shown as one."""

    first_at: float
    last_at: float
    number: int


def action_lanes(actions: Iterable[Action], scale: TimeScale) -> list[lanes.Lane]:
    """A lane for each kind of action that was planned, in the order in which they came up."""
    times: dict[str, list[float]] = {}
    for action in actions:
        times.setdefault(action.kind, []).append(action.at)
    return [lanes.Lane(kind, _drawing(kind, list(_marks(at, scale)), scale)) for kind, at in times.items()]


def _marks(times: list[float], scale: TimeScale) -> Iterator[_Mark]:
    """Actions so close together that their marks would touch become one mark."""
    first = 0
    for place in range(1, len(times)):
        if scale.x(times[place]) - scale.x(times[place - 1]) >= _ROOM:
            yield _Mark(times[first], times[place - 1], place - first)
            first = place
    yield _Mark(times[first], times[-1], len(times) - first)


def _drawing(kind: str, marks: list[_Mark], scale: TimeScale) -> Element:
    moments = [_in_words(mark, scale) for mark in marks]
    shapes = [_shape(mark, moment, scale) for mark, moment in zip(marks, moments, strict=True)]
    return lanes.drawing(*shapes, label=f"{kind} planned: {lanes.listed(moments)}")


def _in_words(mark: _Mark, scale: TimeScale) -> str:
    first, last = scale.clock(mark.first_at), scale.clock(mark.last_at)
    return f"{mark.number} at {first}" if first == last else f"{mark.number} from {first} to {last}"


def _shape(mark: _Mark, moment: str, scale: TimeScale) -> Element:
    x, end_x = scale.x(mark.first_at), scale.x(mark.last_at)
    diamond = element("path", d="M0 3L6 9L0 15L-6 9z", class_="mark")
    return element(
        "g",
        element("title", moment),
        element("rect", x=percent(x), y=7, width=percent(end_x - x), height=4, class_="mark"),
        element("svg", diamond, x=percent(x), class_="free"),
        element("text", f"×{mark.number}", x=percent(end_x), y=13, dx=9) if mark.number > 1 else None,
    )
