"""Nomad's API as far as we use it: single reads that prove their age, and writes that end in certainty.

A read that is older than what called for it is no confirmation: it is asked again, and at last it is `Unknown`.
Reads are repeated within bounds, writes never: one whose answer was lost is settled by reading the job back. The mark
in the document that was written (`documents.mark_of`) tells our change from anybody else's.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote

import msgspec
import orjson
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from poseidon_reconciler.core.events import UNKNOWN, EvaluationPayload, JobPayload, NodePayload
from poseidon_reconciler.nomad.documents import Document, mark_of
from poseidon_reconciler.nomad.outcomes import (
    Answer,
    Conflict,
    NotFound,
    Ok,
    Outcome,
    Unavailable,
    Unknown,
    staleness_of,
)
from poseidon_reconciler.nomad.pages import Page, read_pages
from poseidon_reconciler.nomad.transport import Endpoint, Request, Transport
from poseidon_reconciler.nomad.trouble import ToldAllocation

T = TypeVar("T")

_READ_ATTEMPTS: Final = 4
_LONGEST_WAIT_S: Final = 2.0
_SETTLE_WAITS_S: Final = (0.0, 0.5, 2.0)


@dataclass(frozen=True, slots=True)
class JobRead:
    """A whole job: its typed part, and all of it as Nomad gave it."""

    payload: JobPayload
    body: bytes
    index: int

    def document(self) -> Document:
        """The whole job as a new value, to be changed and registered."""
        document: Document = orjson.loads(self.body)
        return document


class DesiredUpdates(msgspec.Struct, rename="pascal"):
    """What the scheduler would do to the allocations of one group. Older servers know only the first seven."""

    ignore: int = 0
    place: int = 0
    migrate: int = 0
    stop: int = 0
    in_place_update: int = 0
    destructive_update: int = 0
    canary: int = 0
    preemptions: int = 0
    disconnect: int = 0
    reconnect: int = 0
    reschedule_now: int = 0
    reschedule_later: int = 0


class _Annotations(msgspec.Struct):
    updates: dict[str, DesiredUpdates] | None = msgspec.field(default=None, name="DesiredTGUpdates")


class Plan(msgspec.Struct):
    """The scheduler's dry run."""

    annotations: _Annotations | None = msgspec.field(default=None, name="Annotations")

    @property
    def updates(self) -> dict[str, DesiredUpdates] | None:
        """By group; None if the scheduler did not tell."""
        return self.annotations.updates if self.annotations is not None else None


class _Written(msgspec.Struct):
    job_modify_index: int = msgspec.field(name="JobModifyIndex")


class _Stopped(msgspec.Struct):
    index: int = msgspec.field(name="Index")


class _Member(msgspec.Struct, rename="pascal"):
    tags: dict[str, str] = {}


class _Members(msgspec.Struct, rename="pascal"):
    members: list[_Member]


class _NoAnswerError(Exception):
    """A read that may give more if it is repeated."""

    def __init__(self, outcome: Unavailable | Unknown) -> None:
        super().__init__(outcome.detail)
        self.outcome = outcome


class Api:
    """Requests by their meaning. No method raises: what went wrong is part of what it returns."""

    def __init__(self, transport: Transport, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._may_write: Callable[[], bool] = lambda: True
        self._transport = transport
        self._sleep = sleep

    @property
    def concurrency(self) -> int:
        """How many requests may be under way at once."""
        return self._transport.threads

    def guarded(self, may_write: Callable[[], bool]) -> Self:
        """The same API for one decision: `may_write` is asked right before each write, and where it says no, nothing is
        sent. Between a decision and its write lie reads, during which the view that it rests on can become stale, or
        somebody can have the job left alone.
        """
        guarded = copy.copy(self)
        guarded._may_write = may_write  # noqa: SLF001 - it is of this class
        return guarded

    async def close(self) -> None:
        """Ends all requests and connections; see `Transport.close`."""
        await self._transport.close()

    # --- reads -----------------------------------------------------------------------------------------------------

    async def read_job(self, job_id: str, *, not_before: int = UNKNOWN) -> Outcome[JobRead]:
        """A job by its exact id, as of an index of at least `not_before`."""
        return await self._read(Request("get", "job", (_quoted(job_id),)), _read_job, not_before)

    async def read_job_allocations(self, job_id: str, *, not_before: int = UNKNOWN) -> Outcome[list[ToldAllocation]]:
        """The allocations of this job; not those of a job that had its id before."""
        request = Request("get", "job", (_quoted(job_id), "allocations"))
        return await self._read(request, _reader(list[ToldAllocation] | None, list), not_before)

    async def read_job_evaluations(self, job_id: str, *, not_before: int = UNKNOWN) -> Outcome[list[EvaluationPayload]]:
        """The evaluations that Nomad still keeps of this job."""
        request = Request("get", "job", (_quoted(job_id), "evaluations"))
        return await self._read(request, _reader(list[EvaluationPayload] | None, list), not_before)

    async def read_node(self, node_id: str) -> Outcome[NodePayload]:
        """A node by its id."""
        return await self._read(Request("get", "node", (_quoted(node_id),)), _reader(NodePayload), UNKNOWN)

    async def read_list(self, endpoint: Endpoint, kind: type[T]) -> Outcome[Page[T]]:
        """A whole list, page by page."""

        async def ask(params: dict[str, str], read: Callable[[Answer], Outcome[Page[T]]]) -> Outcome[Page[T]]:
            return await self._read(Request("get", endpoint, params=params), read, UNKNOWN)

        return await read_pages(ask, kind)

    async def read_server_versions(self) -> Outcome[list[str]]:
        """The versions of all servers that the agent knows; needs the right `node:read`."""
        request = Request("get", "agent", ("members",))
        outcome = await self._read(request, lambda answer: _decoded(answer, _Members), UNKNOWN)
        if not isinstance(outcome, Ok):
            return outcome
        return Ok([member.tags.get("build", "") for member in outcome.value.members])

    async def plan(self, document: Document) -> Outcome[Plan]:
        """What registering a document would lead to. Changes nothing, but needs the right to register."""
        body = orjson.dumps({"Job": document, "Diff": False, "PolicyOverride": False})
        request = Request("post", "job", (_quoted(document["ID"]), "plan"), body=body)
        return await self._read(request, lambda answer: _decoded(answer, Plan), UNKNOWN)

    # --- writes ----------------------------------------------------------------------------------------------------

    async def register(self, document: Document, *, enforce_index: int) -> Outcome[int]:
        """Registers a job if it is still as it was read.

        `enforce_index` is its `JobModifyIndex` as read, 0 if it must not exist. Returns the new one; `Unknown` only if
        reading the job back did not show our change either.
        """
        body = orjson.dumps({"Job": document, "EnforceIndex": True, "JobModifyIndex": enforce_index})
        outcome = await self._write(Request("post", "jobs", body=body))
        if isinstance(outcome, Unknown):
            return await self._settle(outcome, document["ID"], lambda job: _registered(job, document, enforce_index))
        return outcome

    async def deregister(self, job_id: str, *, purge: bool) -> Outcome[int]:
        """Stops a job, or with `purge` removes it. One that does not exist (any more) is `Ok` too."""
        request = Request("delete", "job", (_quoted(job_id),), params={"purge": "true" if purge else "false"})
        outcome = await self._write(request)
        if isinstance(outcome, Unknown):
            return await self._settle(outcome, job_id, lambda job: _deregistered(job, purge=purge))
        return outcome

    async def stop_allocation(self, allocation_id: str) -> Outcome[int]:
        """Has an allocation stopped and placed anew; needs the right `alloc-lifecycle`.

        Returns the write's index; nothing settles a lost answer.
        """
        return await self._write(Request("post", "allocation", (_quoted(allocation_id), "stop")), _read_stopped)

    async def _write(self, request: Request, read: Callable[[Answer], Outcome[int]] | None = None) -> Outcome[int]:
        if not self._may_write():
            return Unavailable("nothing was sent: what was decided on is no longer known to be so, or wanted")
        return await self._transport.send(request, read or _read_written)

    async def _settle(
        self, outcome: Unknown, job_id: str, judge: Callable[[JobRead | NotFound], Outcome[int] | None]
    ) -> Outcome[int]:
        """Reads a job until it shows what became of a write; what is still on its way is seen a little later."""
        seen = "and the job cannot be read"
        for wait_s in _SETTLE_WAITS_S:
            await self._sleep(wait_s)
            read = await self.read_job(job_id)
            if isinstance(read, Ok | NotFound):
                verdict = judge(read.value if isinstance(read, Ok) else read)
                if verdict is not None:
                    return verdict
                seen = f"and the job does not show it as of index {read.index}"
        return Unknown(f"{outcome.detail}; {seen}")

    async def _read(self, request: Request, read: Callable[[Answer], Outcome[T]], not_before: int) -> Outcome[T]:
        async def once() -> Outcome[T]:
            outcome = await self._transport.send(request, read)
            if isinstance(outcome, Unavailable | Unknown):
                raise _NoAnswerError(outcome)
            if isinstance(outcome, Ok | NotFound) and outcome.index < not_before:
                behind = f"the answer is of index {outcome.index}, older than what it is to confirm ({not_before})"
                raise _NoAnswerError(Unknown(behind))
            return outcome

        retrying = AsyncRetrying(
            sleep=self._sleep,
            stop=stop_after_attempt(_READ_ATTEMPTS),
            wait=wait_random_exponential(multiplier=0.1, max=_LONGEST_WAIT_S),
            retry=retry_if_exception_type(_NoAnswerError),
            reraise=True,
        )
        try:
            return await retrying(once)
        except _NoAnswerError as error:
            return error.outcome


def _quoted(part: str) -> str:
    return quote(part, safe="")


def _decoded(answer: Answer, kind: type[T]) -> Outcome[T]:
    try:
        return Ok(msgspec.json.decode(answer.body, type=kind), answer.index)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Unknown(f"{answer.status} with an unreadable body: {error}")


def _reader(kind: Any, otherwise: Callable[[], T] | None = None) -> Callable[[Answer], Outcome[T]]:
    """Reads an answer of the state store; `otherwise` gives what `null` stands for."""

    def read(answer: Answer) -> Outcome[T]:
        stale = staleness_of(answer)
        if stale is not None:
            return stale
        outcome: Outcome[Any] = _decoded(answer, kind)
        if isinstance(outcome, Ok) and outcome.value is None and otherwise is not None:
            return Ok(otherwise(), outcome.index)
        return outcome

    return read


_read_job_payload: Final[Callable[[Answer], Outcome[JobPayload]]] = _reader(JobPayload)


def _read_job(answer: Answer) -> Outcome[JobRead]:
    outcome = _read_job_payload(answer)
    if not isinstance(outcome, Ok):
        return outcome
    return Ok(JobRead(outcome.value, answer.body, outcome.index), outcome.index)


def _read_written(answer: Answer) -> Outcome[int]:
    outcome = _decoded(answer, _Written)
    if not isinstance(outcome, Ok):
        return outcome
    return Ok(outcome.value.job_modify_index, outcome.value.job_modify_index)


def _read_stopped(answer: Answer) -> Outcome[int]:
    outcome = _decoded(answer, _Stopped)
    return Ok(outcome.value.index, outcome.value.index) if isinstance(outcome, Ok) else outcome


def _registered(job: JobRead | NotFound, document: Document, enforce_index: int) -> Outcome[int] | None:
    """What a job shows of our registration; None if not (yet) anything."""
    if isinstance(job, NotFound):
        return None if enforce_index == 0 else job
    index = job.payload.job_modify_index
    if index == enforce_index:
        return None
    mark = mark_of(document)
    if mark and mark == mark_of(job.document()):
        return Ok(index, index)
    return Conflict(f"somebody else registered the job, at index {index}")


def _deregistered(job: JobRead | NotFound, *, purge: bool) -> Outcome[int] | None:
    if isinstance(job, NotFound):
        return Ok(job.index, job.index)
    index = job.payload.job_modify_index
    return Ok(index, index) if job.payload.stop and not purge else None
