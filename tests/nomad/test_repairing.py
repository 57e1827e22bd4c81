"""What Nomad has given up is revived or removed; what somebody wants, or may use, is not."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from poseidon_reconciler.nomad.confirm import AsOf
from tests.nomad.actions import Acting, kill
from tests.nomad.fake_nomad import FakeNomad, JsonObject, after, hang_up, text
from tests.nomad.jobs import RUNNER, TEMPLATE, config_meta, runner, template


@pytest.fixture
def dead_environment(nomad: FakeNomad) -> JsonObject:
    found = nomad.add_job(template(3))
    kill(nomad, TEMPLATE)
    return found


@pytest.fixture
def dead_runner(nomad: FakeNomad) -> JsonObject:
    found = nomad.add_job(runner())
    kill(nomad)
    return found


def becomes(nomad: FakeNomad, status: str) -> None:
    """What becomes of a job that is registered from now on."""

    def settle(job: JsonObject) -> None:
        job["Status"] = status

    nomad.on_register = settle


@pytest.mark.parametrize(
    ("status", "outcome", "detail"),
    [
        ("running", "done", "it runs"),
        ("pending", "done", "it waits for an allocation"),
        ("dead", "failed", "it is dead again"),
    ],
)
async def test_a_dead_environment_is_registered_changed_and_looked_after(
    nomad: FakeNomad, act: Acting, dead_environment: JsonObject, status: str, outcome: str, detail: str
) -> None:
    becomes(nomad, status)

    result = await act("revive-environment", TEMPLATE)

    assert (result.outcome, result.detail) == (outcome, detail)
    assert nomad.bodies[0]["JobModifyIndex"] == dead_environment["JobModifyIndex"]
    assert config_meta(nomad.jobs[TEMPLATE])["poseidon-reconciler.revived"] == "d7 of version 0"
    assert nomad.jobs[TEMPLATE]["Version"] == 1
    assert act.waited_s < 6
    assert (act.waited_s < 0.1) == (status == "running")


@pytest.mark.usefixtures("dead_environment")
async def test_what_somebody_stopped_is_not_revived(nomad: FakeNomad, act: Acting) -> None:
    nomad.jobs[TEMPLATE]["Stop"] = True

    assert (await act("revive-environment", TEMPLATE)).outcome == "skipped"
    assert nomad.writes == []


@pytest.mark.usefixtures("dead_environment")
async def test_what_lives_again_is_not_revived(nomad: FakeNomad, act: Acting) -> None:
    nomad.jobs[TEMPLATE]["Status"] = "running"
    nomad.add_allocation(TEMPLATE, "a2")
    nomad.add_node("n1")

    assert (await act("revive-environment", TEMPLATE)).outcome == "skipped"
    assert nomad.writes == []


@pytest.mark.usefixtures("dead_environment")
async def test_what_nomad_still_evaluates_is_not_revived(nomad: FakeNomad, act: Acting) -> None:
    nomad.add_evaluation(TEMPLATE, "e1", "blocked")

    assert (await act("revive-environment", TEMPLATE)).outcome == "skipped"


@pytest.mark.usefixtures("dead_environment")
async def test_a_revival_does_not_overwrite_a_change(nomad: FakeNomad, act: Acting) -> None:
    async def changed_first(request: web.Request) -> web.StreamResponse:
        nomad.add_job(template(9))
        return nomad.respond(request)

    nomad.script("POST", "/v1/jobs", changed_first)

    result = await act("revive-environment", TEMPLATE)

    assert (result.outcome, result.cause and result.cause.kind) == ("skipped", "conflict")
    assert config_meta(nomad.jobs[TEMPLATE])["prewarmingPoolSize"] == "9"


@pytest.mark.usefixtures("dead_environment")
async def test_a_revival_of_which_nothing_can_be_read_is_unknown(nomad: FakeNomad, act: Acting) -> None:
    def shut(nomad: FakeNomad, request: web.Request) -> None:
        nomad.script("GET", f"/v1/job/{TEMPLATE}", *[text(500, "what")] * 100)

    async def register(request: web.Request) -> web.StreamResponse:
        shut(nomad, request)
        return nomad.respond(request)

    nomad.script("POST", "/v1/jobs", register)

    assert (await act("revive-environment", TEMPLATE)).outcome == "unknown"


@pytest.mark.usefixtures("dead_environment")
async def test_a_dry_run_revives_nothing(nomad: FakeNomad, act: Acting) -> None:
    act.dry_run = True

    assert (await act("revive-environment", TEMPLATE)).detail == "dry run: would register version 1"
    assert nomad.writes == []


# --- remove-job ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("dead_runner")
async def test_a_lost_runner_is_stopped_and_then_purged(nomad: FakeNomad, act: Acting) -> None:
    result = await act("remove-job", RUNNER)

    assert (result.outcome, result.detail) == ("done", "stopped and purged")
    assert nomad.jobs == {}
    deletes = [request for request in nomad.requests if request.method == "DELETE"]
    assert [request.query["purge"] for request in deletes] == ["false", "true"]


@pytest.mark.usefixtures("dead_runner")
async def test_a_used_runner_that_is_dead_is_removed_too(nomad: FakeNomad, act: Acting) -> None:
    config_meta(nomad.jobs[RUNNER])["used"] = "true"

    assert (await act("remove-job", RUNNER)).outcome == "done"


async def test_what_is_gone_is_removed_already(nomad: FakeNomad, act: Acting) -> None:
    assert (await act("remove-job", RUNNER)).outcome == "already"
    assert nomad.writes == []


async def test_a_used_runner_out_of_reach_is_never_removed(nomad: FakeNomad, act: Acting) -> None:
    nomad.add_job(runner(used="true"))
    nomad.add_allocation(RUNNER, "a1")
    nomad.add_node("n1", "down")

    result = await act("remove-job", RUNNER)

    assert result.outcome == "skipped"
    assert "used" in result.detail
    assert nomad.writes == []


async def test_an_idle_runner_out_of_reach_is_removed(nomad: FakeNomad, act: Acting) -> None:
    nomad.add_job(runner())
    nomad.add_allocation(RUNNER, "a1")
    nomad.add_node("n1", "down")

    assert (await act("remove-job", RUNNER)).outcome == "done"


@pytest.mark.usefixtures("dead_runner")
async def test_what_lives_again_is_not_removed(nomad: FakeNomad, act: Acting) -> None:
    nomad.add_allocation(RUNNER, "a2")
    nomad.add_node("n1")

    assert (await act("remove-job", RUNNER)).outcome == "skipped"
    assert nomad.writes == []


async def test_another_job_of_the_same_id_is_not_removed(
    nomad: FakeNomad, act: Acting, dead_runner: JsonObject
) -> None:
    result = await act("remove-job", RUNNER, AsOf(create_index=dead_runner["CreateIndex"] - 1))

    assert (result.outcome, result.detail) == ("skipped", "it is not lost: it was registered anew")
    assert nomad.writes == []


@pytest.mark.usefixtures("dead_runner")
async def test_what_changes_while_it_is_read_is_not_removed(nomad: FakeNomad, act: Acting) -> None:
    async def claimed_first(request: web.Request) -> web.StreamResponse:
        nomad.add_job(runner(used="true"))
        return nomad.respond(request)

    nomad.script("GET", f"/v1/job/{RUNNER}/evaluations", claimed_first)

    result = await act("remove-job", RUNNER)

    assert (result.outcome, result.detail) == ("skipped", "it changed while it was read")
    assert nomad.writes == []


@pytest.mark.usefixtures("dead_runner")
@pytest.mark.parametrize("path", ["", "/allocations", "/evaluations"])
async def test_what_cannot_be_read_is_not_removed(nomad: FakeNomad, act: Acting, path: str) -> None:
    nomad.script("GET", f"/v1/job/{RUNNER}{path}", *[text(500, "what")] * 4)

    assert (await act("remove-job", RUNNER)).outcome == "failed"
    assert nomad.writes == []


@pytest.mark.usefixtures("dead_runner")
@pytest.mark.parametrize(
    ("answer", "outcome"),
    [(text(403, "Permission denied"), "failed"), (hang_up, "unknown"), (text(500, "x"), "unknown")],
)
async def test_without_a_stop_there_is_no_purge(nomad: FakeNomad, act: Acting, answer: Any, outcome: str) -> None:
    nomad.script("DELETE", f"/v1/job/{RUNNER}", answer)

    assert (await act("remove-job", RUNNER)).outcome == outcome
    assert len(nomad.writes) == 1
    assert RUNNER in nomad.jobs


@pytest.mark.usefixtures("dead_runner")
async def test_lost_answers_are_settled(nomad: FakeNomad, act: Acting) -> None:
    lost = after(lambda n, request: n.respond(request), nomad, hang_up)
    nomad.script("DELETE", f"/v1/job/{RUNNER}", lost, lost)

    assert (await act("remove-job", RUNNER)).outcome == "done"
    assert len(nomad.writes) == 2
    assert nomad.jobs == {}


@pytest.mark.usefixtures("dead_runner")
async def test_a_purge_that_is_not_to_be_seen_is_unknown(nomad: FakeNomad, act: Acting) -> None:
    async def stop(request: web.Request) -> web.StreamResponse:
        return nomad.respond(request)

    nomad.script("DELETE", f"/v1/job/{RUNNER}", stop, hang_up)

    result = await act("remove-job", RUNNER)

    assert result.outcome == "unknown"
    assert result.detail.startswith("stopped, but not cleared away")


@pytest.mark.usefixtures("dead_runner")
async def test_what_is_registered_anew_after_the_stop_is_not_purged(nomad: FakeNomad, act: Acting) -> None:
    async def stopped_and_registered_anew(request: web.Request) -> web.StreamResponse:
        answer = nomad.respond(request)
        nomad.add_job(runner(used="true"))
        return answer

    nomad.script("DELETE", f"/v1/job/{RUNNER}", stopped_and_registered_anew)

    result = await act("remove-job", RUNNER)

    assert (result.outcome, result.detail) == ("skipped", "somebody has registered it anew since it was stopped")
    assert len(nomad.writes) == 1
    assert RUNNER in nomad.jobs


@pytest.mark.usefixtures("dead_runner")
async def test_a_dry_run_removes_nothing(nomad: FakeNomad, act: Acting) -> None:
    act.dry_run = True

    assert (await act("remove-job", RUNNER)).detail == "dry run: would stop and purge it"
    assert nomad.writes == []
