"""The pools' numbers: those of all at the end, and those of one over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from poseidon_reconciler.core.status import POOL_STATES, EnvironmentRow
from poseidon_reconciler.markup.elements import Child, Element, element
from poseidon_reconciler.recording.report.states import MEANINGS, STACK, swatch
from poseidon_reconciler.recording.report.tables import Column, table
from poseidon_reconciler.recording.report.timescale import TimeScale
from poseidon_reconciler.recording.story import Sample, Story


class _Numbers(NamedTuple):
    """What a pool had of a state: at the end, and when there was most of it."""

    state: str
    at_the_end: int
    most: int
    most_at: float


def pools_table(story: Story, anchors: dict[str, str]) -> Element | None:
    """How each environment stands at the end; `anchors` are the ids of their sections. None if there is none."""
    at_risk = Counter(job.environment_id for job in story.jobs.values() if job.at_risk)

    def row(item: tuple[str, EnvironmentRow]) -> list[Child]:
        environment_id, numbers = item
        anchor = anchors.get(environment_id)
        return [
            element("a", environment_id, href=f"#{anchor}") if anchor else environment_id,
            standing(numbers),
            numbers.target if numbers.target is not None else "unknown",
            *(getattr(numbers, state) for state in STACK),
            numbers.deficit,
            numbers.surplus,
            at_risk[environment_id],
        ]

    names = ("target", *STACK, "deficit", "surplus", "at risk")
    columns = [Column("environment"), Column("state"), *(Column(name, number=True) for name in names)]
    return table("Pools at the end", columns, list(story.environments.items()), row)


def standing(row: EnvironmentRow) -> str:
    """An environment's state, with the cause of a loss."""
    return row.state + (f", {row.cause}" if row.cause else "")


def numbers_table(environment_id: str, samples: Sequence[Sample], scale: TimeScale) -> Element | None:
    """The states that a pool's runners had, beside the fillings that its chart shows them by; None if it had none."""

    def cells(numbers: _Numbers) -> list[Child]:
        meaning = element("small", MEANINGS[numbers.state])
        return [
            element("span", swatch(numbers.state), numbers.state, " ", meaning),
            numbers.at_the_end,
            numbers.most,
            scale.time(numbers.most_at),
        ]

    columns = [
        Column("state"),
        Column("at the end", number=True),
        Column("most at once", number=True),
        Column("first at"),
    ]
    return table(f"Runners of environment {environment_id} by state", columns, _numbers(samples), cells)


def _numbers(samples: Sequence[Sample]) -> list[_Numbers]:
    found = []
    for state in STACK:
        place = POOL_STATES.index(state)
        counts = [sample.numbers[place] for sample in samples]
        if most := max(counts, default=0):
            found.append(_Numbers(state, counts[-1], most, samples[counts.index(most)].at))
    return found
