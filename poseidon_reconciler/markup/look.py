"""The look that all our pages share: colours of both schemes, text, tables that become cards on a phone."""

from __future__ import annotations

from importlib.resources import files


def look() -> str:
    """The style sheet, to stand before a page's own."""
    return files(__package__).joinpath("look.css").read_text(encoding="utf-8")
