"""A pool's numbers over time as a drawing: stacked steps against the target line.

The drawing has no width of its own: places are shares of whatever room there is, so that it can be read on a phone
and on a wall. Each filling is cut out by a path in shares of the drawing, because a stretched drawing would stretch
patterns and letters too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import nlargest
from itertools import accumulate, repeat
from operator import mul
from typing import Final, NamedTuple

from poseidon_reconciler.core.status import POOL_STATES
from poseidon_reconciler.markup.elements import Element, element
from poseidon_reconciler.recording.report.paths import Place, area, line, percent
from poseidon_reconciler.recording.report.states import STACK, filling
from poseidon_reconciler.recording.report.steps import Step
from poseidon_reconciler.recording.report.timescale import TimeScale

HEIGHT_PX: Final = 240
_MOST_RULES: Final = 5
_HEADROOM: Final = 1.12
_LABEL_WIDTH: Final = 0.1
_NARROW: Final = 0.003
_CROWDED: Final = 0.25
_LABEL_HEIGHT: Final = 17 / HEIGHT_PX
_ORDER: Final = tuple(POOL_STATES.index(state) for state in STACK)


class _Layer(NamedTuple):
    """A state that occurs, with its number and its upper edge in the stack at each step."""

    state: str
    numbers: tuple[int, ...]
    edges: tuple[int, ...]


class Chart:
    """The drawing of one pool.

    Attributes:
        rules: the numbers that have a line, each with its place from the top (0 to 1).
    """

    def __init__(self, steps: Sequence[Step], scale: TimeScale, columns: int, name: str) -> None:
        """`columns` is how many steps can be pointed at; `name` begins the ids that parts of the drawing refer to."""
        self._steps = steps
        self._scale = scale
        self._columns = columns
        self._name = name
        self._layers = _layers(steps)
        most = max((max(sum(step.sample.numbers), step.sample.target or 0) for step in steps), default=0)
        self._top = max(1, most) * _HEADROOM
        self.rules = [(number, self._y(number)) for number in range(0, int(self._top) + 1, _rule_step(self._top))]

    def draw(self, summary: str) -> Element:
        """The drawing; `summary` says in words what it shows."""
        return element(
            "svg",
            element("title", "Runners by state over time, stacked, against the target", id=f"{self._name}-title"),
            element("desc", summary, id=f"{self._name}-summary"),
            *(element("line", x2="100%", y1=percent(y), y2=percent(y), class_="rule") for _, y in self.rules),
            *self._fillings(),
            self._lines(),
            *self._names(),
            *self._moments(),
            class_="chart",
            role="img",
            aria_labelledby=f"{self._name}-title {self._name}-summary",
            width="100%",
            height=HEIGHT_PX,
        )

    def _y(self, number: float) -> float:
        return min(1.0, max(0.0, 1 - number / self._top))

    def _fillings(self) -> Iterator[Element]:
        """Each state from its upper edge down to the bottom, the highest first: so no gap is left between two."""
        for layer in reversed(self._layers):
            edge = f"{self._name}-{layer.state}"
            places = (Place(*step[:2], self._y(top)) for step, top in zip(self._steps, layer.edges, strict=True))
            yield element(
                "clipPath",
                element("path", id=edge, d=area(places), vector_effect="non-scaling-stroke"),
                id=f"{edge}-area",
                clipPathUnits="objectBoundingBox",
            )
            yield element(
                "rect", width="100%", height="100%", fill=filling(layer.state), clip_path=f"url(#{edge}-area)"
            )

    def _lines(self) -> Element:
        """The edges between states, and the target."""
        targets = line(
            Place(step.x, step.end_x, None if step.sample.target is None else self._y(step.sample.target))
            for step in self._steps
        )
        # Where one change follows another, lines between states would hide the states.
        crowded = sum(width for width in map(_width, self._steps) if width < _NARROW) > _CROWDED
        edges = [] if crowded else [f"#{self._name}-{layer.state}" for layer in self._layers]
        return element(
            "svg",
            *(element("use", href=edge, class_="edge") for edge in edges),
            *(element("path", d=targets, class_=class_) for class_ in ("halo", "target") if targets),
            viewBox="0 0 1 1",
            preserveAspectRatio="none",
            width="100%",
            height="100%",
        )

    def _names(self) -> Iterator[Element]:
        """The names of states in the drawing itself, where there is room, and that of the target."""
        for layer in self._layers:
            places = [
                (_width(step), (step.x + step.end_x) / 2, self._y(top - number / 2), number)
                for step, number, top in zip(self._steps, layer.numbers, layer.edges, strict=True)
                if number / self._top >= _LABEL_HEIGHT
            ]
            width, x, y, number = max(places, default=(0.0, 0.0, 0.0, 0))
            if width >= _LABEL_WIDTH:
                yield element("text", f"{number} {layer.state}", x=percent(x), y=percent(y), class_="name")
        if self._steps and (target := self._steps[-1].sample.target) is not None:
            place = percent(self._y(target))
            yield element("text", f"target {target}", x="100%", y=place, dx=-4, dy=-5, class_="target-name")

    def _moments(self) -> Iterator[Element]:
        """The numbers under the pointer, for the widest steps: the others can hardly be pointed at."""
        for step in nlargest(self._columns, self._steps, key=_width):
            if _width(step) >= _NARROW:
                title = element("title", f"from {self._scale.clock(step.sample.at)}: {in_words(step)}")
                x, width = percent(step.x), percent(_width(step))
                yield element("rect", title, x=x, width=width, height="100%", class_="moment")


def in_words(step: Step) -> str:
    """The numbers of a step, those that are zero left out."""
    numbers = dict(zip(POOL_STATES, step.sample.numbers, strict=True))
    parts = [f"{numbers[state]} {state}" for state in STACK if numbers[state]] or ["no runners"]
    target = step.sample.target
    return ", ".join(parts) + ("; no target known" if target is None else f"; target {target}")


def _width(step: Step) -> float:
    return step.end_x - step.x


def _layers(steps: Sequence[Step]) -> list[_Layer]:
    """The states that occur at all, from the bottom of the stack to its top."""
    if not steps:
        return []
    stacks = [[step.sample.numbers[place] for place in _ORDER] for step in steps]
    numbers = zip(*stacks, strict=True)
    edges = zip(*(accumulate(stack) for stack in stacks), strict=True)
    return [_Layer(*layer) for layer in zip(STACK, numbers, edges, strict=True) if any(layer[1])]


def _rule_step(top: float) -> int:
    """The smallest round step that makes no more than a few lines."""
    rounds = (digit * power for power in accumulate(repeat(10), mul, initial=1) for digit in (1, 2, 5))
    return next(step for step in rounds if top / step <= _MOST_RULES)
