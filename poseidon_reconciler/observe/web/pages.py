"""The status page as a whole document: complete without a script, and kept up to date by one where there is one."""

from __future__ import annotations

from typing import Any, Final

from aiohttp import web

from poseidon_reconciler.core.subjects import UnknownSubjectError, explain
from poseidon_reconciler.markup.elements import Element, element, to_html
from poseidon_reconciler.observe.web.cells import clock
from poseidon_reconciler.observe.web.explained import explanation_parts, unknown_parts
from poseidon_reconciler.observe.web.fresh import Fresh
from poseidon_reconciler.observe.web.sections import sections
from poseidon_reconciler.observe.web.source import Source
from poseidon_reconciler.observe.web.status import Status

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
    return [_header(status), element("main", *sections(status)), _footer(status)]


def _header(status: dict[str, Any]) -> Element:
    summary = status["summary"]
    mode = " Dry run: nothing is written." if status["dry_run"] else ""
    return element(
        "header",
        element("h1", "Poseidon’s pools"),
        element(
            "div", element("p", summary["text"], id="summary", role="status"), class_=f"verdict {summary['level']}"
        ),
        element(
            "p",
            "As of ",
            clock(status["at"], status["at"]),
            f" UTC.{mode} ",
            element("span", id="link"),
            class_="source",
        ),
    )


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
