"""A receiver of webhooks on loopback that answers as a test wants it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
from aiohttp import web

from tests.serving import serving


class Receiver:
    """Remembers what it was sent.

    Attributes:
        answers: what to answer next, in order; then 200. A status, or a coroutine function that answers.
        requests: headers and body of each request.
    """

    def __init__(self) -> None:
        self.url = ""
        self.answers: list[int | web.Response | Callable[[], Awaitable[web.Response]]] = []
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.paths: list[str] = []
        self._came = asyncio.Event()

    async def handle(self, request: web.Request) -> web.Response:
        self.paths.append(request.path)
        self.requests.append((dict(request.headers), await request.read()))
        self._came.set()
        answer = self.answers.pop(0) if self.answers else 200
        if isinstance(answer, int):
            return web.Response(status=answer)
        return answer if isinstance(answer, web.Response) else await answer()

    @property
    def batches(self) -> list[list[dict[str, Any]]]:
        return [orjson.loads(body) for _, body in self.requests]

    def kinds(self) -> list[list[str]]:
        return [[event["type"].removeprefix("org.poseidon-reconciler.") for event in batch] for batch in self.batches]

    async def wait_for(self, number: int) -> None:
        """Until so many requests have come."""
        async with asyncio.timeout(10):
            while len(self.requests) < number:
                self._came.clear()
                await self._came.wait()


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", receiver.handle)
    async with serving(application) as address:
        receiver.url = f"{address}/hook/s3cr3t"
        yield receiver
