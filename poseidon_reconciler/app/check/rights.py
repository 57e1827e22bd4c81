"""Whether the token allows what `run` needs, found out by doing it where that changes nothing.

Nothing but the attempt tells: a policy may be read by managers only, and several may add up.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from urllib.parse import quote

import orjson

from poseidon_reconciler.app.check.report import Check, fail, ok, warn
from poseidon_reconciler.app.check.version import plans_are_a_right_of_their_own
from poseidon_reconciler.core.events import AllocationPayload, EvaluationPayload, JobPayload, NodePayload, Snapshot
from poseidon_reconciler.nomad.api import JobRead, Plan
from poseidon_reconciler.nomad.outcomes import Answer, Denied, NotFound, Ok, Outcome, Unknown, failure_of
from poseidon_reconciler.nomad.pages import Page, read_pages
from poseidon_reconciler.nomad.probe import Probe, decoded

T = TypeVar("T")

NODE_RULE: Final = 'node { policy = "read" }'
_NO_ANSWER: Final = "look again; if it stays, see the servers' logs and what stands between them and this machine"


@dataclass(slots=True)
class Tables:
    """What was listed; None where that did not work."""

    jobs: Page[JobPayload] | None = None
    allocations: Page[AllocationPayload] | None = None
    evaluations: Page[EvaluationPayload] | None = None
    nodes: Page[NodePayload] | None = None
    checks: list[Check] = field(default_factory=list)

    def snapshot(self) -> Snapshot:
        """All of it, as the core takes it in."""
        return Snapshot(
            jobs=self.jobs.members if self.jobs is not None else None,
            allocations=self.allocations.members if self.allocations is not None else None,
            nodes=self.nodes.members if self.nodes is not None else None,
        )


async def list_everything(probe: Probe, limit_s: float) -> Tables:
    """Reads the four lists that `run` begins with."""
    jobs, allocations, evaluations, nodes = await asyncio.gather(
        _list(probe, "jobs", JobPayload, limit_s),
        _list(probe, "allocations", AllocationPayload, limit_s),
        _list(probe, "evaluations", EvaluationPayload, limit_s),
        _list(probe, "nodes", NodePayload, limit_s),
    )
    namespace = probe.namespace
    rights = {
        "jobs": namespace_rule(namespace, "list-jobs"),
        "allocations": namespace_rule(namespace, "read-job"),
        "evaluations": namespace_rule(namespace, "read-job"),
        "nodes": NODE_RULE,
    }
    outcomes: dict[str, Outcome[Page[Any]]] = {
        "jobs": jobs,
        "allocations": allocations,
        "evaluations": evaluations,
        "nodes": nodes,
    }
    read = {table: outcome.value for table, outcome in outcomes.items() if isinstance(outcome, Ok)}
    checks = [_listed(table, outcome, rights[table]) for table, outcome in outcomes.items()]
    return Tables(**read, checks=checks)


async def _list(probe: Probe, table: str, kind: type[T], limit_s: float) -> Outcome[Page[T]]:
    async def ask(params: dict[str, str], read: Callable[[Answer], Outcome[Page[T]]]) -> Outcome[Page[T]]:
        answer = await probe.ask(f"/v1/{table}", params=params, limit_s=limit_s)
        return (failure_of(answer) or read(answer)) if isinstance(answer, Answer) else answer

    try:
        async with asyncio.timeout(limit_s):
            return await read_pages(ask, kind)
    except TimeoutError:
        return Unknown(f"not read within {limit_s:g} s")


def _listed(table: str, outcome: Outcome[Page[Any]], rule: str) -> Check:
    name = f"list {table}"
    if not isinstance(outcome, Ok):
        return _failed(name, outcome, rule)
    page = outcome.value
    if page.faults:
        advice = "report it: this is another Nomad than this program knows"
        return warn(name, f"{page.faults} of {page.faults + len(page.members)} cannot be understood", advice)
    return ok(name, f"allowed, {len(page.members)} of them")


def _failed(name: str, outcome: Outcome[Any], rule: str) -> Check:
    assert not isinstance(outcome, Ok)
    if isinstance(outcome, Denied):
        return fail(name, f"not allowed: {outcome.detail}", f"add to the token's policy: {rule}")
    return fail(name, outcome.detail, _NO_ANSWER)


def namespace_rule(namespace: str, capability: str) -> str:
    """What a policy must say for a right in a namespace."""
    return f'namespace "{namespace}" {{ capabilities = ["{capability}"] }}'


# --- whole jobs ----------------------------------------------------------------------------------------------------


async def read_jobs(probe: Probe, job_ids: Iterable[str], limit_s: float) -> dict[str, Outcome[JobRead]]:
    """Whole jobs by id; those that were not read in time are missing."""
    read: dict[str, Outcome[JobRead]] = {}

    async def read_one(job_id: str) -> None:
        answer = await probe.ask(f"/v1/job/{quote(job_id, safe='')}", limit_s=limit_s)
        job = decoded(answer, JobPayload)
        if isinstance(job, Ok) and isinstance(answer, Answer):
            read[job_id] = Ok(JobRead(job.value, answer.body, job.index), job.index)
        elif not isinstance(job, Ok):
            read[job_id] = job

    await _all_in_time([read_one(job_id) for job_id in job_ids], limit_s)
    return read


async def complete(probe: Probe, allocations: Iterable[AllocationPayload], limit_s: float) -> None:
    """Puts into stubs what only whole allocations have on old servers; some of them, if that takes too long."""

    async def complete_one(allocation: AllocationPayload) -> None:
        path = f"/v1/allocation/{quote(allocation.id, safe='')}"
        outcome = await probe.read(path, AllocationPayload, limit_s=limit_s)
        if isinstance(outcome, Ok):
            allocation.next_allocation = outcome.value.next_allocation

    await _all_in_time([complete_one(allocation) for allocation in allocations], limit_s)


async def _all_in_time(reads: Iterable[Coroutine[Any, Any, None]], limit_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limit_s), asyncio.TaskGroup() as group:
            for read in reads:
                group.create_task(read)


def look_at_reading(probe: Probe, job_id: str | None, read: dict[str, Outcome[JobRead]]) -> Check:
    """Whether a whole job can be read."""
    name = "read a job"
    if job_id is None:
        return warn(name, "there is none to try it with", "look again when there are environments")
    outcome = read.get(job_id, Unknown(f"{job_id} was not read in time"))
    if isinstance(outcome, Ok):
        return ok(name, f"allowed ({job_id})")
    if isinstance(outcome, NotFound):
        return warn(name, f"{job_id} is gone by now", "look again")
    return _failed(name, outcome, namespace_rule(probe.namespace, "read-job"))


async def look_at_planning(probe: Probe, job: JobRead | None, version: str | None, limit_s: float) -> Check:
    """Whether jobs may be registered: planning one as it is needs the same right, and changes nothing."""
    name = "plan a job"
    if job is None:
        return warn(name, "not tried: no job was read", "look again when there is one that can be read")
    job_id = job.payload.id
    body = orjson.dumps({"Job": job.document(), "Diff": False, "PolicyOverride": False})
    answer = await probe.ask(f"/v1/job/{quote(job_id, safe='')}/plan", method="POST", body=body, limit_s=limit_s)
    outcome = decoded(answer, Plan)
    if isinstance(outcome, Ok):
        doubt = (
            "; a token with plan-job in place of submit-job needs register-job and purge-job too"
            if plans_are_a_right_of_their_own(version)
            else ""
        )
        return ok(name, f"allowed ({job_id}, unchanged){doubt}")
    check = _failed(name, outcome, namespace_rule(probe.namespace, "submit-job"))
    if isinstance(outcome, Denied):
        without = "without it nothing can be protected, created, revived or removed"
        return fail(name, check.detail, f"{check.advice}; {without}")
    return check
