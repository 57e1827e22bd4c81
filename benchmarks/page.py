"""What the status page costs a reconciler of 200 environments and 10 000 runners: time, and memory that must not grow.

    python benchmarks/page.py [--environments N] [--runners N] [--requests N] [--scrapes N] [--clients N] [--json]

Asks over loopback, in turn and from the same machine. Clients of the event stream connect, read nothing, and vanish
without a word. The metrics are the real ones, made anew for each scrape; `loop held up` is the longest that one had the
event loop wait, mostly for the garbage collector, which looks at the whole model.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import resource
import statistics
import sys
import time
from pathlib import Path
from typing import get_args

import aiohttp

sys.path.insert(0, str(Path(__file__).parent.parent))

from poseidon_reconciler.config.observing import TelemetrySettings
from poseidon_reconciler.core.status import environment_rows
from poseidon_reconciler.nomad.items import Ending
from poseidon_reconciler.observe.drift import DriftWatch, Statistics
from poseidon_reconciler.observe.telemetry.telemetry import Telemetry
from poseidon_reconciler.observe.web.history import POINTS
from tests.core.builders import Bench
from tests.observe.web.serving import Served, large

_PATHS = ("/", "/v1/status", "/v1/history", "/v1/journal", "/v1/explain/1", "/healthz", "/metrics")
_GOAL_MS = 200.0


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures the status page beside a large cluster.")
    parser.add_argument("--environments", type=int, default=200)
    parser.add_argument("--runners", type=int, default=10_000)
    parser.add_argument("--requests", type=int, default=10_000, help="requests whose memory is looked at")
    parser.add_argument("--scrapes", type=int, default=1_000, help="scrapes of /metrics whose memory is looked at")
    parser.add_argument("--clients", type=int, default=100, help="clients of the event stream that stall and vanish")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    results = asyncio.run(
        measure(options.environments, options.runners, options.requests, options.scrapes, options.clients)
    )
    if options.json:
        print(json.dumps(results, indent=2))
    else:
        for name, value in results.items():
            print(f"{name:<32} {value}")
    return 0 if results["/ ms"] < _GOAL_MS and results["/v1/status ms"] < _GOAL_MS else 1


async def measure(environments: int, runners: int, requests: int, scrapes: int, clients: int) -> dict[str, float]:
    """All figures: milliseconds (median, made anew each time), and resident memory in MB."""
    bench = large(environments, runners)
    telemetry = telemetry_of(bench)
    served = Served(bench, metrics=telemetry.render)
    results: dict[str, float] = {}
    rows = environment_rows(served.bench.core)
    coming = dict.fromkeys(rows, 0)
    for number in range(POINTS * 40):
        served.server.history.take(served.bench.now + number, rows, coming)
    sampling = asyncio.create_task(telemetry.run())
    async with served.serving() as client:
        for path in _PATHS:
            results[f"{path} ms"] = await median_ms(served, client, path)
        results["loop held up ms"] = await held_up_ms(served, client)
        for _ in range(max(1, scrapes // 20)):
            await scrape(served, client)
        results["MB before scrapes"] = resident_mb()
        for _ in range(scrapes):
            await scrape(served, client)
        results[f"MB after {scrapes} scrapes"] = resident_mb()
        for _ in range(max(1, requests // 20)):
            await ask(client, "/v1/status")
        results["MB at first"] = resident_mb()
        for number in range(requests):
            await ask(client, "/" if number % 10 == 0 else "/v1/status")
        results[f"MB after {requests} requests"] = resident_mb()
        await stall(served, clients, index=100_000)
        results[f"MB after {clients} clients"] = resident_mb()
        await stall(served, clients, index=200_000)
        results[f"MB after {clients} more"] = resident_mb()
        results["clients left"] = served.server.events.clients
    sampling.cancel()
    await asyncio.gather(sampling, return_exceptions=True)
    return results


async def median_ms(served: Served, client: aiohttp.ClientSession, path: str) -> float:
    times = []
    for _ in range(9):
        served.server.expire()
        rows = environment_rows(served.bench.core)
        served.server.history.take(served.bench.now, rows, dict.fromkeys(rows, 0))
        began = time.perf_counter()
        await ask(client, path)
        times.append((time.perf_counter() - began) * 1000)
    return round(statistics.median(times), 1)


class Loop:
    """A controller at rest."""

    synced = True
    inputs_waiting = 0


def telemetry_of(bench: Bench) -> Telemetry:
    """The metrics of a reconciler, and those of the Poseidon beside it."""
    telemetry = Telemetry(
        TelemetrySettings(),
        bench.core,
        Loop(),
        nomad_address="http://127.0.0.1:4646",
        endings=get_args(Ending),
        note=lambda _event, _detail: None,
        clock=lambda: bench.now,
        environ={},
    )
    drift = DriftWatch()
    rows = environment_rows(bench.core)
    drift.answered({id_: Statistics(int(id_), row.idle, row.idle, 0) for id_, row in rows.items()}, rows, bench.now)
    telemetry.poseidon = lambda: drift.view
    telemetry.stepped(bench.steps[0])
    return telemetry


async def scrape(served: Served, client: aiohttp.ClientSession) -> None:
    served.server.expire()
    await ask(client, "/metrics")


async def held_up_ms(served: Served, client: aiohttp.ClientSession) -> float:
    """The longest that the event loop, which has nothing else to do, was late while scrapes were made."""
    late_s = 0.0

    async def look() -> None:
        nonlocal late_s
        while True:
            due = time.perf_counter() + 0.001
            await asyncio.sleep(0.001)
            late_s = max(late_s, time.perf_counter() - due)

    looking = asyncio.create_task(look())
    for _ in range(9):
        await scrape(served, client)
    looking.cancel()
    return round(late_s * 1000, 1)


async def ask(client: aiohttp.ClientSession, path: str) -> None:
    async with client.get(path) as answer:
        assert answer.status == 200, path
        await answer.read()


async def stall(served: Served, clients: int, *, index: int) -> None:
    """Clients that ask for events and read nothing, while everything changes; then they are gone."""
    port = int(served.address.rpartition(":")[2])
    writers = []
    for _ in range(clients):
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(b"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        writers.append(writer)
    for turn in range(20):
        served.lose(turn % 3, index=index + turn)
        await asyncio.sleep(0.3)
    for writer in writers:
        writer.transport.abort()
    for _ in range(100):
        await asyncio.sleep(0.05)
        if served.server.events.clients == 0:
            break
    gc.collect()


def resident_mb() -> float:
    """What the process holds now, where the system tells; otherwise the most that it ever held."""
    gc.collect()
    with contextlib.suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return round(pages * resource.getpagesize() / 1e6, 1)
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3, 1)


if __name__ == "__main__":
    sys.exit(main())
