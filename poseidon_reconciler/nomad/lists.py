"""The truth of the whole cluster: the four lists, with every job of ours whole.

A list of jobs holds stubs, and the marks that matter (`used`, `prewarmingPoolSize`) stand in a task group, which stubs
do not have. So each job of ours is read once by its id, and again only when it was registered anew; as long as one of
them cannot be read, the jobs count as not read, because a runner that is not known to be used looks idle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from poseidon_reconciler.core.events import (
    UNKNOWN,
    AllocationPayload,
    EvaluationPayload,
    JobPayload,
    NodePayload,
    Snapshot,
    TaskGroup,
)
from poseidon_reconciler.core.ids import parse_job_id
from poseidon_reconciler.nomad.api import Api
from poseidon_reconciler.nomad.outcomes import Failure, NotFound, Ok, Outcome
from poseidon_reconciler.nomad.pages import Page

_TABLES: Final = ("Jobs", "Allocations", "Nodes", "Evaluations")


@dataclass(frozen=True, slots=True)
class Lists:
    """What was read. `failures`: why a table (named as in the indexes) was not; `faults`: how many bad members."""

    snapshot: Snapshot
    failures: dict[str, Failure]
    faults: int


class _Known(NamedTuple):
    """The groups of a job, and the registration that they are of. An index alone can come twice, after a restore."""

    create_index: int
    job_modify_index: int
    submit_time: int
    groups: list[TaskGroup] | None

    def is_of(self, stub: JobPayload) -> bool:
        return self[:3] == (stub.create_index, stub.job_modify_index, stub.submit_time)


async def read_each(
    unread: list[JobPayload], read: Callable[[JobPayload], Awaitable[Failure | None]], concurrency: int
) -> Failure | None:
    """Reads jobs one by one, some at a time; returns the first failure, which ends it."""
    failures: list[Failure] = []

    async def work() -> None:
        while unread and not failures:
            failure = await read(unread.pop())
            if failure is not None:
                failures.append(failure)

    await asyncio.gather(*[work() for _ in range(max(1, concurrency))])
    return failures[0] if failures else None


class ListReader:
    """Reads the lists again and again, and each whole job once for each time that it is registered.

    Args:
        templates: where the environments' own jobs are kept, as Nomad gave them, by job id. One that is gone stays.
    """

    def __init__(self, api: Api, templates: MutableMapping[str, bytes]) -> None:
        self._api = api
        self._templates = templates
        self._known: dict[str, _Known] = {}
        self._typical: dict[str, list[TaskGroup]] = {}

    async def read(self) -> Lists:
        """All that can be read now; what cannot is absent from the snapshot."""
        jobs, allocations, nodes, evaluations = await asyncio.gather(
            self._read_jobs(),
            self._api.read_list("allocations", AllocationPayload),
            self._api.read_list("nodes", NodePayload),
            self._api.read_list("evaluations", EvaluationPayload),
        )
        pages: list[tuple[str, Outcome[Page[object]]]] = list(
            zip(_TABLES, (jobs, allocations, nodes, evaluations), strict=True)  # type: ignore[arg-type]
        )
        read = {table: outcome.value for table, outcome in pages if isinstance(outcome, Ok)}
        snapshot = Snapshot(
            **{table.lower(): page.members for table, page in read.items()},  # type: ignore[arg-type]
            indexes={table: page.index for table, page in read.items() if page.index != UNKNOWN},
        )
        failures = {table: outcome for table, outcome in pages if not isinstance(outcome, Ok)}
        return Lists(snapshot, failures, sum(page.faults for page in read.values()))

    async def _read_jobs(self) -> Outcome[Page[JobPayload]]:
        outcome = await self._api.read_list("jobs", JobPayload)
        if not isinstance(outcome, Ok):
            return outcome
        page = outcome.value
        members = {job.id: job for job in page.members}
        self._known = {job_id: known for job_id, known in self._known.items() if job_id in members}
        failure = await self._complete(members)
        if failure is not None:
            return failure
        page.members = list(members.values())
        return outcome

    async def _complete(self, members: dict[str, JobPayload]) -> Failure | None:
        """Gives each job of ours its groups. One that is gone by now is dropped; the first other failure ends it."""
        unread = []
        for job in members.values():
            known = self._known.get(job.id)
            if known is not None and known.is_of(job):
                job.task_groups = known.groups
            elif parse_job_id(job.id) is not None and job.type in (None, "batch"):
                unread.append(job)
        # Half of the threads: a confirmation must not wait behind ten thousand of these.
        return await read_each(unread, lambda job: self._read_whole(job, members), self._api.concurrency // 2)

    async def _read_whole(self, stub: JobPayload, members: dict[str, JobPayload]) -> Failure | None:
        outcome = await self._api.read_job(stub.id, not_before=stub.modify_index)
        if isinstance(outcome, NotFound):
            del members[stub.id]
            return None
        if not isinstance(outcome, Ok):
            return outcome
        job = outcome.value.payload
        name = parse_job_id(job.id)
        if name is not None and name.kind == "environment":
            self._templates[job.id] = outcome.value.body
        groups = self._shared(name.environment_id if name is not None else "", job.task_groups)
        job.task_groups = groups
        self._known[job.id] = _Known(job.create_index, job.job_modify_index, job.submit_time, groups)
        members[job.id] = job
        return None

    def _shared(self, environment_id: str, groups: list[TaskGroup] | None) -> list[TaskGroup] | None:
        """The runners of an environment differ in little: what is equal is kept once."""
        if groups is None:
            return None
        typical = self._typical.setdefault(environment_id, groups)
        if len(typical) != len(groups):
            return groups
        return [known if known == group else group for known, group in zip(typical, groups, strict=True)]
