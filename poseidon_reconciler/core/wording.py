"""Numbers and verdicts in sentences, the same wherever they are told."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """`1 runner`, `2 runners`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def standing(state: str, cause: str | None, rule: str) -> str:
    """`lost, exhausted (attempts-used-up)`; the rule is left out where it is named like the cause."""
    return state + (f", {cause}" if cause else "") + (f" ({rule})" if rule != cause else "")
