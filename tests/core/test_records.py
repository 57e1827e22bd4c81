"""What is remembered of each object, and which of a job's allocations stands for it."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from msgspec import convert

from poseidon_reconciler.core.events import AllocationPayload, EvaluationPayload, JobPayload
from poseidon_reconciler.core.records import MAX_TARGET, Allocation, Evaluation, Job, Origin
from tests.core.builders import RUNNER, START, TEMPLATE, Wire, allocation, evaluation, job, stub

ORIGIN = Origin(100, "JobRegistered")


def typed(wire: Wire, kind: type[Any]) -> Any:
    return convert(orjson.loads(orjson.dumps(wire)), kind)


def job_of(wire: Wire) -> Job:
    kind = "environment" if wire["ID"].startswith("template-") else "runner"
    record = Job(wire["ID"], kind, "10")  # type: ignore[arg-type]
    record.take(typed(wire, JobPayload), ORIGIN)
    return record


def allocation_of(*arguments: Any, **settings: Any) -> Allocation:
    wire = allocation(*arguments, **settings)
    record = Allocation(typed(wire, AllocationPayload), ORIGIN, first_seen=START, since=START)
    record.take(record.data, ORIGIN)
    return record


# --- jobs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("5", 5),
        ("0", 0),
        ("-3", 0),
        (" 7 ", 7),
        ("1e3", None),
        ("5.0", None),
        ("many", None),
        ("", None),
        (None, None),
        ("9" * 30, MAX_TARGET),
        ("9" * 5000, None),
    ],
)
def test_the_target_is_what_the_template_asks_for(text: str | None, target: int | None) -> None:
    wire = job(TEMPLATE, index=9, target=0)
    meta = wire["TaskGroups"][1]["Meta"]
    del meta["prewarmingPoolSize"]
    if text is not None:
        meta["prewarmingPoolSize"] = text

    assert job_of(wire).target == target


@pytest.mark.parametrize(
    ("mark", "used"), [("true", True), ("false", False), ("True", False), ("", False), (None, False)]
)
def test_a_runner_is_used_by_its_mark(mark: str | None, used: bool) -> None:
    wire = job(index=9)
    wire["TaskGroups"][1]["Meta"] = {"used": mark} if mark is not None else None

    assert job_of(wire).used == used


def test_an_environment_is_never_used() -> None:
    assert not job_of(job(TEMPLATE, index=9, used=True)).used


@pytest.mark.parametrize(
    ("group", "seconds"),
    [
        ({}, None),
        ({"StopAfterClientDisconnect": 30 * 10**9}, 30.0),
        ({"Disconnect": {"StopOnClientAfter": 30 * 10**9}}, 30.0),
        ({"Disconnect": {"LostAfter": 30 * 10**9}}, None),
        ({"Disconnect": None, "StopAfterClientDisconnect": 10**9}, 1.0),
        ({"Disconnect": {"StopOnClientAfter": 2 * 10**9}, "StopAfterClientDisconnect": 10**9}, 2.0),
        ({"StopAfterClientDisconnect": 0}, None),
    ],
)
def test_how_long_an_agent_without_a_server_leaves_the_task(group: Wire, seconds: float | None) -> None:
    assert job_of(job(index=9, group=group)).stop_after_s == seconds


def test_how_long_the_slowest_task_may_take_to_end() -> None:
    tasks = [{"Name": "a", "KillTimeout": 5 * 10**9}, {"Name": "b", "KillTimeout": 20 * 10**9}, {"Name": "c"}]

    assert job_of(job(index=9, group={"Tasks": tasks})).kill_timeout_s == 20.0


def test_what_a_stub_lacks_stays_as_it_was() -> None:
    whole = job(TEMPLATE, index=9, target=3, version=4)
    record = job_of(whole)

    record.take(typed(stub({**whole, "Status": "dead", "ModifyIndex": 20}), JobPayload), ORIGIN)

    assert (record.status, record.modify_index) == ("dead", 20)
    assert (record.target, record.version, record.whole) == (3, 4, True)


def test_a_stub_of_a_new_registration_makes_what_is_known_of_its_groups_old() -> None:
    whole = job(index=9)
    record = job_of(whole)

    record.take(typed(stub({**whole, "ModifyIndex": 20, "JobModifyIndex": 20}), JobPayload), ORIGIN)
    assert not record.whole

    record.take(typed({**job(index=20, used=True), "JobModifyIndex": 20}, JobPayload), ORIGIN)
    assert (record.whole, record.used) == (True, True)


def test_the_same_id_registered_anew_has_nothing_of_the_earlier_job() -> None:
    record = job_of(job(index=9, used=True, version=3))
    record.allocations["a"] = allocation_of("a", index=9)
    record.choose_current()
    record.put_evaluation(
        Evaluation(typed(evaluation("e", status="pending", index=9), EvaluationPayload), ORIGIN, START)
    )

    record.begin_anew(START + 5)

    assert (record.allocations, record.current, record.evaluations, record.live_evaluations) == ({}, None, {}, {})
    assert (record.used, record.target, record.whole, record.version) == (False, None, False, -1)
    assert record.first_seen == START + 5


# --- allocations --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("client", "desired", "placed"),
    [
        ("pending", "run", True),
        ("running", "run", True),
        ("unknown", "run", True),
        ("complete", "run", False),
        ("failed", "run", False),
        ("lost", "run", False),
        ("running", "stop", False),
        ("running", "evict", False),
        ("pending", "stop", False),
        ("anything", "run", False),
    ],
)
def test_an_allocation_is_placed_while_it_is_to_run_and_has_not_ended(client: str, desired: str, placed: bool) -> None:
    assert allocation_of("a", RUNNER, client, desired, index=9).placed == placed


@pytest.mark.parametrize(
    ("states", "state", "restarts"),
    [
        (None, "", 0),
        ({}, "", 0),
        ({"default-task": {"State": "pending", "Restarts": 2}, "other": {"State": "running"}}, "pending", 2),
        ({"other": {"State": "running", "Restarts": 1}}, "running", 1),
        ({"other": {"State": "pending"}, "another": {"State": "running"}}, "pending", 0),
    ],
)
def test_the_main_task_is_the_one_that_learners_use(states: Any, state: str, restarts: int) -> None:
    record = allocation_of("a", index=9, TaskStates=states)

    assert (record.main_task_state, record.restarts) == (state, restarts)


@pytest.mark.parametrize(
    ("client", "task", "ran"),
    [
        ("running", "running", True),
        ("running", "pending", False),
        ("pending", "running", False),
        ("complete", None, False),
    ],
)
def test_an_allocation_ran_if_its_main_task_was_seen_running(client: str, task: str | None, ran: bool) -> None:
    assert allocation_of("a", RUNNER, client, index=9, task=task).ran == ran


def test_what_ran_once_ran_for_ever() -> None:
    record = allocation_of("a", index=9)

    record.take(typed(allocation("a", RUNNER, "pending", index=10, created=9), AllocationPayload), ORIGIN)

    assert record.ran


@pytest.mark.parametrize(
    ("others", "current"),
    [
        ([], None),
        ([("a", "running", "run", 5)], "a"),
        ([("a", "complete", "stop", 5), ("b", "running", "run", 4)], "b"),
        ([("a", "running", "run", 5), ("b", "running", "run", 6)], "b"),
        ([("a", "lost", "stop", 6), ("b", "complete", "stop", 5)], "a"),
        ([("b", "failed", "run", 5), ("a", "failed", "run", 5)], "b"),
    ],
)
def test_the_newest_that_is_to_run_stands_for_the_job_or_else_the_newest(
    others: list[tuple[str, str, str, int]], current: str | None
) -> None:
    for order in (others, others[::-1]):
        record = job_of(job(index=9))
        for allocation_id, client, desired, created in order:
            one = allocation_of(allocation_id, RUNNER, client, desired, index=9, created=created)
            record.allocations[allocation_id] = one
        record.choose_current()
        assert (record.current.data.id if record.current is not None else None) == current


@pytest.mark.parametrize(
    ("version", "index", "told", "is_current"),
    [
        (3, 50, {"JobVersion": 3}, True),
        (3, 50, {"JobVersion": 2, "AllocModifyIndex": 60}, False),
        (-1, 50, {"JobVersion": 2, "AllocModifyIndex": 49}, False),
        (3, 50, {"AllocModifyIndex": 50}, True),
        (3, 50, {"AllocModifyIndex": 49}, False),
        (3, 50, {"AllocModifyIndex": -1}, True),
    ],
)
def test_whose_version_an_allocation_is_of(version: int, index: int, told: Wire, is_current: bool) -> None:
    record = job_of(job(index=60, registered=index))
    record.version = version
    data = allocation_of("a", index=60).data
    data.job_version = told.get("JobVersion", -1)
    data.alloc_modify_index = told.get("AllocModifyIndex", -1)

    assert record.is_current_version(data) == is_current


# --- evaluations ----------------------------------------------------------------------------------------------------


def test_an_evaluation_lives_until_it_has_ended() -> None:
    record = job_of(job(index=9))
    for status, live in (("pending", ["e"]), ("blocked", ["e"]), ("complete", []), ("canceled", [])):
        data = typed(evaluation("e", status=status, index=9), EvaluationPayload)
        record.put_evaluation(Evaluation(data, ORIGIN, first_seen=START))
        assert list(record.live_evaluations) == live
        assert list(record.evaluations) == ["e"]


@pytest.mark.parametrize(
    ("until", "at"), [("2027-01-15T08:00:00Z", START), ("0001-01-01T00:00:00Z", None), (None, None)]
)
def test_a_delayed_evaluation_waits_until_its_time(until: str | None, at: float | None) -> None:
    record = job_of(job(index=9))
    data = typed(evaluation("e", status="pending", index=9, WaitUntil=until), EvaluationPayload)

    record.put_evaluation(Evaluation(data, ORIGIN, first_seen=START))

    assert record.live_evaluations["e"].waits_until == at
