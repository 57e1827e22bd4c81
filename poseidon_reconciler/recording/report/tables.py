"""Rows that can be read on a wall, on a phone and aloud, and that are never more than a reader can bear."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from poseidon_reconciler.markup.elements import Child, Element, element

MAX_ROWS: Final = 200

Item = TypeVar("Item")


class Column(NamedTuple):
    """A column's heading; numbers stand at its right edge."""

    title: str
    number: bool = False


def table(
    caption: str,
    columns: Sequence[Column],
    items: Sequence[Item],
    row: Callable[[Item], Sequence[Child]],
    *,
    cards: bool = False,
    most: int = MAX_ROWS,
) -> Element | None:
    """A row for each of the first `most` items, and how many more there are; None if there are none.

    The first cell names its row. A narrow screen shows the rows of a table with `cards` as blocks, and any other table
    as wide as it is, to be moved.
    """
    if not items:
        return None
    body = [
        element("tr", *map(_cell, columns, row(item), range(len(columns))), role="row") for item in islice(items, most)
    ]
    if len(items) > most:
        more = element("td", f"and {len(items) - most} more, not shown here", colspan=len(columns), role="cell")
        body.append(element("tr", more, role="row", class_="more"))
    made = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *map(_heading, columns), role="row"), role="rowgroup"),
        element("tbody", *body, role="rowgroup"),
        # Said although they go without saying: some browsers forget them when a style makes blocks of rows and cells.
        role="table",
        class_="cards" if cards else None,
    )
    return made if cards else element("div", made, class_="wide", role="region", aria_label=caption, tabindex=0)


def _heading(column: Column) -> Element:
    return element("th", column.title, scope="col", role="columnheader", class_=_looks(column))


def _cell(column: Column, content: Child, place: int) -> Element:
    if place == 0:
        return element("th", content, scope="row", role="rowheader", class_=_looks(column))
    return element("td", content, role="cell", class_=_looks(column), data_title=column.title)


def _looks(column: Column) -> str | None:
    return "number" if column.number else None
