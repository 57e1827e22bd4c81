"""A server and a client for tests of the HTTP API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from poseidon_reconciler.twin.acl import Acl
from poseidon_reconciler.twin.clock import RealClock
from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.server import TwinServer
from tests.twin.labs import lab

SPEED = 20.0


class Client:
    """Asks one server."""

    def __init__(self, server: TwinServer, http: aiohttp.ClientSession) -> None:
        self.server = server
        self.http = http

    async def ask(
        self, method: str, path: str, body: Any = None, *, token: str = "", **query: str
    ) -> tuple[int, Any, dict[str, str]]:
        """Status, decoded JSON or text, and headers."""
        headers = {"X-Nomad-Token": token} if token else {}
        async with self.http.request(
            method, self.server.address + path, json=body, params=query, headers=headers
        ) as answer:
            decoded = await (answer.json() if answer.content_type == "application/json" else answer.text())
            return answer.status, decoded, dict(answer.headers)

    async def get(self, path: str, **query: str) -> Any:
        """The JSON of an answer that must be good."""
        status, decoded, _ = await self.ask("GET", path, **query)
        assert status == 200, decoded
        return decoded

    async def until(self, condition: Callable[[], bool], timeout_s: float = 5.0) -> None:
        """Waits until something is so."""
        async with asyncio.timeout(timeout_s):
            while not condition():
                await self.server.driver.change(SPEED / 100)


@asynccontextmanager
async def serving(
    cluster: Cluster | None = None, *, acl: Acl | None = None, speed: float = SPEED
) -> AsyncIterator[Client]:
    """A server in front of a cluster whose agents are ready, and a client of it."""
    served = cluster if cluster is not None else lab(version="1.10.5")
    async with TwinServer(served, clock=RealClock(speed=speed), acl=acl) as server, aiohttp.ClientSession() as http:
        yield Client(server, http)
