"""What everybody may ask: how it stands, why, what was decided."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
import orjson
from aiohttp import web

from poseidon_reconciler.core.documents import iso
from poseidon_reconciler.core.explanation import EnvironmentExplanation, JobExplanation, OrderExplanation
from poseidon_reconciler.core.printable import printable
from poseidon_reconciler.core.subjects import UnknownSubjectError, explain
from poseidon_reconciler.observe.web.fresh import Fresh, FreshAside
from poseidon_reconciler.observe.web.guard import refusal
from poseidon_reconciler.observe.web.history import History
from poseidon_reconciler.observe.web.recent import MAX_DECISIONS, Recent
from poseidon_reconciler.observe.web.source import Source
from poseidon_reconciler.observe.web.status import Status

Metrics = Callable[[], tuple[bytes, str]]
"""Gives all metrics as text, and the content type of that."""

_KINDS: Final[dict[type, str]] = {
    JobExplanation: "job",
    OrderExplanation: "order",
    EnvironmentExplanation: "environment",
}
_DEFAULT_LIMIT: Final = 100
_MAX_SUBJECT_CHARS: Final = 300
_MAX_NUMBER_CHARS: Final = 15


class Reads:
    """The handlers."""

    def __init__(
        self, source: Source, status: Status, recent: Recent, history: History, metrics: Metrics | None
    ) -> None:
        self._source = source
        self._status = status
        self._recent = recent
        self._history = Fresh(lambda: orjson.dumps(history.document()))
        self._metrics = FreshAside(metrics) if metrics is not None else None

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/healthz", self._healthz),
            web.get("/readyz", self._readyz),
            web.get("/metrics", self._scrape),
            web.get("/v1/status", self._v1_status),
            web.get("/v1/history", self._v1_history),
            web.get("/v1/journal", self._v1_journal),
            web.get("/v1/explain/{subject}", self._v1_explain),
        ]

    def expire(self) -> None:
        """Has what is kept made anew for the next who asks."""
        self._history.expire()
        if self._metrics is not None:
            self._metrics.expire()

    async def _healthz(self, _: web.Request) -> web.Response:
        trouble = self._source.trouble()
        if trouble is not None:
            return refusal(503, trouble)
        return json_answer({"alive": True})

    async def _readyz(self, _: web.Request) -> web.Response:
        if not self._source.is_synced():
            why = printable(self._recent.last_note) or "starting"
            return refusal(503, f"the model is not complete and fresh, so nothing is decided ({why})")
        return json_answer({"ready": True})

    async def _scrape(self, _: web.Request) -> web.Response:
        if self._metrics is None:
            return refusal(404, "no metrics are kept here")
        text, content_type = await self._metrics.get()
        return web.Response(body=text, headers={"Content-Type": content_type})

    async def _v1_status(self, _: web.Request) -> web.Response:
        return web.Response(body=self._status.encoded(), content_type="application/json")

    async def _v1_history(self, _: web.Request) -> web.Response:
        return web.Response(body=self._history.get(), content_type="application/json")

    async def _v1_journal(self, request: web.Request) -> web.Response:
        try:
            since = _whole_number(request, "since", at_least=0)
            limit = _whole_number(request, "limit", at_least=1) or _DEFAULT_LIMIT
        except ValueError as error:
            return refusal(400, str(error))
        last = self._recent.last_change
        if since is None:
            found = self._recent.since(0, MAX_DECISIONS)[-limit:]
        else:
            # A number that is yet to come is one of the process before this.
            found = self._recent.since(since if since <= last else 0, limit)
        following = found[-1].changed if found else last
        return json_answer({"next": following, "decisions": [each.document() for each in found]})

    async def _v1_explain(self, request: web.Request) -> web.Response:
        subject = request.match_info["subject"]
        try:
            explanation = explain(self._source.core, subject[:_MAX_SUBJECT_CHARS])
        except UnknownSubjectError as error:
            return refusal(404, str(error), near=error.near)
        return json_answer(
            {
                "at": iso(self._source.core.now),
                "kind": _KINDS[type(explanation)],
                "explanation": msgspec.to_builtins(explanation),
            }
        )


def json_answer(document: dict[str, Any], status: int = 200) -> web.Response:
    """A JSON answer."""
    return web.Response(body=orjson.dumps(document), content_type="application/json", status=status)


def _whole_number(request: web.Request, name: str, *, at_least: int) -> int | None:
    """A parameter of the query. Raises ValueError where it is no such number."""
    texts = request.query.getall(name, [])
    if not texts:
        return None
    text = texts[0]
    if len(texts) > 1 or not text.isascii() or not text.isdigit() or len(text) > _MAX_NUMBER_CHARS:
        raise ValueError(f"{name} must be given once, as a whole number")
    if int(text) < at_least:
        raise ValueError(f"{name} must be at least {at_least}")
    return int(text)
