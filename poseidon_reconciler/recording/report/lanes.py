"""The rows below a chart, on the same time axis."""

from __future__ import annotations

from typing import Final, NamedTuple

from poseidon_reconciler.markup.elements import Element, element

HEIGHT_PX: Final = 18
_MAX_MOMENTS: Final = 12


class Lane(NamedTuple):
    """A row below a chart."""

    name: str
    drawing: Element


def drawing(*shapes: Element, label: str | None = None, labelled_by: str | None = None) -> Element:
    """What a lane shows; its words are `label`, or those of the element with the id `labelled_by`."""
    return element(
        "svg",
        *shapes,
        class_="lane",
        role="img",
        aria_label=label,
        aria_labelledby=labelled_by,
        width="100%",
        height=HEIGHT_PX,
    )


def listed(moments: list[str]) -> str:
    """The first moments of a lane in words, and how many more there are."""
    more = len(moments) - _MAX_MOMENTS
    return ", ".join(moments[:_MAX_MOMENTS]) + (f", and {more} more" if more > 0 else "")
