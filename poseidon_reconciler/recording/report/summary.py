"""What a person on call must know first: what was replayed, which pools are short, what was lost, what is planned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from poseidon_reconciler.core.status import EnvironmentRow
from poseidon_reconciler.core.wording import counted
from poseidon_reconciler.markup.elements import Child, Element, element
from poseidon_reconciler.policy import format_duration
from poseidon_reconciler.recording.report.findings import causes
from poseidon_reconciler.recording.report.pools import standing
from poseidon_reconciler.recording.report.timescale import TimeScale, date_and_time
from poseidon_reconciler.recording.story import Story

_MAX_NAMED: Final = 8
_COMING: Final = ("starting", "recovering", "blocked", "disconnected")
# What somebody wanted, or what is no more, is no trouble.
_AT_REST: Final = frozenset({"stopped", "gone"})


def summary_header(story: Story, names: Sequence[str], scale: TimeScale) -> Element:
    """The head of the page."""
    found = {id_: ", ".join(_troubles(row)) for id_, row in story.environments.items()}
    troubles = {id_: trouble for id_, trouble in found.items() if trouble}
    return element(
        "header",
        element("h1", "Replay of ", *_files(names)),
        element("p", _span(story, scale)),
        element(
            "div",
            element("p", _verdict(len(troubles), len(found))),
            element("ul", *_named(troubles)) if troubles else None,
            class_="verdict troubled" if troubles else "verdict",
        ),
        element("dl", *_facts(story)),
    )


def _troubles(row: EnvironmentRow) -> Iterator[str]:
    """What is not as it should be with an environment at the end."""
    if row.state in _AT_REST:
        return
    if row.target is None:
        yield "target unknown"
    elif row.idle < row.target:
        coming = [f"{getattr(row, state)} {state}" for state in _COMING if getattr(row, state)]
        yield f"{row.idle} of {row.target} idle" + (f" ({', '.join(coming)})" if coming else "")
    if row.lost:
        yield f"{row.lost} lost"
    if row.state != "active":
        yield f"its own job is {standing(row)}"


def _verdict(troubled: int, environments: int) -> str:
    if not environments:
        return "No environment was seen."
    if not troubled:
        return "At the end no environment needs attention."
    needs = "needs" if troubled == 1 else "need"
    return f"At the end {troubled} of {counted(environments, 'environment')} {needs} attention:"


def _named(troubles: dict[str, str]) -> Iterator[Element]:
    for environment_id, trouble in list(troubles.items())[:_MAX_NAMED]:
        yield element("li", element("strong", f"Environment {environment_id}"), f": {trouble}")
    if len(troubles) > _MAX_NAMED:
        yield element("li", f"and {len(troubles) - _MAX_NAMED} more, see the table of pools")


def _files(names: Sequence[str]) -> Iterator[Child]:
    for place, name in enumerate(names[:_MAX_NAMED]):
        yield ", " if place else None
        yield element("code", name)
    if len(names) > _MAX_NAMED:
        yield f" and {counted(len(names) - _MAX_NAMED, 'more file')}"


def _span(story: Story, scale: TimeScale) -> str:
    if story.started_at is None or story.ended_at is None:
        return "No line of the recording tells a time: times count from its beginning."
    length = format_duration(round(story.ended_at - story.started_at, 1))
    text = f"{date_and_time(story.started_at)} to {_end(story.started_at, story.ended_at)} UTC ({length})"
    if scale.last > story.ended_at:
        text += f", then time alone until {_end(story.started_at, scale.last)}"
    return text + ". A replay changes nothing: what was planned was not done."


def _end(start: float, end: float) -> str:
    """The end of a span, its date left out where it is that of the start."""
    date, written = date_and_time(start)[:10], date_and_time(end)
    return written[11:] if written.startswith(date) else written


def _facts(story: Story) -> Iterator[Element]:
    planned = Counter(action.kind for action in story.actions)
    at_risk = sum(job.at_risk for job in story.jobs.values())
    yield from _fact(
        "Found lost", f"{counted(len(story.losses), 'job')}: {causes(story.losses)}" if story.losses else "nothing"
    )
    yield from _fact("Planned", ", ".join(f"{n} {kind}" for kind, n in planned.most_common()) or "nothing")
    if story.holds:
        yield from _fact("Held back", "; ".join(dict.fromkeys(hold.reason for hold in story.holds)))
    if at_risk:
        yield from _fact("At risk", f"{counted(at_risk, 'job')}: the next evaluation can end them although they live")
    if surplus := sum(row.surplus for row in story.environments.values()):
        yield from _fact("Surplus", f"{counted(surplus, 'runner')} above the targets")
    malformed = f"{counted(story.malformed, 'line')} or events could not be read" if story.malformed else "none"
    yield from _fact("Malformed", malformed, alarming=bool(story.malformed))
    yield from _fact("Recorded", ", ".join(_recorded(story)))


def _fact(term: str, text: str, *, alarming: bool = False) -> Iterator[Element]:
    yield element("dt", term)
    yield element("dd", element("strong", text) if alarming else text)


def _recorded(story: Story) -> Iterator[str]:
    for number, noun in (
        (story.frames, "frame"),
        (story.events, "event"),
        (story.heartbeats, "heartbeat"),
        (story.snapshots, "snapshot"),
    ):
        yield counted(number, noun)
    if story.last_index is not None:
        yield f"last index {story.last_index}"
