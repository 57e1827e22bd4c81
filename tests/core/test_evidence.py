"""What a verdict rests on: of each object the last that was said, in the order in which it happened."""

from __future__ import annotations

import pytest

from poseidon_reconciler.core.evidence import Evidence, evidence_for, short
from tests.core.builders import (
    NODE,
    RUNNER,
    Bench,
    Wire,
    allocation,
    bench_with_pool,
    evaluation,
    event,
    job,
    node,
    purge,
)


def evidence_of(bench: Bench, job_id: str = RUNNER) -> list[Evidence]:
    return evidence_for(bench.core.diagnosis, bench.job(job_id), bench.now)


def texts(bench: Bench, job_id: str = RUNNER) -> list[str]:
    return [each.text for each in evidence_of(bench, job_id)]


def healthy() -> Bench:
    bench = Bench()
    bench.feed(node(index=1))
    bench.feed(job(index=10))
    bench.feed(allocation("0123456789", index=20))
    return bench


def test_a_running_job_rests_on_itself_and_its_allocation() -> None:
    assert evidence_of(healthy()) == [
        Evidence(10, "Job", "JobRegistered", RUNNER, "the job is running, not stopped"),
        Evidence(20, "Allocation", "AllocationUpdated", "0123456789", "allocation 01234567 is running"),
    ]


def test_what_was_said_before_the_last_word_is_none() -> None:
    bench = healthy()
    bench.feed(allocation("0123456789", RUNNER, "failed", index=30, created=20))
    bench.feed(job(RUNNER, "dead", index=30, created=10))

    assert [(each.index, each.text) for each in evidence_of(bench)] == [
        (30, "the job is dead, not stopped"),
        (30, "allocation 01234567 is failed"),
    ]


def test_a_node_is_evidence_where_it_matters() -> None:
    bench = healthy()

    bench.feed(node(NODE, "ready", index=30, draining=True))
    assert texts(bench)[-1] == "node agent-a0 is ready and draining"

    bench.feed(node(NODE, "down", index=31))
    assert texts(bench)[-1] == "node agent-a0 is down"


@pytest.mark.parametrize(
    ("status", "more", "text"),
    [
        ("pending", {}, "evaluation e1234567 is pending"),
        (
            "pending",
            {"WaitUntil": "2027-01-15T08:05:00Z"},
            "evaluation e1234567 is pending until 2027-01-15T08:05:00Z",
        ),
        ("pending", {"WaitUntil": "0001-01-01T00:00:00Z"}, "evaluation e1234567 is pending"),
        (
            "blocked",
            {
                "FailedTGAllocs": {
                    "default-group": {
                        "NodesEvaluated": 3,
                        "DimensionExhausted": {"memory": 2, "cpu": 1},
                        "ConstraintFiltered": {"kernel = linux": 1},
                    }
                }
            },
            (
                "evaluation e1234567 is blocked; no place for default-group: 3 nodes looked at, cpu exhausted on 1, "
                "memory exhausted on 2, kernel = linux filtered 1"
            ),
        ),
    ],
)
def test_an_evaluation_is_evidence_while_nothing_is_placed(status: str, more: Wire, text: str) -> None:
    bench = healthy()
    told = evaluation("e12345678", RUNNER, status, index=40, **more)
    bench.feed(told)
    assert text not in texts(bench)

    bench.feed(allocation("0123456789", RUNNER, "failed", index=41, created=20))

    assert text in texts(bench)


def test_an_allocation_that_can_end_the_job_says_so() -> None:
    bench = healthy()
    bench.feed(
        allocation("0123456789", RUNNER, "lost", "stop", index=30, created=20, DesiredDescription="node is down")
    )
    bench.feed(allocation("new", RUNNER, index=31))

    (killer,) = [each for each in texts(bench) if "01234567" in each]

    assert killer == (
        "allocation 01234567 is lost, ordered to stop (node is down); unlinked and of the current version: "
        "Nomad takes such a one, once complete, for the job's success"
    )
    assert bench.verdict().at_risk


@pytest.mark.parametrize(
    ("wire", "text"),
    [
        (
            allocation("a", RUNNER, "running", index=30, task="pending"),
            "allocation a is running, its main task still pending",
        ),
        (
            allocation("a", RUNNER, "failed", index=30, FollowupEvalID="e12345678"),
            "allocation a is failed; evaluation e1234567 is to follow",
        ),
    ],
)
def test_what_an_allocation_says(wire: Wire, text: str) -> None:
    bench = Bench()
    bench.feed(job(index=10))
    bench.feed(wire)

    assert text in texts(bench)


@pytest.mark.parametrize(
    ("cause", "text"),
    [
        ("purged", "the job was purged"),
        ("collected", "the job was collected as garbage"),
        ("stopped", "the job was stopped, then removed"),
        ("vanished", "the job is not in the list of all jobs, and no event had said so"),
    ],
)
def test_a_job_that_is_gone_says_how(cause: str, text: str) -> None:
    bench = Bench()
    bench.feed(job(index=10))
    if cause == "vanished":
        bench.read(30, Jobs=[])
    elif cause == "collected":
        bench.feed(event(evaluation("gc", index=30), "JobBatchDeregistered"))
    else:
        if cause == "stopped":
            bench.feed(job(RUNNER, "dead", index=20, created=10, Stop=True))
        purge(bench, RUNNER, index=30)

    assert texts(bench) == [text]
    assert evidence_of(bench)[0].index == 30


def test_a_used_runner_says_so() -> None:
    bench = Bench()
    bench.feed(job(index=10, used=True))

    assert texts(bench) == ["the job is running, not stopped, marked used"]


def test_hearsay_has_no_job_of_its_own() -> None:
    bench = Bench()
    bench.feed(allocation("a", index=20))

    assert [each.topic for each in evidence_of(bench)] == ["Allocation"]


def test_ids_are_shortened_as_nomads_tools_do() -> None:
    assert short("0123456789") == "01234567"
    assert short("abc") == "abc"


def test_a_list_is_named_as_the_source_of_what_it_told() -> None:
    bench = bench_with_pool(0)

    bench.read(50, Jobs=[job(index=40)], Allocations=[allocation("a", index=41)])

    assert {(each.index, each.type) for each in evidence_of(bench)} == {(50, "list")}
