"""Nomad's HTTP API in front of an embedded cluster, for Poseidon, python-nomad, curl and Nomad's own command line.

async with TwinServer(Cluster(3)) as server:
    print(server.address)
    server.agents["agent-1"].stop()
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from types import TracebackType

from aiohttp import web

from poseidon_reconciler.twin.acl import Acl
from poseidon_reconciler.twin.agents import Agent
from poseidon_reconciler.twin.clock import Clock, RealClock
from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.driver import Driver
from poseidon_reconciler.twin.faults import Faults
from poseidon_reconciler.twin.http import Endpoint


class TwinServer:
    """Serves a cluster over HTTP and keeps it going, as long as it is entered.

    Each of the cluster's servers listens on a port of its own: `addresses` by name, `address` the first of them. With
    `port` 0 any free ports are taken, otherwise that one and the next ones.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        clock: Clock | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        acl: Acl | None = None,
    ) -> None:
        self.cluster = cluster
        self.clock = clock if clock is not None else RealClock()
        self.faults = Faults()
        self.acl = acl
        self.driver = Driver(cluster, self.clock)
        self.addresses: dict[str, str] = {}
        self._host = host
        self._port = port
        self._tls = tls
        self._runners: list[web.AppRunner] = []
        self._task: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """Where the first server listens, as an URL."""
        return next(iter(self.addresses.values()))

    @property
    def agents(self) -> dict[str, Agent]:
        """The cluster's agents by name, brought to the present so that something can be done to them now."""
        self.touch()
        return self.cluster.agents

    def touch(self) -> Cluster:
        """The cluster, brought to the present; whatever is done to it before the next wait takes effect at once."""
        self.driver.catch_up()
        asyncio.get_running_loop().call_soon(self.driver.touched)
        return self.cluster

    async def __aenter__(self) -> TwinServer:
        scheme = "https" if self._tls is not None else "http"
        self._task = asyncio.create_task(self.driver.run())
        if self.acl is not None:
            self.acl.on_change = self.driver.wake
        for number, server in enumerate(self.cluster.quorum.servers.values()):
            endpoint = Endpoint(self.driver, server, self.faults, lambda: self.acl, self.addresses)
            runner = web.AppRunner(endpoint.application(), access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            self._runners.append(runner)
            port = self._port + number if self._port else 0
            site = web.TCPSite(runner, self._host, port, ssl_context=self._tls)
            await site.start()
            bound = runner.addresses[0][1]
            self.addresses[server.name] = f"{scheme}://{self._host}:{bound}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        for runner in self._runners:
            await runner.cleanup()
        self._runners.clear()
