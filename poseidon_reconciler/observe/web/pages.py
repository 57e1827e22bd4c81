"""The status page as a whole document: complete without a script, and kept up to date by one where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from aiohttp import web

from poseidon_reconciler.core.status import POOL_STATES
from poseidon_reconciler.core.subjects import UnknownSubjectError, explain
from poseidon_reconciler.markup.elements import Element, element, to_html
from poseidon_reconciler.observe.web.cells import Column, clock, table
from poseidon_reconciler.observe.web.explained import explanation_parts, unknown_parts
from poseidon_reconciler.observe.web.fresh import Fresh
from poseidon_reconciler.observe.web.source import Source
from poseidon_reconciler.observe.web.status import MAX_SHOWN, Status

_WITH_COLUMN: Final = ("idle", "used", "lost")
_OTHERS: Final = (*(state for state in POOL_STATES if state not in _WITH_COLUMN), "expected")
_POOLS: Final = [
    Column("environment", "environment_id", "environment"),
    Column("state", "state", "state"),
    Column("last hours", "chart", "chart"),
    *(Column(name, name, "number") for name in ("target", "idle", "used", "lost")),
    Column("at risk", "at_risk", "number"),
    Column("others", " ".join(_OTHERS), "others"),
    *(Column(name, name, "number") for name in ("deficit", "surplus")),
]
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
    Column("node", "node"),
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
    Column("node", "node", "node"),
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
# Without a script the page is loaded anew, in seconds.
_RELOAD_S: Final = 10
_MAX_SUBJECT_CHARS: Final = 300


class Pages:
    """The handlers of what is made for eyes."""

    def __init__(self, source: Source, status: Status) -> None:
        self._source = source
        self._status = status
        self._page = Fresh(self._make)

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/", self._index), web.get("/explain/{subject}", self._explain)]

    async def _index(self, _: web.Request) -> web.Response:
        return _html(self._page.get())

    def expire(self) -> None:
        """Has the page made anew for the next who asks."""
        self._page.expire()

    def _make(self) -> str:
        status = self._status.document()
        reload_ = element("noscript", element("meta", http_equiv="refresh", content=str(_RELOAD_S)))
        script = element("script", src="page.js", defer="")
        return to_html(_page("poseidon-reconciler", "", [reload_, script], _body(status)))

    async def _explain(self, request: web.Request) -> web.Response:
        subject = request.match_info["subject"][:_MAX_SUBJECT_CHARS]
        try:
            parts, status = explanation_parts(explain(self._source.core, subject), self._source.clock()), 200
        except UnknownSubjectError as error:
            parts, status = unknown_parts(str(error), error.near), 404
        back = element("p", element("a", "All pools", href="../"))
        page = _page(f"{subject} explained", "../", [], [element("main", back, *parts)])
        return _html(to_html(page), status)


def _html(text: str, status: int = 200) -> web.Response:
    return web.Response(text=text, content_type="text/html", status=status)


def _page(title: str, base: str, more: list[Element], body: list[Element]) -> Element:
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("link", rel="icon", href="data:,"),
        element("title", title),
        element("link", rel="stylesheet", href=f"{base}page.css"),
        *more,
    )
    return element("html", head, element("body", *body), lang="en")


def _body(status: dict[str, Any]) -> list[Element]:
    return [_header(status), element("main", *_sections(status)), _footer(status)]


def _header(status: dict[str, Any]) -> Element:
    summary = status["summary"]
    mode = " Dry run: nothing is written." if status["dry_run"] else ""
    return element(
        "header",
        element("h1", "Poseidon’s pools"),
        element(
            "div", element("p", summary["text"], id="summary", role="status"), class_=f"verdict {summary['level']}"
        ),
        element("p", "As of ", clock(status["at"]), f" UTC. {mode}", element("span", id="link"), class_="source"),
    )


def _sections(status: dict[str, Any]) -> Iterator[Element]:
    pools = [{"environment_id": id_, **row} for id_, row in status["environments"].items()]
    yield _section("pools", "Pools", "No environment is known.", _POOLS, pools, limit=len(pools))
    yield _section("holds", "Held back", "Nothing is held back.", _HOLDS, status["holds"])
    yield _section("blame", "Which agent to look at", None, _BLAME, status["blame"])
    yield _section("losses", "Lost lately", "Nothing was lost since the start.", _LOSSES, status["losses"])
    if status["poseidon"] is not None:
        yield _poseidon(status["poseidon"])
    yield _section("surplus", "More than the target", None, _SURPLUS, status["surplus"])
    yield _section("actions", "Done lately", "Nothing was done since the start.", _ACTIONS, status["actions"])
    if status["shadow"] is not None:
        nothing = "Dry run: nothing would have been done yet."
        yield _section("shadow", "What became of it in this dry run", nothing, _SHADOW, status["shadow"])
    yield _section("pauses", "Paused", "Nothing is paused.", _PAUSES, status["pauses"])
    yield _section("nodes", "Nodes", "No node is known.", _NODES, status["nodes"], limit=200)


def _section(
    name: str,
    title: str,
    nothing: str | None,
    columns: list[Column],
    rows: list[dict[str, Any]],
    *,
    limit: int = MAX_SHOWN,
) -> Element:
    """A table with its heading; in its place, if there are no rows, a sentence, or where there is none nothing."""
    parts = _limited(name, title, columns, rows, limit)
    if nothing is not None:
        parts.append(_hidden_if(element("p", nothing, class_="nothing"), bool(rows)))
    section = _titled(name, title, *parts)
    if not rows:
        section.set("class", "empty")
    return _hidden_if(section, not rows and nothing is None)


def _poseidon(document: dict[str, Any]) -> Element:
    """Poseidon's numbers, behind the sentence that says whether there is something to be seen."""
    rows = document["environments"]
    is_trouble = document["problem"] is not None or any(row["lasting"] for row in rows)
    details = element(
        "details",
        element("summary", document["text"]),
        *_limited("poseidon", "Poseidon beside us", _POSEIDON, rows, MAX_SHOWN),
        class_="troubled" if is_trouble else None,
        open="" if is_trouble else None,
    )
    return _titled("poseidon", "Poseidon beside us", details)


def _titled(name: str, title: str, *parts: Element) -> Element:
    return element("section", element("h2", title, id=f"{name}-title"), *parts, aria_labelledby=f"{name}-title")


def _limited(name: str, title: str, columns: list[Column], rows: list[dict[str, Any]], limit: int) -> list[Element]:
    """A table of so many rows at most, and how many more there are. All environments are shown always."""
    shown = table(name, title, columns, rows[:limit])
    shown.set("data-most", str(limit) if name != "pools" else "")
    more = element("p", f"and {len(rows) - limit} more" if len(rows) > limit else "", class_="more")
    return [_hidden_if(shown, not rows), _hidden_if(more, len(rows) <= limit)]


def _hidden_if(part: Element, is_hidden: bool) -> Element:  # noqa: FBT001 - reads as a sentence where it is called
    if is_hidden:
        part.set("hidden", "")
    return part


def _footer(status: dict[str, Any]) -> Element:
    return element(
        "footer",
        f"poseidon-reconciler {status['version']}. All times are UTC. For programs: ",
        element("a", "the API", href="openapi.json"),
        ", ",
        element("a", "status", href="v1/status"),
        ", ",
        element("a", "journal", href="v1/journal"),
        ".",
    )
