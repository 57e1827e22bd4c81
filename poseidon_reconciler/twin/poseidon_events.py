"""How Poseidon reads Nomad's events: which of them start a runner for it, which end one, and which it ignores.

It follows allocations, not jobs: one must have been seen `pending` before its `running` counts, `unknown` means
nothing, and of all events of jobs only a deregistration is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from msgspec import Struct

from poseidon_reconciler.twin.events import Event
from poseidon_reconciler.twin.records import Allocation


class Holder(Protocol):
    """Who holds the runners, and is told what became of them."""

    def runner_started(self, allocation: Allocation) -> None:
        """An allocation runs."""

    def runner_ended(self, job_id: str, *, purge: bool) -> None:
        """A job's allocation is over; `purge`: Poseidon deletes the job itself, if it holds the runner."""


class _Followed(Struct):
    job_id: str
    client_status: str
    desired_status: str


class AllocationFollower:
    """The allocations that Poseidon follows on behalf of a holder."""

    def __init__(self, holder: Holder) -> None:
        self._holder = holder
        self._followed: dict[str, _Followed] = {}
        self._of_job: dict[str, str] = {}

    def clear(self) -> None:
        """Forgets everything, as a process that ends."""
        self._followed.clear()
        self._of_job.clear()

    def recover(self, allocations: Iterable[Allocation]) -> None:
        """Takes up allocations that were read from a list; those that are over are not followed."""
        for allocation in allocations:
            if allocation.client_status in {"pending", "running"}:
                self._follow(allocation)

    def take(self, event: Event) -> None:
        """Reads one event."""
        if isinstance(event.payload, Allocation):
            self._take_allocation(event.payload)
        elif event.topic == "Job" and event.type == "JobDeregistered":
            identity = self._of_job.pop(event.key, "")
            if self._followed.pop(identity, None) is not None:
                self._holder.runner_ended(event.key, purge=False)

    def _take_allocation(self, allocation: Allocation) -> None:
        status = allocation.client_status, allocation.desired_status
        known = self._followed.get(allocation.id)
        if known is None:
            if status == ("pending", "run"):
                self._take_new(allocation)
        elif status != (known.client_status, known.desired_status):
            known.client_status, known.desired_status = status
            self._take_change(allocation, status)

    def _take_new(self, allocation: Allocation) -> None:
        previous = self._followed.pop(allocation.previous_id, None)
        if previous is not None:
            self._holder.runner_ended(previous.job_id, purge=False)
        self._follow(allocation)

    def _take_change(self, allocation: Allocation, status: tuple[str, str]) -> None:
        job_id = allocation.job.id
        match status:
            case ("pending", "run"):
                # A restart in place: the container that somebody may have been working in is gone.
                self._holder.runner_ended(job_id, purge=True)
            case ("pending", "stop"):
                self._drop(allocation)
            case ("running", "run"):
                self._holder.runner_started(allocation)
            case ("running", "stop"):
                self._holder.runner_ended(job_id, purge=False)
                self._drop(allocation)
            case ("failed" | "lost", _) if not allocation.next_id:
                self._holder.runner_ended(job_id, purge=True)
                self._drop(allocation)
            case _:
                # Logged, and whatever is held is kept: what is `complete` although it should run, and `unknown`.
                pass

    def _follow(self, allocation: Allocation) -> None:
        self._of_job[allocation.job.id] = allocation.id
        self._followed[allocation.id] = _Followed(
            allocation.job.id, allocation.client_status, allocation.desired_status
        )

    def _drop(self, allocation: Allocation) -> None:
        self._of_job.pop(allocation.job.id, None)
        del self._followed[allocation.id]
