"""An embedded cluster in virtual time with real reconcilers on it, for measuring what they do.

A simulation breaks a cluster in every way and checks promises; here nothing goes wrong but what somebody does to the
cluster, and whoever wants to know something looks at the cluster itself.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Final

from poseidon_reconciler.app.running import Running
from poseidon_reconciler.app.simulation.endpoint import Endpoint
from poseidon_reconciler.app.simulation.loop import VirtualLoop
from poseidon_reconciler.app.simulation.transport import SimulatedTransport
from poseidon_reconciler.app.simulation.weather import Fate, Weather
from poseidon_reconciler.app.simulation.wire import Connection, Lines, SimulatedStream
from poseidon_reconciler.config import Settings
from poseidon_reconciler.controller import Observer
from poseidon_reconciler.nomad.connection import Connection as Address
from poseidon_reconciler.nomad.outcomes import Answer
from poseidon_reconciler.nomad.transport import Request
from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.events import Batch
from poseidon_reconciler.twin.listening import listen

_NOWHERE: Final = Address("http://simulated.invalid")


class Lab:
    """A cluster and who works on it.

    Attributes:
        written: what reconcilers of the lab asked the servers to write, one line each.
    """

    def __init__(self, cluster: Cluster, *, seed: int = 0) -> None:
        """`cluster` has the time at which everything begins; the same seed gives the same course."""
        self.cluster = cluster
        self.lines = Lines(cluster)
        self.connections: list[Connection] = []
        self.written: list[str] = []
        self._seed = seed
        self._endpoint = Endpoint(cluster)
        self._errors: list[dict[str, Any]] = []
        listen(cluster, self._hear)

    def run(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Lets time pass until `main` returns.

        Raises:
            RuntimeError: an exception was caught by nobody.
        """
        chance = random.getstate()
        random.seed(self._seed)  # the waits between attempts to read are drawn from it
        loop = VirtualLoop(self.cluster.now, self.cluster, self._errors.append)
        try:
            loop.run_until_complete(main())
        finally:
            loop.close()
            random.setstate(chance)
        if self._errors:
            raise RuntimeError(f"nobody caught {self._errors}")

    def reconciler(self, settings: Settings, observer: Observer, *, dry_run: bool = False) -> Running:
        """A reconciler on this cluster; whoever asks for it runs it, inside of `run`."""
        clock = asyncio.get_running_loop().time
        weather = Weather(Random(f"{self._seed} weather"), next(iter(self.cluster.quorum.servers)))
        stream = SimulatedStream(
            self,
            weather,
            connection=_NOWHERE,
            clock=clock,
            monotonic=clock,
            chance=Random(f"{self._seed} stream").random,
        )
        return Running(
            settings,
            observer,
            dry_run=dry_run,
            clock=clock,
            transport=SimulatedTransport(self, weather),
            stream=stream,
            run_id="lab",
        )

    def carry_out(self, entry: str, request: Request, fate: Fate) -> Answer | None:
        """What the servers answer a reconciler of this lab."""
        self.cluster.advance(asyncio.get_running_loop().time())
        if request.method != "get" and request.path[1:] != ("plan",):
            self.written.append(f"{request.method} {'/'.join((request.endpoint, *request.path))}")
        return self._endpoint.answer(request, self.cluster.quorum.servers[entry], fate.tables)

    def _hear(self, _: Batch) -> None:
        for connection in list(self.connections):
            connection.poke()
