"""The shadow score for people: a table at the end of a dry run, and a line in between whenever it has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final

from poseidon_reconciler.controller import Observer
from poseidon_reconciler.core.shadow import Shadow, ShadowScore
from poseidon_reconciler.policy import format_duration

NOTE_INTERVAL_S: Final = 600.0
_HEADINGS: Final = ("action", "would", "by others", "after", "by Nomad", "too late", "not needed", "open")


def table(scores: list[ShadowScore]) -> str:
    """The score as lines of text that end in a newline."""
    if not scores:
        return "Dry run: there was nothing to do.\n"
    rows = [_HEADINGS, *map(_row, scores)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["Dry run: what would have been done, and what became of it without us"]
    for name, *numbers in rows:
        cells = [number.rjust(width) for number, width in zip(numbers, widths[1:], strict=True)]
        lines.append("  ".join([name.ljust(widths[0]), *cells]))
    return "\n".join(lines) + "\n"


def note(scores: list[ShadowScore]) -> str:
    """The score in one line."""
    return "; ".join(f"{score.kind} {score.would}: {', '.join(_parts(score))}" for score in scores)


def telling(shadow: Shadow, observer: Observer) -> Callable[[], Coroutine[Any, Any, None]]:
    """A companion that tells the score from time to time, if it is another one."""

    async def tell() -> None:
        told = ""
        while True:
            await asyncio.sleep(NOTE_INTERVAL_S)
            text = note(shadow.scores())
            if text != told:
                told = text
                observer.noted("shadow", text)

    return tell


def _row(score: ShadowScore) -> tuple[str, ...]:
    after = _duration(score.after_s) if score.after_s is not None else "-"
    numbers = (score.by_nomad, score.too_late, score.obsolete, score.open)
    return (score.kind, str(score.would), str(score.by_others), after, *map(str, numbers))


def _parts(score: ShadowScore) -> Iterator[str]:
    if score.by_others:
        yield f"{score.by_others} done by others after {_duration(score.after_s or 0.0)}"
    for number, words in (
        (score.by_nomad, "came about by Nomad"),
        (score.too_late, "too late"),
        (score.obsolete, "not needed any more"),
        (score.open, "open"),
    ):
        if number:
            yield f"{number} {words}"


def _duration(duration_s: float) -> str:
    return format_duration(round(duration_s, 1))
