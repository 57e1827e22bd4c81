"""The four lists as Nomad sent them, for those who keep them: list stubs, and the jobs of ours whole.

A whole job is read once for each time that it is registered, like for the lists that decisions are made by, and kept as
it was sent; what changed since then without a registration, such as its status, a newer stub tells.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from poseidon_reconciler.core.events import UNKNOWN, JobPayload
from poseidon_reconciler.core.ids import parse_job_id
from poseidon_reconciler.nomad.api import Api
from poseidon_reconciler.nomad.lists import read_each
from poseidon_reconciler.nomad.outcomes import Failure, NotFound, Ok, Outcome
from poseidon_reconciler.nomad.pages import Page

Member = tuple[bytes, ...]
"""One object as JSON: a document, and then what is newer of it."""

_stub: Final = msgspec.json.Decoder(JobPayload)


@dataclass(slots=True)
class RawLists:
    """What was read, by tables as they are named in the indexes. `failures`: why a table was not."""

    members: dict[str, list[Member]] = field(default_factory=dict)
    indexes: dict[str, int] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)


class _Known(NamedTuple):
    create_index: int
    job_modify_index: int
    submit_time: int
    body: bytes

    def is_of(self, stub: JobPayload) -> bool:
        return self[:3] == (stub.create_index, stub.job_modify_index, stub.submit_time)


class RawListReader:
    """Reads the lists again and again. It keeps every whole job in memory."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._known: dict[str, _Known] = {}

    async def read(self) -> RawLists:
        """All that can be read now."""
        jobs, allocations, nodes, evaluations = await asyncio.gather(
            self._read_jobs(),
            self._api.read_list("allocations", msgspec.Raw),
            self._api.read_list("nodes", msgspec.Raw),
            self._api.read_list("evaluations", msgspec.Raw),
        )
        lists = RawLists()
        if isinstance(jobs, Ok):
            lists.members["Jobs"], lists.indexes["Jobs"] = jobs.value, jobs.index
        else:
            lists.failures["Jobs"] = jobs
        rest: dict[str, Outcome[Page[msgspec.Raw]]] = {
            "Allocations": allocations, "Nodes": nodes, "Evaluations": evaluations
        }  # fmt: skip
        for table, outcome in rest.items():
            if isinstance(outcome, Ok):
                lists.members[table] = [(bytes(raw),) for raw in outcome.value.members]
                lists.indexes[table] = outcome.value.index
            else:
                lists.failures[table] = outcome
        lists.indexes = {table: index for table, index in lists.indexes.items() if index != UNKNOWN}
        return lists

    async def _read_jobs(self) -> Outcome[list[Member]]:
        outcome = await self._api.read_list("jobs", msgspec.Raw)
        if not isinstance(outcome, Ok):
            return outcome
        members: dict[str, Member] = {}
        unread: list[JobPayload] = []
        for number, raw in enumerate(outcome.value.members):
            stub = _decoded(raw)
            # What cannot be read is as it is; whoever plays it notices.
            job_id = stub.id if stub is not None else f"#{number}"
            members[job_id] = (bytes(raw),)
            if stub is None or parse_job_id(job_id) is None or stub.type not in (None, "batch"):
                continue
            known = self._known.get(job_id)
            if known is not None and known.is_of(stub):
                members[job_id] = (known.body, bytes(raw))
            else:
                unread.append(stub)
        self._known = {job_id: known for job_id, known in self._known.items() if job_id in members}
        failure = await read_each(unread, lambda stub: self._read_whole(stub, members), self._api.concurrency)
        return failure or Ok(list(members.values()), outcome.value.index)

    async def _read_whole(self, stub: JobPayload, members: dict[str, Member]) -> Failure | None:
        outcome = await self._api.read_job(stub.id, not_before=stub.modify_index)
        if isinstance(outcome, NotFound):
            del members[stub.id]
            return None
        if not isinstance(outcome, Ok):
            return outcome
        job, body = outcome.value.payload, outcome.value.body
        self._known[stub.id] = _Known(job.create_index, job.job_modify_index, job.submit_time, body)
        members[stub.id] = (body,)
        return None


def _decoded(raw: Any) -> JobPayload | None:
    try:
        return _stub.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
