"""What Nomad says of a job that did not come to life is found in what is read of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from poseidon_reconciler.core.events import EvaluationPayload
from poseidon_reconciler.nomad.trouble import ToldAllocation, trouble_of
from tests.nomad.actions import Acting, kill
from tests.nomad.fake_nomad import FakeNomad
from tests.nomad.jobs import RUNNER, runner


def told(*events: tuple[str, str], created: int = 10) -> ToldAllocation:
    document: dict[str, Any] = {
        "ID": f"a{created}",
        "JobID": RUNNER,
        "ClientStatus": "failed",
        "DesiredStatus": "run",
        "CreateIndex": created,
        "TaskStates": {"default-task": {"Events": [{"Type": type_, "DisplayMessage": text} for type_, text in events]}},
    }
    return msgspec.convert(document, ToldAllocation)


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([], ""),
        ([("Received", "Task received"), ("Driver Failure", "no such image"), ("Not Restarting", "policy")],
         "no such image"),
        ([("Terminated", "Exit Code: 1"), ("Restarting", "in 5s"), ("Killing", "")], "Exit Code: 1"),
        ([("Driver", "x" * 1000)], "x" * 300),
    ],
)  # fmt: skip
def test_the_last_that_says_why_counts(events: list[tuple[str, str]], message: str) -> None:
    assert trouble_of([told(*events)], []) == message


def test_the_newest_allocation_counts() -> None:
    assert trouble_of([told(("Driver", "new"), created=20), told(("Driver", "old"))], []) == "new"


def test_without_an_allocation_the_scheduler_says_why() -> None:
    document = {
        "ID": "e",
        "JobID": RUNNER,
        "Status": "complete",
        "FailedTGAllocs": {"default-group": {"NodesEvaluated": 3, "DimensionExhausted": {"memory": 3}}},
    }
    evaluation = msgspec.convert(document, EvaluationPayload)

    assert trouble_of([], [evaluation]) == "no place: 3 nodes looked at, memory exhausted on 3"


async def test_it_is_told_with_the_removal_of_what_failed(nomad: FakeNomad, act: Acting) -> None:
    nomad.add_job(runner())
    kill(nomad)
    (allocation,) = nomad.allocations[RUNNER]
    allocation["TaskStates"] = {"default-task": {"Events": [{"Type": "Driver Failure", "DisplayMessage": "no image"}]}}

    assert (await act("remove-job", RUNNER)).trouble == "no image"
