"""How each state looks and what it means, the same everywhere on the page.

A state has a colour that colour-blind people can tell from its neighbours, and a pattern for greyscale and paper.
Colours are in the style sheet, because they differ between the light and the dark scheme.
"""

from __future__ import annotations

from typing import Final

from poseidon_reconciler.markup.elements import Element, element

STACK: Final = ("idle", "starting", "recovering", "blocked", "disconnected", "leaving", "lost", "used")
"""From the bottom of a chart to its top: what counts towards the target first, so that its edge can be held against
the target line; then what is going or gone; used runners, which never count, last.
"""

MEANINGS: Final = {
    "idle": "ready to be claimed; counts towards the target",
    "starting": "first start under way; counts",
    "recovering": "Nomad will bring it back, or it is too early to tell; counts",
    "blocked": "waits for capacity; counts",
    "disconnected": "its node is out of reach, its fate open; counts if the policy says so",
    "leaving": "still running, but about to be stopped",
    "lost": "dead for good: Nomad will not bring it back",
    "used": "claimed; never counts",
}

_TILE: Final = 8
# Drawn over the colour; tiles of 8 by 8.
_PATTERNS: Final = {
    "idle": "",
    "starting": "M2 2h1.6v1.6h-1.6zM6 6h1.6v1.6h-1.6z",
    "recovering": "M-1 1L1 -1L1.8 -.2L-.2 1.8zM0 7.2L7.2 0H8V.8L.8 8H0zM7.2 8.8L8.8 7.2L9.6 8L8 9.6z",
    "blocked": "M0 3H8V4.2H0z",
    "disconnected": "M0 0H1.1V8H0zM1.1 0H8V1.1H1.1z",
    "leaving": "M3 0H4.3V8H3z",
    "lost": "M0 0H2L8 6V8H6L0 2zM6 0H8V2zM0 6L2 8H0z",
    "used": "M3 3h2v2h-2z",
}


def patterns() -> list[Element]:
    """What the fillings of a page are made of; to be put into its definitions once."""
    return [_pattern(state, path) for state, path in _PATTERNS.items()]


def filling(state: str) -> str:
    """The value of `fill` for a state."""
    return f"url(#state-{state})"


def swatch(state: str) -> Element:
    """A sample of a state's filling, for a legend."""
    box = element("rect", width="100%", height="100%", fill=filling(state))
    return element("svg", box, class_="swatch", aria_hidden="true", width=18, height=14)


def _pattern(state: str, path: str) -> Element:
    return element(
        "pattern",
        element("rect", width=_TILE, height=_TILE, style=f"fill:var(--{state})"),
        element("path", d=path, style=f"fill:var(--{state}-ink)") if path else None,
        id=f"state-{state}",
        width=_TILE,
        height=_TILE,
        patternUnits="userSpaceOnUse",
    )
