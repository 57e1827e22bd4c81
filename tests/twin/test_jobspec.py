"""The canonical form of jobs, and what a change does to their tasks."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from poseidon_reconciler.twin.jobspec import canonical, groups_of, needs_new_allocation
from poseidon_reconciler.twin.poseidon_jobs import runner_job
from tests.twin.recordings import events, recorded

SERVER_FIELDS = {
    "CreateIndex", "JobModifyIndex", "ModifyIndex", "Status", "StatusDescription", "Stable", "SubmitTime", "Version",
}  # fmt: skip


def test_a_recorded_job_is_its_own_canonical_form() -> None:
    for topic, _, job in events(recorded("used-and-deregistered")):
        if topic == "Job":
            assert canonical(job) == {name: value for name, value in job.items() if name not in SERVER_FIELDS}


def test_what_is_not_given_is_filled_in() -> None:
    spec = canonical({"ID": "x", "Type": "batch", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t"}]}]})
    (group,) = groups_of(spec)
    assert (spec["Name"], spec["Namespace"], spec["Priority"]) == ("x", "default", 50)
    assert (group.count, group.cpu_mhz, group.memory_mb, group.disk_mb) == (1, 100, 300, 300)
    assert (group.restart.attempts, group.reschedule.attempts, group.reschedule.unlimited) == (3, 1, False)


def test_fields_that_are_not_known_are_kept() -> None:
    assert canonical({"ID": "x", "NodePool": "big", "TaskGroups": []})["NodePool"] == "big"


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"StopAfterClientDisconnect": 10_000_000_000}, (10.0, None, True)),
        ({"MaxClientDisconnect": 20_000_000_000}, (None, 20.0, True)),
        ({"Disconnect": {"StopOnClientAfter": 5_000_000_000}}, (5.0, None, True)),
        ({"Disconnect": {"LostAfter": 6_000_000_000, "Replace": False}}, (None, 6.0, False)),
        ({}, (None, None, True)),
    ],
)
def test_both_forms_of_the_disconnect_settings_are_read(block: dict[str, Any], expected: tuple[object, ...]) -> None:
    (group,) = groups_of(canonical({"ID": "x", "TaskGroups": [{"Name": "g", **block}]}))
    assert (group.stop_after_s, group.lost_after_s, group.replace_disconnected) == expected


def changed(path: str, value: object) -> dict[str, Any]:
    job: Any = copy.deepcopy(runner_job("10-a"))
    *way, last = path.split(".")
    target = job
    for step in way:
        target = target[int(step)] if step.isdecimal() else target[step]
    target[last] = value
    return canonical(job)


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("Priority", 70, False),
        ("TaskGroups.1.Meta", {"used": "true"}, False),
        ("TaskGroups.0.Count", 2, False),
        ("TaskGroups.0.ReschedulePolicy.Attempts", 9, False),
        ("Meta", {"a": "1"}, True),
        ("TaskGroups.0.Meta", {"a": "1"}, True),
        ("TaskGroups.0.Tasks.0.Config", {"command": "true"}, True),
        ("TaskGroups.0.Tasks.0.Resources.CPU", 21, True),
        ("TaskGroups.0.Tasks.0.Name", "other", True),
        ("TaskGroups.0.Tasks.0.Env", {"A": "b"}, True),
    ],
)
def test_which_changes_restart_the_tasks(path: str, value: object, expected: bool) -> None:
    assert needs_new_allocation(canonical(runner_job("10-a")), changed(path, value), "default-group") is expected
