"""Reads are as new as asked for or `Unknown`; writes happen once, and end in certainty where there is any."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from aiohttp import web

from poseidon_reconciler.nomad.api import Api
from poseidon_reconciler.nomad.documents import Stamp, protected, runner_from_template
from poseidon_reconciler.nomad.outcomes import Conflict, NotFound, Ok, Outcome, Unknown
from tests.nomad.fake_nomad import FakeNomad, Script, after, hang_up, text
from tests.nomad.jobs import RUNNER, TEMPLATE, config_meta, runner, template

JOB_PATH = f"/v1/job/{RUNNER}"
NEW = runner_from_template(template(), RUNNER, Stamp("d7"))


async def test_a_job_is_read_typed_and_whole(nomad: FakeNomad, api: Api) -> None:
    nomad.add_job(template(7))

    outcome = await api.read_job(TEMPLATE)

    assert isinstance(outcome, Ok)
    assert outcome.value.payload.id == TEMPLATE
    assert outcome.value.document() == nomad.jobs[TEMPLATE]
    assert outcome.value.document() is not outcome.value.document()
    assert outcome.index == outcome.value.index == nomad.index


async def test_an_id_is_one_part_of_the_path(nomad: FakeNomad, api: Api) -> None:
    await api.read_job("10-a/../../jobs?x=1#y")

    assert nomad.requests[0].raw_path.startswith("/v1/job/10-a%2F..%2F..%2Fjobs%3Fx%3D1%23y?")


async def test_allocations_evaluations_and_nodes_are_read(nomad: FakeNomad, api: Api) -> None:
    nomad.add_allocation(RUNNER, "a1")
    nomad.add_evaluation(RUNNER, "e1", "blocked")
    nomad.add_node("n1", "down")

    allocations = await api.read_job_allocations(RUNNER)
    evaluations = await api.read_job_evaluations(RUNNER)
    node = await api.read_node("n1")

    assert isinstance(allocations, Ok)
    assert isinstance(evaluations, Ok)
    assert isinstance(node, Ok)
    assert [a.id for a in allocations.value] == ["a1"]
    assert [e.status for e in evaluations.value] == ["blocked"]
    assert node.value.status == "down"


async def test_null_is_an_empty_list(nomad: FakeNomad, api: Api) -> None:
    nomad.script("GET", f"{JOB_PATH}/allocations", text(200, "null", {"X-Nomad-Index": "5"}))

    assert await api.read_job_allocations(RUNNER) == Ok([], 5)


async def test_the_versions_of_all_servers_can_be_asked_for(nomad: FakeNomad, api: Api) -> None:
    members = '{"Members":[{"Tags":{"build":"1.10.5"}},{"Tags":{"build":"1.11.2"}},{"Tags":{}}]}'
    nomad.script("GET", "/v1/agent/members", text(200, members))

    assert await api.read_server_versions() == Ok(["1.10.5", "1.11.2", ""])


# --- how new ---------------------------------------------------------------------------------------------------------


def of_index(nomad: FakeNomad, index: int) -> Script:
    async def answer(request: web.Request) -> web.StreamResponse:
        right = nomad.respond(request)
        right.headers["X-Nomad-Index"] = str(index)
        return right

    return answer


@pytest.mark.parametrize("exists", [True, False])
async def test_an_answer_older_than_the_evidence_is_asked_for_again(nomad: FakeNomad, api: Api, exists: bool) -> None:
    if exists:
        nomad.add_job(runner())
    nomad.index = 200
    nomad.script("GET", JOB_PATH, of_index(nomad, 150), of_index(nomad, 199))

    outcome = await api.read_job(RUNNER, not_before=200)

    assert outcome.kind == ("ok" if exists else "not-found")
    assert isinstance(outcome, Ok | NotFound)
    assert outcome.index == 200
    assert len(nomad.requests) == 3


async def test_what_stays_older_than_the_evidence_is_unknown(nomad: FakeNomad, api: Api, waits: list[float]) -> None:
    nomad.index = 199

    outcome = await api.read_job(RUNNER, not_before=200)

    assert isinstance(outcome, Unknown)
    assert "199" in outcome.detail
    assert "200" in outcome.detail
    assert len(nomad.requests) == 4
    assert len(waits) == 3
    assert max(waits) <= 2.0


@pytest.mark.parametrize(
    "headers", [{"X-Nomad-KnownLeader": "false"}, {"X-Nomad-LastContact": "90000"}, {"X-Nomad-Index": ""}]
)
async def test_a_stale_answer_is_unknown(nomad: FakeNomad, api: Api, headers: dict[str, str]) -> None:
    nomad.headers = headers
    nomad.add_job(runner())

    assert (await api.read_job(RUNNER)).kind == "unknown"
    assert (await api.read_job("10-gone")).kind == "unknown"
    assert (await api.read_job_allocations(RUNNER)).kind == "unknown"


@pytest.mark.parametrize("body", ["", "{", '{"ID": 5}', "[]", "<html>", "[" * 5000])
async def test_an_unreadable_answer_is_unknown(nomad: FakeNomad, api: Api, body: str) -> None:
    nomad.script("GET", JOB_PATH, *[text(200, body, {"X-Nomad-Index": "5"})] * 4)

    assert (await api.read_job(RUNNER)).kind == "unknown"


# --- how often -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("passing", [hang_up, text(500, "No cluster leader"), text(500, "what"), text(502, "")])
async def test_a_read_survives_a_passing_fault(nomad: FakeNomad, api: Api, passing: Script) -> None:
    nomad.add_job(runner())
    nomad.script("GET", JOB_PATH, passing, passing)

    assert (await api.read_job(RUNNER)).kind == "ok"


@pytest.mark.parametrize(
    ("lasting", "kind", "asked"),
    [
        (text(500, "No cluster leader"), "unavailable", 4),
        (text(500, "what"), "unknown", 4),
        (text(403, "Permission denied"), "denied", 1),
        (text(400, "no"), "rejected", 1),
    ],
)
async def test_a_read_is_repeated_within_bounds_and_only_where_that_can_help(
    nomad: FakeNomad, api: Api, lasting: Script, kind: str, asked: int
) -> None:
    nomad.script("GET", JOB_PATH, *[lasting] * 10)

    assert (await api.read_job(RUNNER)).kind == kind
    assert len(nomad.requests) == asked


async def test_many_reads_at_once_keep_their_own_count(nomad: FakeNomad, api: Api) -> None:
    nomad.script("GET", JOB_PATH, *[text(500, "what")] * 9)
    nomad.add_job(runner())

    outcomes = await asyncio.gather(*[api.read_job(RUNNER) for _ in range(12)])

    assert [outcome.kind for outcome in outcomes].count("ok") >= 10


# --- writes ----------------------------------------------------------------------------------------------------------


async def test_creating_registers_a_job_that_must_not_exist(nomad: FakeNomad, api: Api) -> None:
    outcome = await api.register(NEW, enforce_index=0)

    assert outcome == Ok(nomad.index, nomad.index)
    assert nomad.bodies == [{"Job": NEW, "EnforceIndex": True, "JobModifyIndex": 0}]


async def test_changing_registers_a_job_as_it_was_read(nomad: FakeNomad, api: Api) -> None:
    before = nomad.add_job(runner())

    outcome = await api.register(protected(before, Stamp("d7")), enforce_index=before["JobModifyIndex"])

    assert outcome.kind == "ok"
    assert nomad.jobs[RUNNER]["Version"] == 1


@pytest.mark.parametrize("enforce_index", [0, 55])
async def test_a_job_that_is_not_as_it_was_is_a_conflict(nomad: FakeNomad, api: Api, enforce_index: int) -> None:
    nomad.add_job(runner())

    outcome = await api.register(NEW, enforce_index=enforce_index)

    assert isinstance(outcome, Conflict)
    assert nomad.jobs[RUNNER]["Version"] == 0


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (text(403, "Permission denied"), "denied"),
        (text(403, "Job registration, dispatch, and scale are disabled by the scheduler configuration"), "held"),
        (text(500, "No cluster leader"), "unavailable"),
        (text(400, "Job must be specified"), "rejected"),
    ],
)
async def test_a_write_that_surely_did_not_happen_is_neither_repeated_nor_read_back(
    nomad: FakeNomad, api: Api, answer: Script, kind: str
) -> None:
    nomad.script("POST", "/v1/jobs", answer)

    assert (await api.register(NEW, enforce_index=0)).kind == kind
    assert len(nomad.requests) == 1


def perform(nomad: FakeNomad, request: web.Request) -> None:
    nomad.respond(request)


AMBIGUOUS = [hang_up, text(500, "rpc error: EOF"), text(502, "Bad Gateway"), text(200, "")]


@pytest.mark.parametrize("answer", AMBIGUOUS)
async def test_a_write_whose_answer_was_lost_is_found_to_have_happened(
    nomad: FakeNomad, api: Api, answer: Script
) -> None:
    nomad.script("POST", "/v1/jobs", after(perform, nomad, answer))

    outcome = await api.register(NEW, enforce_index=0)

    assert outcome == Ok(nomad.index, nomad.index)
    assert nomad.paths("POST") == ["/v1/jobs"]


@pytest.mark.parametrize("answer", AMBIGUOUS)
async def test_a_write_that_is_not_to_be_seen_stays_unknown_and_is_not_repeated(
    nomad: FakeNomad, api: Api, answer: Script, waits: list[float]
) -> None:
    nomad.script("POST", "/v1/jobs", answer)

    outcome = await api.register(NEW, enforce_index=0)

    assert isinstance(outcome, Unknown)
    assert f"as of index {nomad.index}" in outcome.detail
    assert nomad.paths("POST") == ["/v1/jobs"]
    assert nomad.paths("GET") == [JOB_PATH] * 3
    assert sum(waits) == 2.5


async def test_a_write_that_takes_effect_late_is_seen(nomad: FakeNomad, api: Api) -> None:
    async def answer_and_then_register(request: web.Request) -> web.StreamResponse:
        right = nomad.respond(request)
        nomad.add_job(NEW)
        return right

    nomad.script("POST", "/v1/jobs", hang_up)
    nomad.script("GET", JOB_PATH, of_index(nomad, 100), answer_and_then_register)

    assert (await api.register(NEW, enforce_index=0)).kind == "ok"
    assert len(nomad.paths("GET")) == 3


async def test_a_write_that_cannot_be_read_back_is_unknown(nomad: FakeNomad, api: Api) -> None:
    nomad.script("POST", "/v1/jobs", after(perform, nomad, hang_up))
    nomad.script("GET", JOB_PATH, *[text(500, "No cluster leader")] * 12)

    outcome = await api.register(NEW, enforce_index=0)

    assert isinstance(outcome, Unknown)
    assert "cannot be read" in outcome.detail


@pytest.mark.parametrize("theirs", [Stamp("d8"), None])
async def test_a_job_of_somebody_else_is_not_taken_for_ours(nomad: FakeNomad, api: Api, theirs: Stamp | None) -> None:
    other = runner_from_template(template(), RUNNER, theirs) if theirs else runner()
    nomad.script("POST", "/v1/jobs", after(lambda n, _: n.add_job(other), nomad, hang_up))

    assert (await api.register(NEW, enforce_index=0)).kind == "conflict"


async def test_a_change_of_ours_survives_a_later_one_of_poseidon(nomad: FakeNomad, api: Api) -> None:
    def claim_afterwards(nomad: FakeNomad, request: web.Request) -> None:
        nomad.respond(request)
        claimed = nomad.jobs[RUNNER]
        config_meta(claimed)["used"] = "true"
        nomad.add_job(claimed)

    before = nomad.add_job(runner())
    nomad.script("POST", "/v1/jobs", after(claim_afterwards, nomad, hang_up))

    outcome = await api.register(protected(before, Stamp("d7")), enforce_index=before["JobModifyIndex"])

    assert outcome.kind == "ok"


async def test_a_change_that_did_not_happen_stays_unknown(nomad: FakeNomad, api: Api) -> None:
    before = nomad.add_job(runner())
    nomad.script("POST", "/v1/jobs", hang_up)

    outcome = await api.register(protected(before, Stamp("d7")), enforce_index=before["JobModifyIndex"])

    assert outcome.kind == "unknown"


async def test_a_change_of_a_job_that_is_gone_is_not_found(nomad: FakeNomad, api: Api) -> None:
    nomad.script("POST", "/v1/jobs", hang_up)

    assert (await api.register(protected(runner(), Stamp("d7")), enforce_index=50)).kind == "not-found"


async def test_a_job_is_stopped_and_then_purged(nomad: FakeNomad, api: Api) -> None:
    nomad.add_job(runner())

    assert (await api.deregister(RUNNER, purge=False)).kind == "ok"
    assert nomad.jobs[RUNNER]["Stop"] is True
    assert (await api.deregister(RUNNER, purge=True)).kind == "ok"
    assert nomad.jobs == {}
    assert (await api.deregister(RUNNER, purge=True)).kind == "ok"


Perform = Callable[[FakeNomad, web.Request], None]


@pytest.mark.parametrize("purge", [False, True])
@pytest.mark.parametrize(("effect", "kind"), [(perform, "ok"), (lambda nomad, request: None, "unknown")])
async def test_a_deregistration_whose_answer_was_lost_is_read_back(
    nomad: FakeNomad, api: Api, purge: bool, effect: Perform, kind: str
) -> None:
    nomad.add_job(runner())
    nomad.script("DELETE", JOB_PATH, after(effect, nomad, hang_up))

    outcome: Outcome[int] = await api.deregister(RUNNER, purge=purge)

    assert outcome.kind == kind
    assert nomad.paths("DELETE") == [JOB_PATH]


async def test_a_plan_is_no_write(nomad: FakeNomad, api: Api) -> None:
    before = nomad.add_job(runner())
    nomad.plans[RUNNER] = {
        "Annotations": {"DesiredTGUpdates": {"default-group": {"InPlaceUpdate": 1, "Brand": 2}}},
        "JobModifyIndex": before["JobModifyIndex"],
        "FailedTGAllocs": None,
    }
    nomad.script("POST", f"{JOB_PATH}/plan", hang_up)

    outcome = await api.plan(protected(before, Stamp("d7")))

    assert isinstance(outcome, Ok)
    assert outcome.value.updates is not None
    assert outcome.value.updates["default-group"].in_place_update == 1
    assert nomad.jobs[RUNNER]["Version"] == 0
    assert nomad.writes == []


async def test_nothing_is_written_once_the_view_has_become_stale(nomad: FakeNomad, api: Api) -> None:
    stale = api.guarded(lambda: False)

    outcomes = [
        await stale.register({"ID": "10-x"}, enforce_index=0),
        await stale.deregister("10-x", purge=True),
        await stale.stop_allocation("a"),
    ]

    assert [outcome.kind for outcome in outcomes] == ["unavailable"] * 3
    assert nomad.requests == []
    # Only for the decision that is stale.
    assert isinstance(await api.deregister("10-x", purge=True), Ok)
