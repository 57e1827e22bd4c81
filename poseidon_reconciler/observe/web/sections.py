"""What the status page shows, section by section: the columns of each table, and what stands for an empty one.

What has nothing to say is one quiet line, or is not there: whoever is called at night reads from the top, on a phone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from poseidon_reconciler.markup.elements import Child, Element, element
from poseidon_reconciler.observe.web.cells import Column, clock, table

Rows = list[dict[str, Any]]

_POOLS: Final = [
    Column("environment", "environment_id", "environment"),
    Column("state", "state", "state"),
    Column("last hours", "chart", "chart"),
    Column("target", "target", "number", "idle runners wanted"),
    Column("idle", "idle", "number", "ready to be handed out"),
    Column("on their way", "on_their_way", "some", "count towards the target, and are not idle yet"),
    Column("deficit", "deficit", "number", "what the target lacks beyond what is idle or on its way"),
    Column("surplus", "surplus", "number", "more than the target"),
    Column("used", "used", "number", "handed out and alive; never count"),
    Column("lost", "lost", "number", "dead for good, and not removed yet"),
    Column("not counting", "not_counting", "some", "used ones that wait, and what the disconnect policy leaves out"),
    Column("at risk", "at_risk", "number", "jobs that Nomad's next evaluation can end"),
]
_POOLS_LEGEND: Final = (
    "Idle, on their way and deficit make up the target."
    " Used runners do not count, also where they are blocked or recover."
)
_NODES: Final = [
    Column("node", "name"),
    Column("status", "status", "node-status"),
    Column("since", "since", "time"),
    Column("runners", "runners", "counts"),
]
_LOSSES: Final = [
    Column("job", "job_id", "job"),
    Column("at", "at", "time"),
    Column("cause", "cause"),
    Column("last on", "node"),
    Column("evidence", "evidence"),
    Column("by now", "state"),
]
_HOLDS: Final = [
    Column("environment", "environment_id", "environment"),
    Column("rule", "rule"),
    Column("reason", "reason"),
    Column("since", "since", "time"),
    Column("until", "until", "until"),
    Column("ends when", "ends"),
]
_PAUSES: Final = [
    Column("environment", "environment_id", "environment"),
    Column("reason", "reason"),
    Column("until", "until", "until"),
    Column("by", "by"),
]
_BLAME: Final = [
    Column("losses traced to", "node", "node"),
    Column("at", "at", "time"),
    Column("what had happened to it", "what"),
    Column("lost", "losses", "number"),
    Column("causes", "causes", "counts"),
]
_SURPLUS: Final = [
    Column("environment", "environment_id", "environment"),
    Column("surplus", "surplus", "number"),
    Column("how it came about", "story"),
]
_POSEIDON: Final = [
    Column("environment", "environment_id", "environment"),
    *(Column(name, name, "number") for name in ("target", "idle")),
    Column("idle, it says", "believed_idle", "number"),
    Column("used", "used", "number"),
    Column("used, it says", "believed_used", "number"),
    Column("difference", "drift", "drift"),
    Column("since", "since", "time"),
    Column("our new runners", "waiting adopted not_adopted", "others"),
]
_SHADOW: Final = [
    Column("action", "kind"),
    Column("would have been done", "would", "number"),
    Column("done by others", "by_others", "number"),
    Column("after", "after_s", "duration"),
    Column("by Nomad", "by_nomad", "number"),
    Column("too late", "too_late", "number"),
    Column("not needed", "obsolete", "number"),
    Column("open", "open", "number"),
]
_ACTIONS: Final = [
    Column("job", "job_id", "job"),
    Column("at", "at", "time"),
    Column("action", "kind"),
    Column("reason", "reason"),
    Column("outcome", "outcome", "outcome"),
]
_NO_LOSS: Final = "No job died for good since the start; what others stopped or purged is not counted."
# A page is not read beyond these; the API has more.
_MAX_HOLDS: Final = 10
_MAX_SHOWN: Final = 20
_MAX_NODES: Final = 200


def sections(status: dict[str, Any]) -> Iterator[Element]:
    """All sections, the most urgent first."""
    tables = _Tables(status["at"])
    pools = [{"environment_id": id_, **row} for id_, row in status["environments"].items()]
    section = tables.section("pools", "Pools", "No environment is known.", _POOLS, pools, limit=None)
    section.append(element("p", _POOLS_LEGEND, class_="legend"))
    yield section
    yield tables.section("holds", "Held back", "Nothing is held back.", _HOLDS, status["holds"], limit=_MAX_HOLDS)
    yield tables.section("blame", "Which agent to look at", None, _BLAME, status["blame"])
    yield tables.section("losses", "Lost lately", _NO_LOSS, _LOSSES, status["losses"])
    if status["poseidon"] is not None:
        yield tables.poseidon(status["poseidon"])
    yield tables.section("surplus", "More than the target", None, _SURPLUS, status["surplus"])
    yield tables.section("actions", "Done lately", "Nothing was done since the start.", _ACTIONS, status["actions"])
    if status["shadow"] is not None:
        nothing = "Dry run: nothing would have been done yet."
        yield tables.section("shadow", "What became of it in this dry run", nothing, _SHADOW, status["shadow"])
    yield tables.section("pauses", "Paused", "Nothing is paused.", _PAUSES, status["pauses"])
    yield tables.section("nodes", "Nodes", "No node is known.", _NODES, status["nodes"], limit=_MAX_NODES)


class _Tables:
    """Makes the sections of a page that is as of `at`."""

    def __init__(self, at: str) -> None:
        self._at = at

    def section(
        self,
        name: str,
        title: str,
        nothing: str | None,
        columns: list[Column],
        rows: Rows,
        limit: int | None = _MAX_SHOWN,
    ) -> Element:
        """A table under its heading; in its place, if there are no rows, a sentence; where there is none, nothing."""
        parts = self._limited(name, title, columns, rows, limit)
        if nothing is not None:
            parts.append(_shown(element("p", nothing, class_="nothing"), when=not rows))
        section = _titled(name, title, *parts)
        if not rows:
            section.set("class", "empty")
        return _shown(section, when=bool(rows) or nothing is not None)

    def poseidon(self, document: dict[str, Any]) -> Element:
        """Poseidon's numbers, behind the sentence that says whether there is something to be seen."""
        rows = document["environments"]
        differs = any(row["lasting"] for row in rows)
        is_trouble = differs or document["problem"] is not None
        asked: list[Child] = [" As of ", clock(document["at"], self._at), "."] if document["at"] is not None else []
        details = element(
            "details",
            element("summary", element("span", document["text"]), element("small", *asked)),
            *self._limited("poseidon", "Poseidon beside us", _POSEIDON, rows, _MAX_SHOWN),
            class_="troubled" if is_trouble else None,
            open="" if differs else None,
        )
        section = _titled("poseidon", "Poseidon beside us", details)
        if not is_trouble:
            section.set("class", "empty")
        return section

    def _limited(self, name: str, title: str, columns: list[Column], rows: Rows, limit: int | None) -> list[Element]:
        """A table of so many rows at most, and how many more there are."""
        shown = table(name, title, columns, rows[:limit], self._at)
        shown.set("data-most", str(limit or ""))
        left_out = max(0, len(rows) - limit) if limit is not None else 0
        more = element("p", f"and {left_out} more", class_="more")
        return [_shown(shown, when=bool(rows)), _shown(more, when=left_out > 0)]


def _titled(name: str, title: str, *parts: Element) -> Element:
    return element("section", element("h2", title, id=f"{name}-title"), *parts, aria_labelledby=f"{name}-title")


def _shown(part: Element, *, when: bool) -> Element:
    if not when:
        part.set("hidden", "")
    return part
