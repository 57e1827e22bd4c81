"""Which events start a runner for Poseidon, and which end one."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from poseidon_reconciler.twin.events import event_of
from poseidon_reconciler.twin.poseidon_events import AllocationFollower
from poseidon_reconciler.twin.records import Allocation
from tests.twin.labs import lab, newest, with_runner


@dataclass
class Holder:
    told: list[str] = field(default_factory=list)

    def runner_started(self, allocation: Allocation) -> None:
        self.told.append(f"started {allocation.job.id}")

    def runner_ended(self, job_id: str, *, purge: bool) -> None:
        self.told.append(f"{'purge' if purge else 'drop'} {job_id}")


@pytest.fixture
def allocation() -> Allocation:
    cluster = lab()
    return newest(cluster, with_runner(cluster))


def told(allocation: Allocation, *statuses: str, next_id: str = "") -> list[str]:
    """What a holder hears of an allocation that goes through these statuses, the last of them with `next_id`."""
    holder = Holder()
    follower = AllocationFollower(holder)
    for number, status in enumerate(statuses):
        client, desired = status.split("/")
        link = next_id if number == len(statuses) - 1 else ""
        changed = replace(allocation, client_status=client, desired_status=desired, next_id=link)
        follower.take(event_of("AllocationUpdated", 1, changed))
    return holder.told


@pytest.mark.parametrize(
    ("statuses", "heard"),
    [
        (["pending/run", "running/run"], ["started 10-a"]),
        (["running/run"], []),
        (["pending/run", "pending/run", "running/run", "running/run"], ["started 10-a"]),
        (["pending/run", "running/run", "unknown/run"], ["started 10-a"]),
        (["pending/run", "running/run", "unknown/run", "running/run"], ["started 10-a", "started 10-a"]),
        (["pending/run", "running/run", "complete/run"], ["started 10-a"]),
        (["pending/run", "running/run", "running/stop", "complete/stop"], ["started 10-a", "drop 10-a"]),
        (["pending/run", "running/run", "pending/run"], ["started 10-a", "purge 10-a"]),
        (["pending/run", "running/run", "lost/stop"], ["started 10-a", "purge 10-a"]),
        (["pending/run", "running/run", "failed/run"], ["started 10-a", "purge 10-a"]),
        (["pending/run", "running/run", "lost/stop", "complete/stop"], ["started 10-a", "purge 10-a"]),
        (["pending/run", "pending/stop", "lost/stop"], []),
    ],
    ids=" ".join,
)
def test_what_an_allocation_means(allocation: Allocation, statuses: list[str], heard: list[str]) -> None:
    assert told(allocation, *statuses) == heard


def test_a_lost_allocation_that_was_replaced_is_no_end(allocation: Allocation) -> None:
    assert told(allocation, "pending/run", "running/run", "lost/stop", next_id="b") == ["started 10-a"]


def test_the_replacement_ends_what_it_replaces(allocation: Allocation) -> None:
    holder = Holder()
    follower = AllocationFollower(holder)
    for change in (
        {"client_status": "pending"},
        {"client_status": "running"},
        {"client_status": "lost", "desired_status": "stop", "next_id": "b"},
        {"id": "b", "client_status": "pending", "previous_id": allocation.id},
        {"id": "b", "client_status": "running", "previous_id": allocation.id},
    ):
        follower.take(event_of("PlanResult", 1, replace(allocation, **change)))
    assert holder.told == ["started 10-a", "drop 10-a", "started 10-a"]


def test_a_deregistered_job_is_dropped_once_and_only_if_it_was_followed(allocation: Allocation) -> None:
    holder = Holder()
    follower = AllocationFollower(holder)
    deregistered = event_of("JobDeregistered", 1, allocation.job)
    follower.take(deregistered)
    assert holder.told == []
    follower.recover([allocation])
    follower.take(event_of("JobRegistered", 1, allocation.job))
    follower.take(deregistered)
    follower.take(deregistered)
    assert holder.told == ["drop 10-a"]


def test_what_was_read_from_a_list_needs_no_pending_event(allocation: Allocation) -> None:
    holder = Holder()
    follower = AllocationFollower(holder)
    follower.recover([replace(allocation, id="over", client_status="complete"), allocation])
    follower.take(event_of("AllocationUpdated", 1, replace(allocation, client_status="lost", desired_status="stop")))
    assert holder.told == ["purge 10-a"]
