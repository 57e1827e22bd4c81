"""A runner that is too much goes; one that somebody has claimed in between stays."""

from __future__ import annotations

import pytest
from aiohttp import web

from tests.nomad.actions import Acting
from tests.nomad.fake_nomad import FakeNomad, after, text
from tests.nomad.jobs import RUNNER, runner


@pytest.fixture
def idle(nomad: FakeNomad) -> None:
    nomad.add_job(runner())
    nomad.add_node("n1")
    nomad.add_allocation(RUNNER, "a1", ClientStatus="running", NodeID="n1")


def claim(nomad: FakeNomad, *_: object) -> None:
    nomad.index += 1
    job = nomad.jobs[RUNNER]
    job.update(JobModifyIndex=nomad.index, ModifyIndex=nomad.index, Version=1)
    job["TaskGroups"][1]["Meta"] = {"used": "true"}


@pytest.mark.usefixtures("idle")
async def test_it_is_stopped_on_condition_and_cleared_away(nomad: FakeNomad, act: Acting) -> None:
    index = nomad.jobs[RUNNER]["JobModifyIndex"]

    result = await act("stop-surplus", RUNNER)

    assert (result.outcome, result.detail) == ("done", "stopped and purged")
    (body,) = nomad.bodies
    assert (body["EnforceIndex"], body["JobModifyIndex"], body["Job"]["Stop"]) == (True, index, True)
    assert RUNNER not in nomad.jobs


@pytest.mark.usefixtures("idle")
async def test_a_claim_at_the_last_moment_wins(nomad: FakeNomad, act: Acting) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return nomad.respond(request)

    nomad.script("POST", "/v1/jobs", after(claim, nomad, answer))

    result = await act("stop-surplus", RUNNER)

    assert result.outcome == "skipped"
    assert nomad.jobs[RUNNER]["TaskGroups"][1]["Meta"] == {"used": "true"}
    assert not [write for write in nomad.writes if write.startswith("DELETE")]


@pytest.mark.parametrize(("method", "path", "deletions"), [("POST", "/v1/jobs", 0), ("DELETE", f"/v1/job/{RUNNER}", 1)])
@pytest.mark.usefixtures("idle")
async def test_what_is_registered_anew_after_the_stop_is_not_cleared_away(
    nomad: FakeNomad, act: Acting, method: str, path: str, deletions: int
) -> None:
    async def claimed_from_an_older_copy(request: web.Request) -> web.StreamResponse:
        answer = nomad.respond(request)
        claim(nomad)
        nomad.jobs[RUNNER]["Stop"] = False
        return answer

    nomad.script(method, path, claimed_from_an_older_copy)

    result = await act("stop-surplus", RUNNER)

    assert (result.outcome, result.detail) == ("skipped", "somebody has registered it anew since it was stopped")
    assert len([write for write in nomad.writes if write.startswith("DELETE")]) == deletions
    assert not nomad.jobs[RUNNER]["Stop"]


@pytest.mark.usefixtures("idle")
async def test_what_somebody_else_has_purged_after_the_stop_is_done(nomad: FakeNomad, act: Acting) -> None:
    async def stopped_and_purged(request: web.Request) -> web.StreamResponse:
        answer = nomad.respond(request)
        del nomad.jobs[RUNNER]
        return answer

    nomad.script("POST", "/v1/jobs", stopped_and_purged)

    result = await act("stop-surplus", RUNNER)

    assert (result.outcome, result.detail) == ("done", "stopped, and purged by somebody")
    assert nomad.writes == ["POST /v1/jobs"]


@pytest.mark.usefixtures("idle")
async def test_a_used_runner_stays(nomad: FakeNomad, act: Acting) -> None:
    claim(nomad)

    result = await act("stop-surplus", RUNNER)

    assert (result.outcome, result.detail) == ("skipped", "it is not idle: it is used")
    assert nomad.writes == []


async def test_one_that_does_not_run_is_not_for_this(nomad: FakeNomad, act: Acting) -> None:
    nomad.add_job(runner())

    assert (await act("stop-surplus", RUNNER)).detail == "it is not idle: it does not run"
    assert nomad.writes == []


async def test_one_that_is_gone_is_done(act: Acting) -> None:
    assert (await act("stop-surplus", RUNNER)).outcome == "already"


@pytest.mark.usefixtures("idle")
async def test_a_dry_run_only_looks(nomad: FakeNomad, act: Acting) -> None:
    act.dry_run = True

    assert (await act("stop-surplus", RUNNER)).detail == "dry run: would stop and purge it"
    assert nomad.writes == []


@pytest.mark.usefixtures("idle")
async def test_one_that_is_stopped_and_not_cleared_away_is_unknown(nomad: FakeNomad, act: Acting) -> None:
    nomad.script("DELETE", f"/v1/job/{RUNNER}", text(403, "Permission denied"))

    result = await act("stop-surplus", RUNNER)

    assert result.outcome == "unknown"
    assert "not cleared away" in result.detail
