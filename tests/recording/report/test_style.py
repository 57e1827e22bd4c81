"""The style sheet: whatever is written in one of its colours can be read, in both schemes."""

from __future__ import annotations

import re

import pytest

from poseidon_reconciler.markup.look import look
from poseidon_reconciler.recording.report.states import STACK

SCHEMES = [
    dict(re.findall(r"--([\w-]+):\s*(#\w{6})", block)) for block in re.findall(r":root \{(.*?)\}", look(), re.DOTALL)
]


def luminance(colour: str) -> float:
    """The relative luminance of WCAG 2."""
    channels = [value / 255 for value in bytes.fromhex(colour[1:])]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted([luminance(one), luminance(other)])
    return (lighter + 0.05) / (darker + 0.05)


def test_there_is_a_light_and_a_dark_scheme_of_the_same_colours() -> None:
    light, dark = SCHEMES
    assert light.keys() == dark.keys()
    assert luminance(light["page"]) > 0.9
    assert luminance(dark["page"]) < 0.05


@pytest.mark.parametrize("colours", SCHEMES, ids=["light", "dark"])
def test_text_can_be_read(colours: dict[str, str]) -> None:
    for text in ("ink", "muted", "accent", "bad", "good"):
        for ground in ("page", "raised", "after"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)


@pytest.mark.parametrize("colours", SCHEMES, ids=["light", "dark"])
def test_states_and_their_patterns_can_be_seen(colours: dict[str, str]) -> None:
    for state in STACK:
        fill, pattern = colours[state], colours[f"{state}-ink"]
        assert max(contrast(fill, colours["page"]), contrast(pattern, colours["page"])) >= 3, state
        assert fill == pattern or contrast(fill, pattern) >= 2.9, state
