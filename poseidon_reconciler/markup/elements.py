"""Elements of a page, made so that no text of others can become markup.

A page is a tree until it is written, and the writer escapes every text and every attribute. Job ids, node names and
Nomad's messages are also shown without control characters and cut to a length that a reader can bear.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Final

from poseidon_reconciler.core.printable import printable

MAX_TEXT_CHARS: Final = 400
# A label for a screen reader is a list of moments, a chart's path one of coordinates.
_MAX_ATTRIBUTE_CHARS: Final = 2_000
_UNCUT_ATTRIBUTES: Final = frozenset({"d"})

Element = ET.Element
Child = Element | str | int | None


def element(tag: str, /, *children: Child, **attributes: str | float | None) -> Element:
    """An element with its children in order; what is None is left out.

    Attributes are written as Python allows: `class_` stands for `class`, `aria_label` for `aria-label`.
    """
    made = ET.Element(tag)
    for name, value in attributes.items():
        if value is not None:
            name_written = name.rstrip("_").replace("_", "-")
            made.set(name_written, _attribute(name_written, value))
    append(made, *children)
    return made


def append(parent: Element, *children: Child) -> None:
    """Adds children to an element."""
    for child in children:
        if isinstance(child, ET.Element):
            parent.append(child)
        elif child is not None:
            _append_text(parent, readable(str(child)))


def readable(text: str) -> str:
    """The text with everything that is not printable shown as an escape, and its end left out if it is too long."""
    shown = printable(text[: MAX_TEXT_CHARS + 1])
    return shown if len(shown) <= MAX_TEXT_CHARS else shown[: MAX_TEXT_CHARS - 1] + "…"


def style(css: str) -> Element:
    """A style sheet of our own: the one text that is written as it is."""
    made = ET.Element("style")
    made.text = css
    return made


def to_html(root: Element) -> str:
    """The whole document."""
    return "<!doctype html>\n" + ET.tostring(root, encoding="unicode", method="html") + "\n"


def _attribute(name: str, value: str | float) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    shown = printable(str(value))
    return shown if name in _UNCUT_ATTRIBUTES else shown[:_MAX_ATTRIBUTE_CHARS]


def _append_text(parent: Element, text: str) -> None:
    if len(parent):
        last = parent[-1]
        last.tail = (last.tail or "") + text
    else:
        parent.text = (parent.text or "") + text
