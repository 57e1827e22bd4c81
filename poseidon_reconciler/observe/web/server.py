"""The server: which parts there are, where it listens, and how long it lives."""

from __future__ import annotations

import asyncio
import errno
from importlib.resources import files
from pathlib import Path
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from poseidon_reconciler.core.status import environment_rows, on_their_way
from poseidon_reconciler.markup.look import look
from poseidon_reconciler.observe.web import guard
from poseidon_reconciler.observe.web.events import Events
from poseidon_reconciler.observe.web.history import SAMPLE_S, History
from poseidon_reconciler.observe.web.openapi import openapi_document
from poseidon_reconciler.observe.web.pages import Pages
from poseidon_reconciler.observe.web.reads import Metrics, Reads, json_answer
from poseidon_reconciler.observe.web.recent import Recent
from poseidon_reconciler.observe.web.source import Pausing, Source
from poseidon_reconciler.observe.web.status import Status
from poseidon_reconciler.observe.web.writes import MAX_BODY_BYTES, Writes
from poseidon_reconciler.policy import os_reason

_ASSETS: Final = {"page.css": "text/css", "page.js": "text/javascript"}
_SHUTDOWN_S: Final = 0.5
_KEEPALIVE_S: Final = 30.0
_MAX_LINE_BYTES: Final = 4096


class ListenError(OSError):
    """The address to listen at cannot be had; one line says why."""


class WebServer:
    """The page and the API of one reconciler, as long as `run` goes.

    Attributes:
        recent: must be told what goes on.
        events: those who look at this moment.
        history: how full the pools were.
        address: where it is served, as an URL; None while it is not.
    """

    def __init__(
        self,
        source: Source,
        pausing: Pausing,
        *,
        token_file: Path | None = None,
        metrics: Metrics | None = None,
        sample_s: float = SAMPLE_S,
        speed: float = 1.0,
    ) -> None:
        """`metrics` gives what `/metrics` answers, if anything; `sample_s` is the time between two samples of the
        charts, by the source's clock, which goes `speed` times as fast as the machine's.
        """
        self.recent = Recent(source.core, source.clock)
        self.history = History(sample_s)
        self.address: str | None = None
        self._source = source
        self._speed = speed
        self._status = Status(source, self.recent)
        self.events = Events(self._status)
        self.recent.on_change = self.events.changed
        self._reads = Reads(source, self._status, self.recent, self.history, metrics)
        self._pages = Pages(source, self._status)
        self._writes = Writes(source, pausing, token_file, on_change=self.expire)
        self._runner: web.AppRunner | None = None

    async def start(self, listen: str) -> str:
        """Begins to listen at `host:port`; returns where it is served, as an URL.

        Raises:
            ListenError: that is not possible.
        """
        host, _, port = listen.rpartition(":")
        bare_host = host.strip("[]")
        self._runner = web.AppRunner(
            self.application(bare_host),
            access_log=None,
            handler_cancellation=True,
            shutdown_timeout=_SHUTDOWN_S,
            keepalive_timeout=_KEEPALIVE_S,
            max_line_size=_MAX_LINE_BYTES,
            max_field_size=_MAX_LINE_BYTES,
        )
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, bare_host, int(port)).start()
        except OSError as error:
            await self.stop()
            raise ListenError(f"{listen}: {why_not_listening(error)}") from None
        self.address = f"http://{host}:{self._runner.addresses[0][1]}"
        return self.address

    async def run(self) -> None:
        """Keeps the charts and those who look up to date until it is cancelled; then it stops to listen.

        If it fails, the page is served on, and this can be run again.
        """
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.events.run())
                group.create_task(self._sample())
        except asyncio.CancelledError:
            await self.stop()
            raise

    def expire(self) -> None:
        """Has everything made anew for the next who asks."""
        self._status.expire()
        self._pages.expire()
        self._reads.expire()

    async def stop(self) -> None:
        """Listens no more, and ends the connections."""
        self.events.close()
        self.address = None
        if self._runner is not None:
            await self._runner.cleanup()

    def application(self, host: str) -> web.Application:
        """The application for a server that listens at this host."""
        application = web.Application(middlewares=[guard.guard(host)], client_max_size=MAX_BODY_BYTES)
        application.on_response_prepare.append(guard.add_headers)
        application.add_routes([*self._pages.routes(), *self._reads.routes(), *self._writes.routes()])
        application.router.add_get("/v1/events", self.events.serve)
        application.router.add_get("/openapi.json", _openapi)
        for name, content_type in _ASSETS.items():
            application.router.add_get(f"/{name}", _asset(name, content_type))
        return application

    async def _sample(self) -> None:
        while True:
            core = self._source.core
            rows = environment_rows(core) if self._source.is_synced() else {}
            coming = {id_: sum(on_their_way(core, id_).values()) for id_ in rows}
            self.history.take(self._source.clock(), rows, coming)
            await asyncio.sleep(self.history.sample_s / self._speed)


async def _openapi(_: web.Request) -> web.Response:
    return json_answer(openapi_document())


def _asset(name: str, content_type: str) -> Handler:
    content = files(__package__).joinpath("page", name).read_text(encoding="utf-8")
    if content_type == "text/css":
        content = look() + content

    async def serve(_: web.Request) -> web.Response:
        headers = {"Cache-Control": "no-cache"}
        return web.Response(text=content, content_type=content_type, headers=headers)

    return serve


def why_not_listening(error: OSError) -> str:
    """Why it is not possible to listen at an address, in a few words."""
    return "the port is in use" if error.errno == errno.EADDRINUSE else os_reason(error)
