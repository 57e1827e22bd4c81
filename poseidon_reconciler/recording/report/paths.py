"""Step-wise values → paths in a square of side 1, its origin at the upper left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple


class Place(NamedTuple):
    """A value `y` from `x` to `end_x`; None where there is none."""

    x: float
    end_x: float
    y: float | None


def line(places: Iterable[Place]) -> str:
    """A step line with a gap wherever there is no value."""
    path, pen_x = "", None
    for x, end_x, y in _runs(places):
        if y is None:
            continue
        start = f"V{share(y)}" if pen_x == x else f"M{share(x)} {share(y)}"
        path += f"{start}H{share(end_x)}"
        pen_x = end_x
    return path


def area(places: Iterable[Place]) -> str:
    """What lies below a step line, down to the bottom; places adjoin each other."""
    path = ""
    for x, end_x, y in _runs(places):
        path += ("" if path else f"M{share(x)} 1") + f"V{share(1.0 if y is None else y)}H{share(end_x)}"
    return path and path + "V1Z"


def share(number: float) -> str:
    """A number from 0 to 1, as short as four digits can be."""
    return f"{number:.4f}".rstrip("0").rstrip(".").removeprefix("0") or "0"


def percent(number: float) -> str:
    """A share as a length in an attribute or a style."""
    return f"{100 * number:.2f}".rstrip("0").rstrip(".") + "%"


def _runs(places: Iterable[Place]) -> Iterator[Place]:
    """Neighbours of the same value as one."""
    for y, group in groupby(places, key=lambda place: place.y):
        run = list(group)
        yield Place(run[0].x, run[-1].end_x, y)
