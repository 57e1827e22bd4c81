"""The page that explains a verdict: the same as `explain` prints, for who has a browser at hand."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from poseidon_reconciler.core.blame import NodeLosses
from poseidon_reconciler.core.decisions import Decision
from poseidon_reconciler.core.documents import iso
from poseidon_reconciler.core.explanation import (
    EnvironmentExplanation,
    Explanation,
    JobExplanation,
    OrderExplanation,
)
from poseidon_reconciler.core.holds import Hold
from poseidon_reconciler.core.wording import standing
from poseidon_reconciler.markup.elements import Child, Element, element
from poseidon_reconciler.policy import format_duration


def explanation_parts(explanation: Explanation, now: float) -> list[Element]:
    """The explanation, as of now."""
    if isinstance(explanation, JobExplanation):
        return list(_job(explanation, now, "h1"))
    if isinstance(explanation, OrderExplanation):
        return list(_order(explanation))
    return list(_environment(explanation, now))


def unknown_parts(why: str, near: list[str]) -> list[Element]:
    """That nothing is known, and what may have been meant."""
    parts = [element("h1", "Not known"), element("p", why)]
    if near:
        links = (element("li", element("a", element("code", id_), href=quote(id_, safe=""))) for id_ in near)
        parts += [element("p", "Did you mean"), element("ul", *links)]
    return parts


def _job(explanation: JobExplanation, now: float, heading: str) -> Iterator[Element]:
    verdict = explanation.verdict
    yield element(heading, element("code", explanation.job_id))
    cause = f", {verdict.cause}" if verdict.cause else ""
    own = "The environment’s own job" if explanation.kind == "environment" else "Runner"
    yield element(
        "p",
        f"{own} of environment ",
        element("a", explanation.environment_id, href=explanation.environment_id),
        " is ",
        element("strong", verdict.state + cause),
        f" since {_moment(verdict.since)}.",
    )
    yield element("p", f"Rule {verdict.rule}: {'; '.join(explanation.conditions) or 'no other rule matches'}.")
    if verdict.at_risk:
        yield element("p", element("strong", "At risk:"), " its next evaluation can end the job although it lives.")
    if verdict.due_at is not None:
        wait = format_duration(max(0, round(verdict.due_at - now)))
        coming = f"{explanation.next_state} ({explanation.next_rule}) at {_moment(verdict.due_at)}, in {wait}"
        yield element("p", f"Next, if nothing else happens: {coming}.")
    else:
        yield element("p", "Next: the verdict does not change by time alone.")
    yield from _place(explanation)
    yield from _decisions(explanation.job_id, explanation.decisions)
    yield from _holds(explanation.holds)
    evidence = ((item.index, f"{item.topic}/{item.type}", item.text) for item in explanation.evidence)
    yield from _table("Evidence, in order", ("index", "event", "what it says"), evidence)
    unmatched = ((rule.rule, rule.state, rule.needs) for rule in explanation.unmatched)
    yield from _table("Rules above it that did not match", ("rule", "state", "would have needed"), unmatched)


def _place(explanation: JobExplanation) -> Iterator[Element]:
    """Where the job is, which node its loss is traced to, and which jobs it replaces or is replaced by."""
    if explanation.node is not None:
        where = "Last on" if explanation.verdict.state in ("lost", "gone") else "On"
        yield element("p", f"{where} {explanation.node}.")
    if explanation.blame is not None:
        yield element("p", f"Its loss is traced to {_blame(explanation.blame)}.")
    if explanation.replaces is not None:
        yield element("p", "It replaces ", _link(explanation.replaces), ".")
    if explanation.replaced_by is not None:
        yield element("p", "Replaced by ", _link(explanation.replaced_by), ".")


def _order(explanation: OrderExplanation) -> Iterator[Element]:
    """A runner that was decided on and is not known."""
    yield element("h1", element("code", explanation.job_id))
    environment = element("a", explanation.environment_id, href=explanation.environment_id)
    yield element("p", "It was decided on for environment ", environment, "; no such job is known.")
    if explanation.replaces is not None:
        yield element("p", "It is to replace ", _link(explanation.replaces), ".")
    yield from _decisions(explanation.job_id, explanation.decisions)
    yield from _holds(explanation.holds)


def _decisions(job_id: str, decisions: list[Decision]) -> Iterator[Element]:
    rows = ((each.what(job_id), _moment(each.at), each.reason, each.became("under way")) for each in decisions)
    yield from _table("Decided about it", ("action", "at", "reason", "outcome"), rows)


def _holds(holds: list[Hold]) -> Iterator[Element]:
    for hold in holds:
        since = f" since {_moment(hold.since)}" if hold.since is not None else ""
        until = f", until {_moment(hold.until)}" if hold.until is not None else ""
        yield element("p", f"Held back{since}: {hold.reason}{until}. Rule {hold.rule}; ends when {hold.ends}.")


def _link(job_id: str) -> Element:
    return element("a", element("code", job_id), href=quote(job_id, safe=""))


def _environment(explanation: EnvironmentExplanation, now: float) -> Iterator[Element]:
    yield element("h1", f"Environment {explanation.environment_id}")
    told = standing(explanation.state, explanation.cause, explanation.rule)
    strong, _, rule = told.partition(" (")
    yield element("p", "It is ", element("strong", strong), f" ({rule}." if rule else ".")
    runners = ", ".join(f"{number} {state}" for state, number in explanation.states.items()) or "none"
    target = "unknown" if explanation.target is None else explanation.target
    yield element("p", f"Runners: {runners}; target {target}, deficit {explanation.deficit}.")
    if explanation.expected:
        yield element("p", f"{explanation.expected} more asked for and not seen yet.")
    if explanation.surplus:
        yield element("p", f"{explanation.surplus} more than the target: {explanation.surplus_story}.")
    if explanation.causes:
        causes = ", ".join(f"{number} {cause}" for cause, number in sorted(explanation.causes.items()))
        yield element("p", f"Lost: {causes}.")
    yield from _holds(explanation.holds)
    blame = ((row.node or "no node", _moment(row.at), row.what, row.losses, _causes(row)) for row in explanation.blame)
    yield from _table(
        "Losses by the node to which they are traced",
        ("node", "at", "what had happened to it", "lost", "causes"),
        blame,
    )
    if explanation.template is not None:
        yield from _job(explanation.template, now, "h2")


def _blame(row: NodeLosses) -> str:
    """In one line."""
    return f"{row.node or 'no node'}: {_moment(row.at)} {row.what}; {row.losses} lost, {_causes(row)}"


def _causes(row: NodeLosses) -> str:
    return ", ".join(f"{number} {cause}" for cause, number in sorted(row.causes.items()))


def _table(title: str, columns: tuple[str, ...], rows: Iterator[tuple[Child, ...]]) -> Iterator[Element]:
    body = [
        element(
            "tr",
            element("th", first, scope="row"),
            *(element("td", cell, data_title=name) for name, cell in zip(columns[1:], rest, strict=True)),
        )
        for first, *rest in rows
    ]
    if body:
        head = element("tr", *(element("th", name, scope="col") for name in columns))
        yield element("h2", title)
        yield element(
            "table",
            element("caption", title),
            element("thead", head),
            element("tbody", *body),
            class_="cards",
        )


def _moment(at: float) -> str:
    return f"{(iso(at) or '')[:19].replace('T', ' ')} UTC"
