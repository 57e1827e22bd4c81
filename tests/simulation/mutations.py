"""Breaks one rule of the real code at a time, and looks whether the simulation notices.

Run by hand: `python tests/simulation/mutations.py [--seeds 2000] [NAME...]`. It ends with status 1 if one is not found.
`docs/simulation.md` says what each of them means.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
import uuid
from collections.abc import Callable, Iterable
from multiprocessing import get_context
from typing import Any, Final
from unittest import mock

import orjson

from poseidon_reconciler.app.simulation.course import course_of
from poseidon_reconciler.app.simulation.simulation import Broken, simulate
from poseidon_reconciler.controller import loop
from poseidon_reconciler.core import diagnosis, refill, surplus
from poseidon_reconciler.core.facts import Facts
from poseidon_reconciler.core.pace import RateLimit, StormWatch
from poseidon_reconciler.core.pauses import Pauses
from poseidon_reconciler.core.plan import Planner
from poseidon_reconciler.core.poison import Poison
from poseidon_reconciler.core.reconciler import Reconciler
from poseidon_reconciler.core.records import Job
from poseidon_reconciler.core.refill import Refill
from poseidon_reconciler.core.snapshots import SnapshotReader
from poseidon_reconciler.nomad import creating, documents, executor, protecting, repairing, trimming
from poseidon_reconciler.nomad.api import Api
from poseidon_reconciler.nomad.execution import Executed, Task, Tools
from poseidon_reconciler.nomad.outcomes import Outcome
from poseidon_reconciler.nomad.transport import Request
from poseidon_reconciler.policy import PoolPolicy

Change = tuple[object, str, Any]


async def register_over(api: Api, document: documents.Document, *, enforce_index: int) -> Outcome[int]:
    if enforce_index:
        body = {"Job": document, "EnforceIndex": True, "JobModifyIndex": enforce_index}
    else:
        body = {"Job": document}
    return await api._write(Request("post", "jobs", body=orjson.dumps(body)))


def _in_the_task(job: documents.Document, stamp: documents.Stamp) -> documents.Document:
    document = documents.protected(job, stamp)
    for group in document["TaskGroups"]:
        for task in group["Tasks"]:
            task["Env"] = {**(task.get("Env") or {}), "DECISION": str(stamp)}
    return document


def _unchanged(job: documents.Document, _: documents.Stamp) -> documents.Document:
    return {**job, "Stop": False}


def _any_id() -> Callable[..., str]:
    numbers = itertools.count()
    return lambda environment_id, *_: f"{environment_id}-{uuid.uuid5(uuid.NAMESPACE_OID, str(next(numbers)))}"


def _counts_if_idle(job: Job, state: str, _: PoolPolicy) -> bool:
    return job.kind == "runner" and not job.used and state == "idle"


_facts = diagnosis.Diagnosis.facts


def _facts_at_least(self: diagnosis.Diagnosis, job: Job, now: float) -> Facts:
    facts = _facts(self, job, now)
    facts.policy = facts.policy.model_copy(update={"disconnect_policy": "at-least"})
    return facts


async def _stop_unconditionally(tools: Tools, task: Task) -> Executed:
    for purge in (False, True):
        await tools.api.deregister(task.action.job_id, purge=purge)
    return task.done("stopped and purged")


async def _register_stops_over(api: Api, document: documents.Document, *, enforce_index: int) -> Outcome[int]:
    if document.get("Stop"):
        return await register_over(api, document, enforce_index=0)
    return await _register(api, document, enforce_index=enforce_index)


def _assess_one_more(self: surplus.Surplus, environment_id: str, now: float) -> None:
    _assess(self, environment_id, now)
    excess = self._pools.get(environment_id)
    if excess is not None:
        idle = self._desk.diagnosis.pools[environment_id].count("idle")
        wanted = min(idle, max(0, idle - excess.target + 1))
        if wanted != excess.idle.size:
            excess.idle.set(wanted, now)


_register, _assess = Api.register, surplus.Surplus.assess


def _nothing(*_: Any, **__: Any) -> None:
    """In place of what is to be left out."""


MUTATIONS: Final[dict[str, Callable[[], list[Change]]]] = {
    "creates-over": lambda: [(Api, "register", register_over)],
    "counts-idle-only": lambda: [(diagnosis, "_counts", _counts_if_idle)],
    "believes-the-model": lambda: [
        (repairing, "why_not_lost", lambda *_: None),
        (creating, "why_not_lost", lambda *_: None),
    ],
    "random-names": lambda: [(refill, "replacement_id", _any_id())],
    "no-pace": lambda: [
        (RateLimit, "take", lambda *_: True),
        (StormWatch, "update", _nothing),
        (Refill, "room_to_start", lambda _: 1000),
    ],
    "two-copies": lambda: [(diagnosis.Diagnosis, "facts", _facts_at_least)],
    "restarts-to-protect": lambda: [
        (protecting, "protected", _in_the_task),
        (protecting, "why_not_in_place", lambda *_: None),
    ],
    "revives-unchanged": lambda: [(repairing, "revived", _unchanged)],
    "old-epoch": lambda: [(SnapshotReader, "_contradicts", lambda *_: False)],
    "gives-up": lambda: [(Planner, "_allow_again", _nothing)],
    "no-ceiling": lambda: [(Refill, "room_in", lambda *_: 1000)],
    "trims-blindly": lambda: [(executor._ACTIONS, "stop-surplus", _stop_unconditionally)],
    "trims-used": lambda: [
        (trimming, "_why_not_idle", lambda _: None),
        (Api, "register", _register_stops_over),
        (loop, "is_overtaken", _nothing),
    ],
    "trims-after-claims": lambda: [(surplus.Surplus, "claims_settle_at", lambda *_: 0.0)],
    "trims-below-target": lambda: [(surplus.Surplus, "assess", _assess_one_more)],
    "trims-at-once": lambda: [(surplus, "AT_ONCE", 1000)],
    "keeps-surplus": lambda: [(surplus.Surplus, "plan", lambda *_: [])],
    "forgets-pauses": lambda: [(Pauses, "of", _nothing)],
    "old-wishes": lambda: [(Reconciler, "change_policy", _nothing)],
    "no-poison": lambda: [(Poison, "of", _nothing)],
}
"""By name: what is replaced by what."""


def _change(target: object, attribute: str, new: Any) -> Any:
    if isinstance(target, dict):
        return mock.patch.dict(target, {attribute: new})
    return mock.patch.object(target, attribute, new)


def first_found(name: str, seeds: Iterable[int]) -> tuple[int, Broken] | None:
    """The first of the seeds that breaks a promise under a mutation, and which one."""
    changes = [_change(*change) for change in MUTATIONS[name]()]
    for change in changes:
        change.start()
    try:
        for seed in seeds:
            broken = simulate(course_of(seed)).broken
            if broken is not None:
                return seed, broken
        return None
    finally:
        for change in changes:
            change.stop()


def _run(task: tuple[str, int]) -> tuple[str, tuple[int, Broken] | None, float]:
    name, seeds = task
    began = time.monotonic()
    return name, first_found(name, range(seeds)), time.monotonic() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seeds", type=int, default=2000)
    options = parser.parse_args()
    missed = 0
    with get_context("spawn").Pool() as pool:
        tasks = [(name, options.seeds) for name in options.names or MUTATIONS]
        for name, found, lasted_s in pool.imap(_run, tasks):
            missed += found is None
            what = f"seed {found[0]}: promise {found[1].number}: {found[1].text}" if found is not None else "NOT FOUND"
            sys.stdout.write(f"{name:20} {lasted_s:6.1f} s  {what}\n")
            sys.stdout.flush()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
