"""What was found and what would have been done: losses with their evidence, planned actions, holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from poseidon_reconciler.core.blame import NodeLosses
from poseidon_reconciler.core.evidence import Evidence
from poseidon_reconciler.core.holds import Hold
from poseidon_reconciler.core.ledger import Action
from poseidon_reconciler.core.wording import counted
from poseidon_reconciler.markup.elements import Child, Element, element
from poseidon_reconciler.recording.report.tables import Column, table
from poseidon_reconciler.recording.report.timescale import TimeScale
from poseidon_reconciler.recording.story import Loss

MAX_LOSSES: Final = 500
_MAX_EVIDENCE: Final = 10
# Longer lists are folded, so that what follows can be found.
_MAX_UNFOLDED: Final = 20


class _Plan(NamedTuple):
    """Actions of one kind for one reason."""

    kind: str
    environment_id: str
    reason: str


def losses_list(losses: Sequence[Loss], scale: TimeScale) -> Element | None:
    """Every job that was found lost, with what it was judged on at that time."""

    def row(loss: Loss) -> list[Child]:
        own = "the job of environment" if loss.kind == "environment" else "runner of environment"
        return [
            element("div", element("code", loss.job_id), element("small", f"{own} {loss.environment_id}")),
            scale.time(loss.at),
            element("strong", loss.cause),
            loss.rule,
            loss.node or "none",
            _evidence_list(loss.evidence),
        ]

    columns = [Column(title) for title in ("lost job", scale.heading, "cause", "rule", "last on", "evidence")]
    caption = f"{counted(len(losses), 'job')} found lost: {causes(losses)}"
    return _folded(len(losses), caption, table(caption, columns, losses, row, cards=True, most=MAX_LOSSES))


def blame_table(blame: Sequence[NodeLosses], scale: TimeScale) -> Element | None:
    """Which agents to look at: what was lost with each node, and what had happened to it."""

    def row(losses: NodeLosses) -> list[Child]:
        counts = ", ".join(f"{number} {cause}" for cause, number in sorted(losses.causes.items()))
        return [losses.node or "none", scale.time(losses.at), losses.what, losses.losses, counts]

    columns = [
        Column("node"),
        Column(scale.heading),
        Column("what happened to it"),
        Column("jobs lost", number=True),
        Column("causes"),
    ]
    return table("Losses by the node to which they are traced", columns, blame, row, cards=True)


def causes(losses: Iterable[Loss]) -> str:
    """How often each cause occurs, the most frequent first."""
    return ", ".join(f"{number} {cause}" for cause, number in Counter(loss.cause for loss in losses).most_common())


def _evidence_list(evidence: Sequence[Evidence]) -> Element:
    facts = [
        element("li", element("span", f"{fact.index} {fact.topic}/{fact.type}", class_="source"), " ", fact.text)
        for fact in evidence[:_MAX_EVIDENCE]
    ]
    if len(evidence) > _MAX_EVIDENCE:
        facts.append(element("li", f"and {len(evidence) - _MAX_EVIDENCE} more"))
    return element("ul", *facts) if facts else element("span", "none")


def plan_table(actions: Sequence[Action], scale: TimeScale) -> Element | None:
    """What was planned, the same thing for the same reason in one row."""
    times: dict[_Plan, list[float]] = {}
    for action in actions:
        times.setdefault(_Plan(action.kind, action.environment_id, action.reason), []).append(action.at)

    def row(plan: _Plan) -> list[Child]:
        first, last = times[plan][0], times[plan][-1]
        when = element("span", scale.time(first), *(() if first == last else (" to ", scale.time(last))))
        return [plan.kind, plan.environment_id, len(times[plan]), when, plan.reason]

    columns = [
        Column("action"),
        Column("environment"),
        Column("jobs", number=True),
        Column(scale.heading),
        Column("reason"),
    ]
    return table("What would have been done, and why", columns, list(times), row, cards=True)


def actions_list(actions: Sequence[Action], scale: TimeScale) -> Element | None:
    """Each planned action."""

    def row(action: Action) -> list[Child]:
        replaces = element("code", action.replaces) if action.replaces else "–"
        return [element("code", action.job_id), scale.time(action.at), action.kind, replaces, action.reason]

    columns = [Column(title) for title in ("job", scale.heading, "action", "replaces", "reason")]
    caption = f"Each of {counted(len(actions), 'planned action')}"
    return _folded(len(actions), caption, table(caption, columns, actions, row, cards=True))


def holds_table(holds: Sequence[Hold], scale: TimeScale) -> Element | None:
    """What was wanted at the end and not done."""

    def row(hold: Hold) -> list[Child]:
        until = scale.time(hold.until) if hold.until is not None else "something changes"
        return [hold.environment_id if hold.environment_id is not None else "all", hold.reason, until]

    columns = [Column(title) for title in ("environment", "reason", "until")]
    return table("Wanted, but held back", columns, holds, row, cards=True)


def _folded(number: int, caption: str, content: Element | None) -> Element | None:
    if content is None:
        return None
    return element("details", element("summary", caption), content, open="" if number <= _MAX_UNFOLDED else None)
