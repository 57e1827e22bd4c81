"""Other people's text (job ids, node names, messages of servers) where it could steer a terminal or break a line."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with everything that is not printable shown as an escape."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
