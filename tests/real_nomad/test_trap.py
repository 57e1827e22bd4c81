"""Holds a real server to the facts that deciding rests on: what kills runners for good, and what saves them.

All agents go away for longer than their heartbeat and come back. Up to 1.11.1 the scheduler then takes a lost
allocation that its agent reports as complete for the work done, and each later evaluation ends the job. From
1.11.2 on it disregards allocations whose stop was ordered, and nothing dies.
"""

from __future__ import annotations

import copy

import pytest

from tests.real_nomad.jobs import pool, runner_job, with_config_meta, with_job_meta
from tests.real_nomad.lab import Document, Lab

pytestmark = pytest.mark.real_nomad

_WITHOUT_TRAP = (1, 11, 2)
_JOB_EVENT_OF_A_PURGE = (1, 7, 4)
# Answers the event stream with `HTTP/0.0`, which no HTTP library accepts.
_WITHOUT_STREAM = (1, 11, 2)
_RUNNERS = 11
_QUIET_S = 3.0
_EXISTS = "Enforcing job modify index 0: job already exists"


def test_jobs_that_were_blocked_die_at_their_next_evaluation(lab: Lab) -> None:
    job_ids = _start_pool(lab)
    _take_all_agents_away(lab)
    _bring_all_agents_back(lab)
    lab.evaluate(job_ids)
    lab.wait_until_quiet(_QUIET_S)

    expected = "running" if lab.version >= _WITHOUT_TRAP else "dead"
    assert lab.statuses() == dict.fromkeys(job_ids, expected)
    assert not any(lab.job(job_id)["Stop"] for job_id in job_ids)


def test_a_dead_job_is_not_revived_unchanged_but_by_any_change(lab: Lab) -> None:
    job = pool(10, 0)[0]
    job["TaskGroups"][0]["Tasks"][0]["Config"] = {"command": "true"}
    lab.register(job).raise_for_status()
    lab.wait_for_status("dead", [job["ID"]])
    dead = lab.job(job["ID"])

    lab.register(dead).raise_for_status()
    lab.evaluate([job["ID"]])
    lab.wait_until_quiet(_QUIET_S)
    assert lab.statuses() == {job["ID"]: "dead"}
    assert len(lab.allocations(job["ID"])) == 1

    lab.register(with_config_meta(dead, "1"), if_index=dead["JobModifyIndex"]).raise_for_status()
    lab.wait_until_quiet(_QUIET_S)
    assert len(lab.allocations(job["ID"])) == 2


def test_a_new_version_while_blocked_saves_the_job(lab: Lab) -> None:
    job_ids = _start_pool(lab)
    _take_all_agents_away(lab)
    protected, untouched = job_ids[::2], job_ids[1::2]
    for job_id in protected:
        _protect(lab, job_id)
    _bring_all_agents_back(lab)
    lab.evaluate(job_ids)
    lab.wait_until_quiet(_QUIET_S)

    expected = "running" if lab.version >= _WITHOUT_TRAP else "dead"
    assert lab.statuses() == dict.fromkeys(protected, "running") | dict.fromkeys(untouched, expected)


def test_a_new_version_after_the_return_saves_the_survivors_in_place(lab: Lab) -> None:
    job_ids = _start_pool(lab)
    _take_all_agents_away(lab)
    _bring_all_agents_back(lab)
    survivors = {job_id: lab.running(job_id) for job_id in job_ids if lab.statuses()[job_id] == "running"}
    for job_id in survivors:
        _protect(lab, job_id)
    lab.wait_until_quiet(_QUIET_S)
    lab.evaluate(job_ids)
    lab.wait_until_quiet(_QUIET_S)

    assert {job_id for job_id, status in lab.statuses().items() if status == "running"} == set(survivors)
    assert {job_id: lab.running(job_id) for job_id in survivors} == survivors


def test_a_plan_tells_which_change_restarts_the_task(lab: Lab) -> None:
    _, runner = _start_pool(lab, runners=1)
    job = lab.job(runner)
    before = lab.running(runner)
    assert _in_place_and_destructive(lab.plan(job)) == (0, 0)
    assert _in_place_and_destructive(lab.plan(with_config_meta(job, "1"))) == (1, 0)
    assert _in_place_and_destructive(lab.plan(job | {"Priority": 51})) == (1, 0)
    assert _in_place_and_destructive(lab.plan(with_job_meta(job, "1"))) == (0, 1)

    _protect(lab, runner)
    lab.wait_until_quiet(_QUIET_S)
    assert lab.job(runner)["Version"] == job["Version"] + 1
    assert lab.running(runner) == before


def test_create_only_refuses_a_job_that_is_there_running_stopped_or_dead(lab: Lab) -> None:
    environment = pool(10, 0)[0]
    running, stopped, dead = (runner_job(environment) for _ in range(3))
    dead["TaskGroups"][0]["Tasks"][0]["Config"] = {"command": "true"}
    for job in (running, stopped, dead):
        assert lab.register(job, if_index=0).status_code == 200
    lab.wait_for_status("running", [running["ID"], stopped["ID"]])
    lab.request("DELETE", f"/v1/job/{stopped['ID']}").raise_for_status()
    lab.wait_for_status("dead", [stopped["ID"], dead["ID"]])

    for job in (running, stopped, dead):
        answer = lab.register(job, if_index=0)
        assert (answer.status_code, answer.text) == (500, _EXISTS)
    index = lab.job(running["ID"])["JobModifyIndex"]
    answer = lab.register(with_config_meta(running, "1"), if_index=index - 1)
    assert answer.status_code == 500
    assert answer.text.endswith(f"job exists with conflicting job modify index: {index}")


@pytest.mark.parametrize("stop_first", [True, False])
def test_a_purge_is_told_by_the_stream(lab: Lab, stop_first: bool) -> None:
    if lab.version == _WITHOUT_STREAM:
        pytest.skip("Nomad 1.11.2 answers the event stream with an invalid HTTP version")
    _, runner = _start_pool(lab, runners=1)
    if stop_first:
        index = lab.request("DELETE", f"/v1/job/{runner}").json()["Index"]
        lab.wait_for_status("dead", [runner])
        stop = _deregistrations(lab.events_from(index), runner)
        assert [topic for topic, _ in stop] == ["Job", "Evaluation"]
        assert stop[0][1]["Job"]["Stop"] is True

    index = lab.request("DELETE", f"/v1/job/{runner}", purge="true").json()["Index"]
    lab.wait_until_quiet(_QUIET_S)
    assert lab.request("GET", f"/v1/job/{runner}").status_code == 404
    topics = [topic for topic, _ in _deregistrations(lab.events_from(index), runner)]
    assert topics == (["Job", "Evaluation"] if lab.version >= _JOB_EVENT_OF_A_PURGE else ["Evaluation"])


def _start_pool(lab: Lab, runners: int = _RUNNERS) -> list[str]:
    jobs = pool(10, runners)
    job_ids: list[str] = [job["ID"] for job in jobs]
    for job in jobs:
        lab.register(copy.deepcopy(job), if_index=0).raise_for_status()
    lab.wait_for("all tasks running", lambda: all(lab.running(job_id) for job_id in job_ids), 40.0)
    return job_ids


def _take_all_agents_away(lab: Lab) -> None:
    lab.stop_agents()
    lab.wait_until_quiet(_QUIET_S)
    assert set(lab.statuses().values()) == {"pending"}


def _bring_all_agents_back(lab: Lab) -> None:
    lab.start_agents()
    # A returning agent stops its old tasks before it reports them as complete.
    lab.wait_for("the old allocations to end", lambda: not _stopping(lab), 40.0)
    lab.wait_until_quiet(_QUIET_S)


def _stopping(lab: Lab) -> list[Document]:
    return [
        stub
        for stub in lab.get("/v1/allocations")
        if stub["DesiredStatus"] == "stop" and stub["ClientStatus"] != "complete"
    ]


def _protect(lab: Lab, job_id: str) -> None:
    job = lab.job(job_id)
    lab.register(with_config_meta(job, "1"), if_index=job["JobModifyIndex"]).raise_for_status()


def _in_place_and_destructive(plan: Document) -> tuple[int, int]:
    group = plan["default-group"]
    return group["InPlaceUpdate"], group["DestructiveUpdate"]


def _deregistrations(events: list[Document], job_id: str) -> list[tuple[str, Document]]:
    """Topic and payload of the job's events that tell of a deregistration."""
    return [
        (event["Topic"], event["Payload"])
        for event in events
        if event["Type"] == "JobDeregistered"
        and job_id in (event["Key"], event["Payload"].get("Evaluation", {}).get("JobID"))
    ]
