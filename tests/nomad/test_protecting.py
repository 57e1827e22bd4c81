"""A new version in place or nothing; never over somebody else's change; looked after afterwards."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from poseidon_reconciler.nomad.confirm import AsOf
from tests.nomad.actions import Acting, in_place, planned
from tests.nomad.fake_nomad import FakeNomad, JsonObject, after, hang_up, text
from tests.nomad.jobs import RUNNER, TEMPLATE, config_meta, runner, template

PLAN_PATH = f"/v1/job/{RUNNER}/plan"


def survivor(nomad: FakeNomad, job: JsonObject | None = None) -> JsonObject:
    """A job that runs, with a finished allocation of its version that condemns it."""
    found = nomad.add_job(job or runner())
    nomad.add_allocation(found["ID"], "old", ClientStatus="complete", DesiredStatus="stop")
    nomad.add_allocation(found["ID"], "new")
    nomad.add_node("n1")
    nomad.plans[found["ID"]] = planned(found, default_group={"InPlaceUpdate": 1, "Ignore": 1}, config={})
    nomad.on_register = lambda job: in_place(nomad, job)
    return found


def waiting(nomad: FakeNomad) -> JsonObject:
    """A job that is blocked while all agents are away."""
    found = nomad.add_job(runner(), status="pending")
    nomad.add_allocation(RUNNER, "old", ClientStatus="lost", DesiredStatus="stop")
    nomad.add_evaluation(RUNNER, "e1", "blocked")
    nomad.add_node("n1", "down")
    nomad.plans[RUNNER] = planned(found, default_group={"Place": 1, "Ignore": 1}, config={})
    return found


@pytest.mark.parametrize("used", ["false", "true"])
async def test_a_survivor_gets_a_new_version_in_place(nomad: FakeNomad, act: Acting, used: str) -> None:
    before = survivor(nomad, runner(used=used))

    done = await act("protect-job", RUNNER)

    assert (done.outcome, done.detail) == ("done", "version 1, in place")
    assert done.index == nomad.jobs[RUNNER]["JobModifyIndex"] > before["JobModifyIndex"]
    assert config_meta(nomad.jobs[RUNNER]) == {"used": used, "poseidon-reconciler.protected": "d7 of version 0"}
    assert nomad.writes == ["POST /v1/jobs"]
    planned_body, registered_body = nomad.bodies
    assert planned_body["Job"] == registered_body["Job"]
    assert registered_body["JobModifyIndex"] == before["JobModifyIndex"]


async def test_an_environment_is_protected_too(nomad: FakeNomad, act: Acting) -> None:
    survivor(nomad, template())

    assert (await act("protect-job", TEMPLATE)).outcome == "done"
    assert config_meta(nomad.jobs[TEMPLATE])["prewarmingPoolSize"] == "5"


async def test_a_blocked_job_is_protected_although_the_plan_places_what_it_waits_for(
    nomad: FakeNomad, act: Acting
) -> None:
    waiting(nomad)

    assert (await act("protect-job", RUNNER)).outcome == "done"
    assert nomad.jobs[RUNNER]["Version"] == 1


@pytest.mark.parametrize(
    ("updates", "why"),
    [
        ({"DestructiveUpdate": 1}, "destructive_update 1 in group default-group"),
        ({"InPlaceUpdate": 1, "Stop": 1}, "stop 1 in group default-group"),
        ({"Migrate": 1}, "migrate 1"),
        ({"InPlaceUpdate": 1, "Place": 1}, "place 1 in group default-group, where 1 run already"),
        ({"Preemptions": 1}, "preemptions 1"),
        ({"Canary": 1}, "canary 1"),
        ({"RescheduleNow": 1}, "reschedule_now 1"),
        ({"RescheduleLater": 1}, "reschedule_later 1"),
        ({"Disconnect": 1}, "disconnect 1"),
        ({"Reconnect": 1}, "reconnect 1"),
    ],
)
async def test_a_plan_that_is_not_in_place_is_not_carried_out(
    nomad: FakeNomad, act: Acting, updates: dict[str, int], why: str
) -> None:
    job = survivor(nomad)
    nomad.plans[RUNNER] = planned(job, default_group=updates, config={})

    result = await act("protect-job", RUNNER)

    assert result.outcome == "failed"
    assert why in result.detail
    assert nomad.writes == []


@pytest.mark.parametrize("group", ["default_group", "config"])
async def test_every_group_counts(nomad: FakeNomad, act: Acting, group: str) -> None:
    job = survivor(nomad)
    nomad.plans[RUNNER] = planned(job, **{"default_group": {"InPlaceUpdate": 1}, group: {"Stop": 1}})

    assert (await act("protect-job", RUNNER)).outcome == "failed"
    assert nomad.writes == []


@pytest.mark.parametrize("annotations", [None, {}, {"DesiredTGUpdates": None}, {"DesiredTGUpdates": {}}])
async def test_a_scheduler_that_does_not_tell_is_not_trusted(nomad: FakeNomad, act: Acting, annotations: Any) -> None:
    survivor(nomad)
    nomad.plans[RUNNER]["Annotations"] = annotations

    assert (await act("protect-job", RUNNER)).outcome == "failed"
    assert nomad.writes == []


async def test_what_is_not_at_risk_any_more_is_left_alone(nomad: FakeNomad, act: Acting) -> None:
    job = survivor(nomad)
    job["Version"] = 1

    result = await act("protect-job", RUNNER)

    assert (result.outcome, result.index) == ("already", job["JobModifyIndex"])
    assert nomad.writes == []


@pytest.mark.parametrize(("fields", "why"), [({"Stop": True}, "stopped"), ({"Status": "dead"}, "dead already")])
async def test_what_is_stopped_or_dead_is_left_alone(
    nomad: FakeNomad, act: Acting, fields: JsonObject, why: str
) -> None:
    survivor(nomad).update(fields)

    result = await act("protect-job", RUNNER)

    assert result.outcome == "skipped"
    assert why in result.detail
    assert nomad.writes == []


async def test_what_is_gone_is_skipped(nomad: FakeNomad, act: Acting) -> None:
    result = await act("protect-job", RUNNER)

    assert result.outcome == "skipped"
    assert "gone" in result.detail


@pytest.mark.parametrize("path", [f"/v1/job/{RUNNER}", f"/v1/job/{RUNNER}/allocations", "/v1/node/n1"])
async def test_what_cannot_be_read_is_not_acted_on(nomad: FakeNomad, act: Acting, path: str) -> None:
    survivor(nomad)
    nomad.script("GET", path, *[text(500, "No cluster leader")] * 4)

    result = await act("protect-job", RUNNER)

    assert (result.outcome, result.cause and result.cause.kind) == ("failed", "unavailable")
    assert nomad.writes == []


async def test_evidence_newer_than_the_answers_is_not_acted_on(nomad: FakeNomad, act: Acting) -> None:
    survivor(nomad)

    assert (await act("protect-job", RUNNER, AsOf(job_index=nomad.index + 1))).outcome == "failed"
    assert nomad.writes == []


def claim(nomad: FakeNomad, _: web.Request | None = None) -> None:
    """Poseidon marks the runner used, at the worst moment."""
    job = nomad.jobs[RUNNER]
    config_meta(job)["used"] = "true"
    claimed = nomad.add_job(job)
    in_place(nomad, claimed)
    nomad.allocations[RUNNER][0]["JobVersion"] = claimed["Version"]
    nomad.plans[RUNNER] = planned(claimed, default_group={"InPlaceUpdate": 1})


@pytest.mark.parametrize("moment", ["plan", "register"])
async def test_a_mark_that_is_set_meanwhile_is_never_overwritten(nomad: FakeNomad, act: Acting, moment: str) -> None:
    survivor(nomad)
    path = PLAN_PATH if moment == "plan" else "/v1/jobs"

    async def claimed_first(request: web.Request) -> web.StreamResponse:
        claim(nomad)
        return nomad.respond(request)

    nomad.script("POST", path, claimed_first)

    result = await act("protect-job", RUNNER)

    assert result.outcome == "done"
    assert config_meta(nomad.jobs[RUNNER])["used"] == "true"
    assert nomad.jobs[RUNNER]["Version"] == 2


async def test_a_job_that_changes_all_the_time_is_given_up(nomad: FakeNomad, act: Acting) -> None:
    survivor(nomad)

    async def claimed_first(request: web.Request) -> web.StreamResponse:
        claim(nomad)
        return nomad.respond(request)

    nomad.script("POST", "/v1/jobs", *[claimed_first] * 5)

    result = await act("protect-job", RUNNER)

    assert result.outcome == "failed"
    assert nomad.writes == ["POST /v1/jobs"] * 3


async def test_a_lost_answer_is_settled(nomad: FakeNomad, act: Acting) -> None:
    survivor(nomad)
    nomad.script("POST", "/v1/jobs", after(lambda n, request: n.respond(request), nomad, hang_up))

    assert (await act("protect-job", RUNNER)).outcome == "done"
    assert nomad.writes == ["POST /v1/jobs"]


async def test_an_allocation_that_is_stopped_by_it_is_an_alarm(nomad: FakeNomad, act: Acting) -> None:
    survivor(nomad)

    def stop(job: JsonObject) -> None:
        nomad.allocations[RUNNER][1].update(DesiredStatus="stop", DesiredDescription="alloc not needed")

    nomad.on_register = stop

    result = await act("protect-job", RUNNER)

    assert (result.outcome, result.detail) == ("failed", "its allocation was stopped: alloc not needed")


async def test_an_allocation_that_does_not_follow_is_told_within_seconds(nomad: FakeNomad, act: Acting) -> None:
    survivor(nomad)
    nomad.on_register = lambda job: None

    result = await act("protect-job", RUNNER)

    assert result.outcome == "unknown"
    assert 4 < act.waited_s < 6


async def test_a_job_that_somebody_removes_right_afterwards_is_not_waited_for(nomad: FakeNomad, act: Acting) -> None:
    survivor(nomad)

    def remove(job: JsonObject) -> None:
        del nomad.jobs[job["ID"]]

    nomad.on_register = remove

    result = await act("protect-job", RUNNER)

    assert (result.outcome, result.detail) == ("done", "registered, and removed by somebody since")
    assert act.waited_s < 0.5


async def test_an_allocation_that_the_plan_ignores_need_not_follow(nomad: FakeNomad, act: Acting) -> None:
    job = survivor(nomad)
    nomad.plans[RUNNER] = planned(job, default_group={"Ignore": 2})
    nomad.on_register = lambda job: None

    assert (await act("protect-job", RUNNER)).outcome == "done"


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (text(403, "Permission denied"), "failed"),
        (text(403, "Job registration, dispatch, and scale are disabled by the scheduler configuration"), "failed"),
        (text(500, "No cluster leader"), "failed"),
        (hang_up, "unknown"),
    ],
)
async def test_a_registration_that_fails_is_told(nomad: FakeNomad, act: Acting, answer: Any, outcome: str) -> None:
    survivor(nomad)
    nomad.script("POST", "/v1/jobs", answer)

    assert (await act("protect-job", RUNNER)).outcome == outcome


async def test_a_dry_run_plans_and_registers_nothing(nomad: FakeNomad, act: Acting) -> None:
    survivor(nomad)
    act.dry_run = True

    result = await act("protect-job", RUNNER)

    assert (result.outcome, result.detail) == ("would", "dry run: would register version 1 in place")
    assert nomad.paths("POST") == [PLAN_PATH]
    assert nomad.writes == []
