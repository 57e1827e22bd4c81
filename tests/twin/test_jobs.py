"""Registering, planning, stopping and purging jobs, with Nomad's own conditions and words."""

from __future__ import annotations

import pytest

from poseidon_reconciler.twin.documents import job_document
from poseidon_reconciler.twin.jobs import Refused
from poseidon_reconciler.twin.poseidon_jobs import Work, runner_job, with_config
from tests.twin.labs import job_of, lab, newest, statuses, with_runner


def test_create_only_refuses_what_is_there_however_dead() -> None:
    cluster = lab()
    key = with_runner(cluster)
    for stop in (False, True):
        if stop:
            cluster.jobs.deregister(key)
        cluster.run_for(3)
        with pytest.raises(Refused, match="Enforcing job modify index 0: job already exists") as refused:
            cluster.jobs.register(runner_job("10-a"), enforce_index=True)
        assert refused.value.status == 500


def test_only_the_jobs_own_index_is_accepted() -> None:
    cluster = lab()
    job = job_of(cluster, with_runner(cluster))
    changed = with_config(dict(job.spec), x="1")
    wrong = job.job_modify_index - 1
    text = f"Enforcing job modify index {wrong}: job exists with conflicting job modify index: {job.job_modify_index}"
    with pytest.raises(Refused, match=text):
        cluster.jobs.register(changed, enforce_index=True, job_modify_index=wrong)
    with pytest.raises(Refused, match="Enforcing job modify index 9: job does not exist"):
        cluster.jobs.register(runner_job("10-b"), enforce_index=True, job_modify_index=9)
    new, _ = cluster.jobs.register(changed, enforce_index=True, job_modify_index=job.job_modify_index)
    assert (new.version, new.create_index) == (1, job.create_index)


def test_an_unchanged_job_is_evaluated_and_no_new_version() -> None:
    cluster = lab()
    job = job_of(cluster, with_runner(cluster))
    again, evaluation = cluster.jobs.register(runner_job("10-a"))
    assert again == job
    assert (evaluation.triggered_by, evaluation.job_modify_index) == ("job-register", job.job_modify_index)
    assert [event.type for event in cluster.log[-1].events] == ["EvaluationUpdated"]


def test_a_job_and_its_evaluation_come_as_two_lines_of_one_index() -> None:
    cluster = lab()
    cluster.jobs.register(runner_job("10-a"))
    first, second = cluster.log[-2:]
    assert first.index == second.index
    assert [(e.topic, e.type) for e in first.events] == [("Job", "JobRegistered")]
    assert [(e.topic, e.type) for e in second.events] == [("Evaluation", "JobRegistered")]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, {"Ignore": 1}),
        ({"Priority": 60}, {"InPlaceUpdate": 1}),
        ({"Meta": {"a": "1"}}, {"DestructiveUpdate": 1}),
    ],
)
def test_a_plan_tells_what_a_change_does(change: dict[str, object], expected: dict[str, int]) -> None:
    cluster = lab()
    with_runner(cluster)
    index = cluster.state.index
    dry = cluster.jobs.plan({**runner_job("10-a"), **change})
    updates = dry.plan.updates["default-group"]
    assert {name: count for name, count in updates.items() if count} == expected
    assert cluster.state.index == index


def test_a_plan_of_a_blocked_job_places_and_restarts_nothing() -> None:
    cluster = lab(1)
    with_runner(cluster)
    cluster.agents["agent-1"].stop()
    cluster.run_for(10)
    dry = cluster.jobs.plan(with_config(runner_job("10-a"), protected="1"))
    updates = dry.plan.updates["default-group"]
    assert {name: count for name, count in updates.items() if count} == {"Ignore": 1, "Place": 1}
    assert "default-group" in dry.plan.failed


def test_a_change_beside_the_tasks_is_made_in_place() -> None:
    cluster = lab()
    key = with_runner(cluster)
    before = newest(cluster, key)
    raw = with_config(runner_job("10-a"), used="true")
    assert cluster.jobs.plan(raw).plan.updates["default-group"]["InPlaceUpdate"] == 1
    cluster.jobs.register(raw)
    cluster.run_for(2)
    (after,) = cluster.state.allocations_of(key)
    assert (after.id, after.task_states) == (before.id, before.task_states)
    assert after.alloc_modify_index > before.alloc_modify_index


def test_a_stop_keeps_the_job_and_a_purge_does_not() -> None:
    cluster = lab()
    stopped, purged = with_runner(cluster), with_runner(cluster, name="10-b")
    cluster.jobs.deregister(stopped)
    cluster.jobs.deregister(purged, purge=True)
    cluster.run_for(3)
    assert (job_of(cluster, stopped).status, job_of(cluster, stopped).stop, job_of(cluster, stopped).version) == (
        "dead",
        True,
        1,
    )
    assert purged not in cluster.state.jobs
    assert statuses(cluster, stopped) == statuses(cluster, purged) == ["complete/stop"]


def test_a_job_that_is_registered_as_stopped_ends_and_can_be_cleared_away() -> None:
    cluster = lab(version="1.10.5")
    key = with_runner(cluster)
    job = job_of(cluster, key)
    cluster.jobs.register({**job.spec, "Stop": True}, enforce_index=True, job_modify_index=job.job_modify_index)
    first, second = cluster.log[-2:]
    (told,) = first.events
    assert (told.topic, told.type, job_document(job_of(cluster, key))["Stop"]) == ("Job", "JobRegistered", True)
    assert [(event.topic, event.type) for event in second.events] == [("Evaluation", "JobRegistered")]
    cluster.run_for(3)
    assert (job_of(cluster, key).status, job_of(cluster, key).version) == ("dead", 1)
    assert statuses(cluster, key) == ["complete/stop"]
    assert all(local.dead for agent in cluster.agents.values() for local in agent.local.values())

    for purge in (False, True):
        cluster.jobs.deregister(key, purge=purge)
        told = cluster.log[-2].events[0]
        assert (told.topic, told.type) == ("Job", "JobDeregistered")
    assert key not in cluster.state.jobs


def test_somebody_who_claims_a_job_that_was_registered_as_stopped_comes_too_late_or_first() -> None:
    cluster = lab()
    key = with_runner(cluster)
    job = job_of(cluster, key)
    cluster.jobs.register(with_config(dict(job.spec), used="true"))
    with pytest.raises(Refused, match="conflicting job modify index"):
        cluster.jobs.register({**job.spec, "Stop": True}, enforce_index=True, job_modify_index=job.job_modify_index)
    cluster.run_for(3)
    assert statuses(cluster, key) == ["running/run"]


def test_a_runner_may_claim_a_volume_which_every_node_has() -> None:
    cluster = lab()
    key = with_runner(cluster, Work(volume="csi"))
    assert statuses(cluster, key) == ["running/run"]
    (group, _) = job_document(job_of(cluster, key))["TaskGroups"]
    assert group["Volumes"]["workspace"]["Type"] == "csi"


@pytest.mark.parametrize(
    ("version", "topics"),
    [("1.1.2", ["Evaluation"]), ("1.7.4", ["Job", "Evaluation"]), ("1.10.5", ["Job", "Evaluation"])],
)
def test_what_a_purge_tells_depends_on_the_server(version: str, topics: list[str]) -> None:
    cluster = lab(version=version)
    key = with_runner(cluster)
    cluster.jobs.deregister(key, purge=True)
    told = [event for batch in cluster.log for event in batch.events if event.type == "JobDeregistered"]
    assert [event.topic for event in told] == topics
    cluster.run_for(5)
    assert all(local.dead for agent in cluster.agents.values() for local in agent.local.values())


def test_newer_servers_do_not_evaluate_what_never_was() -> None:
    assert lab(version="1.10.5").jobs.deregister(("default", "10-x"), purge=True) is None
    evaluation = lab(version="1.1.2").jobs.deregister(("default", "10-x"), purge=True)
    assert evaluation is not None
    assert (evaluation.triggered_by, evaluation.type) == ("job-deregister", "service")


def test_a_purged_job_may_come_back_and_starts_anew() -> None:
    cluster = lab()
    key = with_runner(cluster)
    cluster.jobs.deregister(key, purge=True)
    cluster.run_for(3)
    cluster.jobs.register(runner_job("10-a"), enforce_index=True)
    cluster.run_for(3)
    assert job_of(cluster, key).version == 0
    assert statuses(cluster, key) == ["complete/stop", "running/run"]


@pytest.mark.parametrize(
    ("raw", "status", "text"),
    [
        ({}, 400, "Job must be specified"),
        ({"Name": "x"}, 400, "Job ID hasn't been provided"),
        ({"ID": "x", "TaskGroups": [1]}, 400, "json: cannot unmarshal"),
        ({"ID": "x", "Type": "batch"}, 500, "Missing job task groups"),
        ({"ID": "x", "Type": "odd", "TaskGroups": [{"Name": "g"}]}, 500, "2 errors occurred"),
    ],
)
def test_what_is_no_job_is_refused(raw: dict[str, object], status: int, text: str) -> None:
    cluster = lab()
    with pytest.raises(Refused, match=text) as refused:
        cluster.jobs.register(raw)
    assert refused.value.status == status


def test_a_forced_evaluation_replaces_what_has_failed() -> None:
    cluster = lab()
    raw = runner_job("10-a")
    raw["TaskGroups"][0]["Tasks"][0]["Config"] = {"command": "false"}
    raw["TaskGroups"][0]["RestartPolicy"]["Attempts"] = 0
    raw["TaskGroups"][0]["ReschedulePolicy"]["Attempts"] = 0
    job, _ = cluster.jobs.register(raw)
    cluster.run_for(3)
    assert job_of(cluster, job.key).status == "dead"
    cluster.jobs.evaluate(job.key)
    cluster.run_for(3)
    assert statuses(cluster, job.key) == ["failed/run"]
    cluster.jobs.evaluate(job.key, force_reschedule=True)
    cluster.run_for(3)
    assert statuses(cluster, job.key) == ["failed/stop", "failed/run"]


def test_evaluating_what_is_not_there_is_refused() -> None:
    with pytest.raises(Refused, match="job not found"):
        lab().jobs.evaluate(("default", "10-x"))
