"""A page beside a reconciler that a test feeds by hand, asked over loopback."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
from yarl import URL

from poseidon_reconciler.core.pauses import Pause
from poseidon_reconciler.core.reconciler import Step
from poseidon_reconciler.core.shadow import Shadow
from poseidon_reconciler.core.status import environment_rows
from poseidon_reconciler.observe.drift import PATIENCE, DriftWatch, PoseidonView, Statistics
from poseidon_reconciler.observe.web import Source, WebServer
from poseidon_reconciler.observe.web.reads import Metrics
from tests.core.builders import Bench, Wire, allocation, bench_with_pool, job, node, node_id, runner

TOKEN = "let-me-in"
LISTEN = "127.0.0.1:0"


class BenchPausing:
    """Pauses a reconciler at once, as a controller does in its next turn."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.kept = False

    def pause(self, pause: Pause) -> bool:
        self._bench.core.pause(pause)
        return self.kept

    def resume(self, environment_id: str | None) -> bool:
        self._bench.core.resume(environment_id)
        return self.kept


class Served:
    """A page that is served, and the reconciler behind it.

    Attributes:
        synced, trouble: what the controller would say of itself.
        poseidon: what Poseidon would believe.
        shadow: the score, where the reconciler only imagines what it does.
    """

    def __init__(self, bench: Bench, *, token_file: Path | None = None, metrics: Metrics | None = None) -> None:
        self.bench = bench
        self.synced = True
        self.trouble: str | None = None
        self.poseidon: PoseidonView | None = None
        self.shadow = Shadow(bench.core) if bench.core.planner.desk.imagines else None
        self.pausing = BenchPausing(bench)
        source = Source(
            core=bench.core,
            clock=lambda: bench.now,
            is_synced=lambda: self.synced,
            trouble=lambda: self.trouble,
            shadow=self.shadow,
            poseidon=lambda: self.poseidon,
        )
        self.server = WebServer(source, self.pausing, token_file=token_file, metrics=metrics, sample_s=0.2)
        self.address = ""

    def tell(self, *steps: Step) -> None:
        """The page hears of steps, as of a controller's, and is made anew."""
        self.server.expire()
        for step in steps:
            if self.shadow is not None:
                self.shadow.stepped(step)
            self.server.recent.stepped(step)

    def lose(self, number: int, *, index: int, wait_s: float = 60.0) -> None:
        """A runner of environment 10 is lost, and what is decided on that is told."""
        before = len(self.bench.steps)
        created = 200 + 10 * number
        ended = allocation(
            f"a{number}", runner(number), "complete", index=index, created=created + 1, node=node_id(1 + number % 3)
        )
        self.bench.feed(ended, job(runner(number), "dead", index=index, created=created))
        self.bench.wait(wait_s)
        self.tell(*self.bench.steps[before:])

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[aiohttp.ClientSession]:
        """Serves in the running loop; gives a client whose addresses are paths."""
        self.address = await self.server.start(LISTEN)
        task = asyncio.create_task(self.server.run())
        try:
            async with aiohttp.ClientSession(self.address) as client:
                yield client
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @contextmanager
    def in_background(self) -> Iterator[Background]:
        """Serves in a thread of its own, for clients that block."""
        background = Background(self)
        background.start()
        try:
            yield background
        finally:
            background.end()


class Background(threading.Thread):
    """The thread of a page that is served."""

    def __init__(self, served: Served) -> None:
        super().__init__(daemon=True)
        self.served = served
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over = asyncio.Event()

    def run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with self.served.serving():
            self._ready.set()
            await self._over.wait()

    def start(self) -> None:
        super().start()
        assert self._ready.wait(30)

    def call(self, function: Callable[..., object], *arguments: object, **options: object) -> None:
        """Calls something in the loop of the page, and waits for it."""
        assert self._loop is not None

        async def call() -> None:
            function(*arguments, **options)

        asyncio.run_coroutine_threadsafe(call(), self._loop).result(30)

    def end(self) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._over.set)
        self.join(30)


async def ask(client: aiohttp.ClientSession, path: str) -> tuple[int, Any]:
    """Status and JSON of an answer."""
    async with client.get(URL(path, encoded=True)) as answer:
        return answer.status, await answer.json()


def pool(runners: int = 3, **more: Any) -> Served:
    """A page beside a pool at rest."""
    return Served(bench_with_pool(runners), **more)


def eventful(**more: Any) -> Served:
    """A page beside a dry run to which all has happened that the page has a place for: a pool of five where three are
    wanted, a node that was away, a loss, and a Poseidon that believes in a runner that is dead.
    """
    bench = bench_with_pool(5, target=3)
    bench.core.planner.desk.imagines = True
    served = Served(bench, **more)
    bench.feed(node(node_id(1), "down", index=400))
    bench.feed(node(node_id(1), "ready", index=401), after_s=8)
    served.lose(0, index=500)
    drift = DriftWatch()
    for _ in range(PATIENCE + 1):
        drift.answered({"10": Statistics(10, 3, 5, 1)}, environment_rows(bench.core), bench.now)
    served.poseidon = drift.view
    served.tell()
    return served


def large(environments: int, runners: int, *, nodes: int = 20) -> Bench:
    """Many pools at rest, told in one line; the runners are spread over them evenly."""
    bench = Bench()
    each = runners // environments
    objects: list[Wire] = [node(node_id(number), index=number) for number in range(1, nodes + 1)]
    for number in range(environments):
        environment = str(number + 1)
        template = f"template-{environment}"
        objects.append(job(template, index=102, created=100, target=each))
        objects.append(allocation(f"t{environment}", template, index=102, created=101, node=node_id(1)))
        for place in range(each):
            name = runner(place, environment)
            created = 200 + 10 * place
            home = node_id(1 + (number + place) % nodes)
            objects.append(job(name, index=created + 2, created=created))
            objects.append(
                allocation(f"a{environment}-{place}", name, index=created + 2, created=created + 1, node=home)
            )
    bench.feed(*objects)
    bench.wait(60)
    return bench
