"""How fast the core reads the event stream, and what a tracked runner costs.

Ratios within one run, never times: the machine is part of every time and cancels out of a ratio. Each contender runs
several times in turn with the others, and its best run counts.

    python benchmarks/ingest.py [--json] [--megabytes N] [--rounds N]
"""

from __future__ import annotations

import argparse
import gc
import io
import json
import sys
import time
import tracemalloc
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import orjson
import requests
import workload

from poseidon_reconciler.core.diagnosis import Diagnosis
from poseidon_reconciler.core.framing import LineSplitter
from poseidon_reconciler.core.lines import read_block, read_line, read_texts
from poseidon_reconciler.core.model import Model
from poseidon_reconciler.core.reconciler import Reconciler
from poseidon_reconciler.policy import Policy
from poseidon_reconciler.recording.flight import Entry, FlightRing, Packed, pack

_CHUNK_BYTES = 256 * 1024
_GOALS = {
    "vs_orjson": (">=", 1.0),
    "growth": ("<=", 1.3),
    "bytes_per_runner": ("<=", 4096.0),
    "flight_recorder_loop": ("<=", 1.5),
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures the ingest pipeline against bare JSON decoding.")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--megabytes", type=int, default=50, help="size of the input (default: 50)")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each contender (default: 5)")
    options = parser.parse_args()
    results = {
        **throughput(workload.recorded_lines(options.megabytes * 1_000_000), options.rounds),
        **growth(options.rounds),
        **memory(),
    }
    if options.json:
        print(json.dumps(results, indent=2))
    else:
        _print(results)
    return 0


def throughput(lines: list[bytes], rounds: int) -> dict[str, float]:
    """The whole pipeline (bytes in, model and diagnosis up to date after every line) against decoders alone."""
    data = b"\n".join(lines) + b"\n"

    def bare_orjson() -> None:
        # From the same bytes as the others, so the lines have to be found here as well.
        for line in io.BytesIO(data):
            orjson.loads(line)

    def python_nomad() -> None:
        response = requests.Response()
        response.raw = io.BytesIO(data)
        for line in response.iter_lines():
            json.loads(line)

    chunks = [data[start : start + _CHUNK_BYTES] for start in range(0, len(data), _CHUNK_BYTES)]
    contenders = [lambda: run_pipeline(chunks), lambda: run_with_plan(chunks), bare_orjson, python_nomad]
    pipeline, with_plan, orjson_s, nomad_s = _best(contenders, rounds)
    return {
        "megabytes": round(len(data) / 1e6, 1),
        "megabytes_per_second": round(len(data) / pipeline / 1e6, 1),
        "vs_orjson": round(orjson_s / pipeline, 3),
        "vs_orjson_with_plan": round(orjson_s / with_plan, 3),
        "vs_python_nomad": round(nomad_s / pipeline, 2),
        **flight_recorder(chunks, rounds),
    }


def flight_recorder(chunks: list[bytes], rounds: int) -> dict[str, float]:
    """The processor's time with a flight recorder as a multiple of that without: of the loop's thread, and of all."""
    contenders = [lambda: run_with_plan(chunks), lambda: run_recorded(chunks)]
    loop_without, loop_with = _best(contenders, rounds, time.thread_time)
    all_without, all_with = _best(contenders, rounds, time.process_time)
    return {
        "flight_recorder_loop": round(loop_with / loop_without, 3),
        "flight_recorder_all": round(all_with / all_without, 3),
    }


def run_pipeline(chunks: list[bytes]) -> Diagnosis:
    """Takes the bytes as a socket gives them, and has every verdict and every pool's numbers right after each line."""
    splitter = LineSplitter()
    model = Model()
    diagnosis = Diagnosis(model, Policy())
    now = 0.0
    for chunk in chunks:
        for line in read_block(splitter.feed(chunk)):
            now += 0.001
            model.apply(line, now)
            diagnosis.update(now)
    return diagnosis


def run_with_plan(chunks: list[bytes]) -> Reconciler:
    """The same, and decides after each line what to do."""
    splitter = LineSplitter()
    core = Reconciler(Policy())
    now = 0.0
    for chunk in chunks:
        for line in read_block(splitter.feed(chunk)):
            now += 0.001
            core.feed_frame(line, now)
    return core


def run_recorded(chunks: list[bytes]) -> FlightRing:
    """The same, with all that the core is told kept by a flight recorder, which packs it on another thread."""
    splitter = LineSplitter()
    core = Reconciler(Policy())
    ring = FlightRing(32_000_000)
    now = 0.0
    with ThreadPoolExecutor(1) as thread:
        packing: Future[list[Packed]] | None = None
        for chunk in chunks:
            for line, text in read_texts(splitter.feed(chunk)):
                now += 0.001
                ring.add(Entry(now, "Frame", text))
                core.feed_frame(line, now)
            if packing is None or packing.done():
                ring.put(packing.result() if packing is not None else ())
                packing = thread.submit(pack, ring.take_waiting())
    return ring


def growth(rounds: int) -> dict[str, float]:
    """The time for one event in a pool of 50 000 runners, as a multiple of that in a pool of 500."""
    best = {}
    for runners in (500, 50_000):
        pool = workload.PoolWriter(runners)
        core = Reconciler(Policy())
        for raw in pool.registration_lines():
            core.feed_frame(read_line(raw), 1.0)
        times = []
        for number in range(rounds):
            batch = pool.restart_lines(5000)
            began = time.perf_counter()
            for raw in batch:
                core.feed_frame(read_line(raw), 2.0 + number)
            times.append(time.perf_counter() - began)
        best[runners] = min(times)
    return {"growth": round(best[50_000] / best[500], 3)}


def memory() -> dict[str, float]:
    """The memory of the whole core for each of 100 000 tracked runners."""
    runners = 100_000
    core = Reconciler(Policy())
    gc.collect()
    tracemalloc.start()
    for raw in workload.PoolWriter(runners).registration_lines():
        core.feed_frame(read_line(raw), 1.0)
    gc.collect()
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert core.diagnosis.runners == runners
    return {"bytes_per_runner": round(used / runners)}


def _best(
    contenders: list[Callable[[], object]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    best = [float("inf")] * len(contenders)
    for _ in range(rounds):
        for place, contender in enumerate(contenders):
            gc.collect()
            began = clock()
            contender()
            best[place] = min(best[place], clock() - began)
    return best


def _print(results: dict[str, float]) -> None:
    for name, value in results.items():
        goal = _GOALS.get(name)
        met = ""
        if goal is not None:
            holds = value >= goal[1] if goal[0] == ">=" else value <= goal[1]
            met = f"  (goal {goal[0]} {goal[1]:g}: {'met' if holds else 'missed'})"
        print(f"{name:<22}{value:>10}{met}")


if __name__ == "__main__":
    sys.exit(main())
