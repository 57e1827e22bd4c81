"""`simulate`: faults upon embedded clusters, course after course, each from one seed, against the promises."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

from poseidon_reconciler.app.errors import UsageError
from poseidon_reconciler.app.simulation.course import Course, course_of
from poseidon_reconciler.app.simulation.shrink import shrink
from poseidon_reconciler.app.simulation.simulation import Outcome, simulate
from poseidon_reconciler.core.wording import counted

PROMISES: Final = {
    1: "one loss leads to at most one replacement",
    2: "nothing disturbs a live used runner, nothing rests on a stale view",
    3: "never more than target and surge by our doing",
    4: "once faults stop, every pool is back at its target, and nothing more happens",
    5: "no replacement in an exactly pool while the old copy can still run",
    6: "the cluster is never flooded",
    7: "the same seed gives the same decisions",
    8: "nothing leads to a crash, and nobody spins",
}
_CHUNK: Final = 8


def run(options: argparse.Namespace) -> int:
    """Runs the command.

    Raises:
        UsageError: the numbers make no sense.
    """
    if options.seeds < 1 or options.seed < 0:
        raise UsageError("--seeds must be at least 1, and --seed at least 0")
    if options.mishaps is not None and options.mishaps < 0:
        raise UsageError("--mishaps must be at least 0")
    if options.story and options.seeds != 1:
        raise UsageError("--story tells of one seed: give --seeds 1")
    began = time.monotonic()
    outcomes = list(_run_all(options))
    broken = [outcome for outcome in outcomes if outcome.broken is not None]
    shrunk = [shrink(course_of(outcome.seed), outcome) for outcome in broken[: options.show]]
    lasted_s = time.monotonic() - began
    if options.json:
        print(json.dumps(_document(outcomes, shrunk, lasted_s)))
    else:
        _tell(outcomes, broken, shrunk, lasted_s)
    return 1 if broken else 0


def _run_all(options: argparse.Namespace) -> Iterator[Outcome]:
    if options.story:
        yield simulate(course_of(options.seed), mishaps=options.mishaps, tell=_print_line)
        return
    seeds = range(options.seed, options.seed + options.seeds)
    tasks = [(seed, options.mishaps) for seed in seeds]
    workers = min(os.cpu_count() or 1, -(-len(tasks) // _CHUNK))
    if workers == 1:
        yield from map(_run_one, tasks)
        return
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield from pool.imap(_run_one, tasks, chunksize=_CHUNK)


def _run_one(task: tuple[int, int | None]) -> Outcome:
    seed, mishaps = task
    return simulate(course_of(seed), mishaps=mishaps)


def _print_line(after_s: float, text: str) -> None:
    print(f"{after_s:9.3f} {text}")


def _tell(outcomes: list[Outcome], broken: list[Outcome], shrunk: list[Outcome], lasted_s: float) -> None:
    for outcome in shrunk:
        print("\n".join(_failure_lines(course_of(outcome.seed), outcome)))
    if len(broken) > len(shrunk):
        print(f"broken as well: seeds {', '.join(str(outcome.seed) for outcome in broken[len(shrunk) :])}")
    writes = sum((Counter(outcome.writes) for outcome in outcomes), Counter[str]())
    simulated_h = sum(outcome.lasted_s for outcome in outcomes) / 3600
    mishaps = sum(outcome.mishaps for outcome in outcomes)
    done = ", ".join(f"{kind} {number}" for kind, number in sorted(writes.items()))
    played = f"{counted(len(outcomes), 'seed')}, {counted(mishaps, 'mishap')}"
    print(f"{played}, {simulated_h:.1f} h simulated in {lasted_s:.1f} s; {done}")
    print(f"{len(broken)} broken" if broken else "no promise broken")


def _failure_lines(course: Course, outcome: Outcome) -> Iterable[str]:
    broken = outcome.broken
    assert broken is not None
    yield f"seed {outcome.seed}: promise {broken.number} broken after {broken.after_s:.1f} s: {broken.text}"
    yield f"  promised: {PROMISES[broken.number]}"
    yield f"  with the first {outcome.mishaps} of {len(course.mishaps)} mishaps:"
    for mishap in course.mishaps[: outcome.mishaps]:
        yield f"    {mishap}"
    yield (f"  again: poseidon-reconciler simulate --seed {outcome.seed} --seeds 1 --mishaps {outcome.mishaps} --story")


def _document(outcomes: list[Outcome], shrunk: list[Outcome], lasted_s: float) -> dict[str, Any]:
    broken = [outcome for outcome in outcomes if outcome.broken is not None]
    return {
        "seeds": len(outcomes),
        "lasted_s": round(lasted_s, 3),
        "simulated_s": round(sum(outcome.lasted_s for outcome in outcomes), 3),
        "broken": [outcome.seed for outcome in broken],
        "failures": [
            {
                "seed": outcome.seed,
                "promise": outcome.broken.number,
                "text": outcome.broken.text,
                "after_s": outcome.broken.after_s,
                "mishaps": [str(mishap) for mishap in course_of(outcome.seed).mishaps[: outcome.mishaps]],
            }
            for outcome in shrunk
            if outcome.broken is not None
        ],
        "digests": {str(outcome.seed): outcome.digest for outcome in outcomes},
    }
