"""New jobs come into being once, as copies of what is there now, and not for what is alive."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from poseidon_reconciler.nomad.confirm import AsOf
from poseidon_reconciler.nomad.documents import Stamp, runner_from_template
from poseidon_reconciler.policy import Policy, PoolPolicy
from tests.nomad.actions import Acting, kill
from tests.nomad.fake_nomad import FakeNomad, after, hang_up, text
from tests.nomad.jobs import OTHER, RUNNER, TEMPLATE, config_meta, runner, template


@pytest.fixture
def environment(nomad: FakeNomad) -> None:
    nomad.add_job(template(3))
    nomad.add_node("n1")


pytestmark = pytest.mark.usefixtures("environment")


async def test_a_refill_is_registered(nomad: FakeNomad, act: Acting) -> None:
    result = await act("create-runner", RUNNER)

    assert (result.outcome, result.index) == ("done", nomad.jobs[RUNNER]["JobModifyIndex"])
    assert nomad.bodies[0]["Job"] == runner_from_template(nomad.jobs[TEMPLATE], RUNNER, Stamp("d7", "trace"))
    assert nomad.bodies[0]["JobModifyIndex"] == 0
    assert orjson.loads(act.templates[TEMPLATE]) == nomad.jobs[TEMPLATE]


async def test_a_replacement_says_what_it_replaces(nomad: FakeNomad, act: Acting) -> None:
    nomad.add_job(runner(OTHER))
    kill(nomad, OTHER)

    assert (await act("create-runner", RUNNER, replaces=OTHER)).outcome == "done"
    assert config_meta(nomad.jobs[RUNNER])["poseidon-reconciler.replaces"] == OTHER


@pytest.mark.parametrize("cleared", ["purged", "stopped"])
async def test_a_loss_that_was_cleared_away_is_still_replaced(nomad: FakeNomad, act: Acting, cleared: str) -> None:
    if cleared == "stopped":
        nomad.add_job({**runner(OTHER), "Stop": True})
        nomad.add_allocation(OTHER, "a1")

    assert (await act("create-runner", RUNNER, replaces=OTHER)).outcome == "done"


async def test_what_is_back_is_not_replaced(nomad: FakeNomad, act: Acting) -> None:
    nomad.add_job(runner(OTHER))
    nomad.add_allocation(OTHER, "a1")

    result = await act("create-runner", RUNNER, replaces=OTHER)

    assert (result.outcome, result.detail) == ("skipped", "what it replaces is not lost: it runs")
    assert nomad.writes == []


@pytest.mark.parametrize("path", [f"/v1/job/{OTHER}", f"/v1/job/{OTHER}/evaluations", f"/v1/job/{TEMPLATE}"])
async def test_what_cannot_be_confirmed_is_not_created(nomad: FakeNomad, act: Acting, path: str) -> None:
    nomad.add_job(runner(OTHER))
    kill(nomad, OTHER)
    nomad.script("GET", path, *[text(500, "what")] * 4)

    assert (await act("create-runner", RUNNER, replaces=OTHER)).outcome == "failed"
    assert nomad.writes == []


async def test_a_view_older_than_the_loss_creates_nothing(nomad: FakeNomad, act: Acting) -> None:
    result = await act("create-runner", RUNNER, AsOf(job_index=nomad.index + 1), replaces=OTHER)

    assert result.outcome == "failed"
    assert nomad.writes == []


@pytest.mark.parametrize(("fields", "why"), [(None, "it is gone"), ({"Stop": True}, "stopped by somebody")])
async def test_without_its_environment_nothing_is_created(
    nomad: FakeNomad, act: Acting, fields: dict[str, Any] | None, why: str
) -> None:
    if fields is None:
        del nomad.jobs[TEMPLATE]
    else:
        nomad.jobs[TEMPLATE].update(fields)

    result = await act("create-runner", RUNNER)

    assert result.outcome == "skipped"
    assert why in result.detail
    assert nomad.writes == []


async def test_a_dead_environment_is_still_one_to_copy(nomad: FakeNomad, act: Acting) -> None:
    kill(nomad, TEMPLATE)

    assert (await act("create-runner", RUNNER)).outcome == "done"


async def test_exists_already_is_success(nomad: FakeNomad, act: Acting) -> None:
    there = nomad.add_job(runner())

    result = await act("create-runner", RUNNER)

    assert (result.outcome, result.index) == ("already", there["JobModifyIndex"])
    assert nomad.jobs[RUNNER]["Version"] == 0


async def test_a_runner_that_came_and_went_is_told(nomad: FakeNomad, act: Acting) -> None:
    nomad.script("POST", "/v1/jobs", text(500, "Enforcing job modify index 0: job already exists"))

    assert (await act("create-runner", RUNNER)).outcome == "skipped"


async def test_a_lost_answer_creates_nothing_twice(nomad: FakeNomad, act: Acting) -> None:
    nomad.script("POST", "/v1/jobs", after(lambda n, request: n.respond(request), nomad, hang_up))

    assert (await act("create-runner", RUNNER)).outcome == "done"
    assert nomad.writes == ["POST /v1/jobs"]


@pytest.mark.parametrize(
    ("answer", "outcome", "cause"),
    [
        (text(403, "Permission denied"), "failed", "denied"),
        (
            text(403, "Job registration, dispatch, and scale are disabled by the scheduler configuration"),
            "failed",
            "held",
        ),
        (text(500, "No cluster leader"), "failed", "unavailable"),
        (text(400, "no"), "failed", "rejected"),
        (hang_up, "unknown", "unknown"),
    ],
)
async def test_a_failure_is_told_with_its_cause(
    nomad: FakeNomad, act: Acting, answer: Any, outcome: str, cause: str
) -> None:
    nomad.script("POST", "/v1/jobs", answer)

    result = await act("create-runner", RUNNER)

    assert (result.outcome, result.cause and result.cause.kind) == (outcome, cause)


@pytest.mark.parametrize(
    ("pool", "stamped"),
    [
        (PoolPolicy(disconnect_policy="exactly", stop_after_s=60.0), 60_000_000_000),
        (PoolPolicy(disconnect_policy="exactly"), None),
        (PoolPolicy(stop_after_s=60.0), None),
    ],
)
async def test_runners_of_an_exactly_pool_get_the_stop_after_block(
    nomad: FakeNomad, act: Acting, pool: PoolPolicy, stamped: int | None
) -> None:
    act.policy = Policy(environments={"10": pool})

    await act("create-runner", RUNNER)

    assert nomad.jobs[RUNNER]["TaskGroups"][0]["StopAfterClientDisconnect"] == stamped


async def test_a_template_that_is_none_of_poseidons_is_told(nomad: FakeNomad, act: Acting) -> None:
    nomad.jobs[TEMPLATE]["TaskGroups"].pop()

    result = await act("create-runner", RUNNER)

    assert result.outcome == "failed"
    assert "no group 'config'" in result.detail


async def test_a_dry_run_creates_nothing(nomad: FakeNomad, act: Acting) -> None:
    act.dry_run = True

    result = await act("create-runner", RUNNER)

    assert (result.outcome, result.detail) == ("would", f"dry run: would register {RUNNER}")
    assert nomad.writes == []


# --- restore-environment ---------------------------------------------------------------------------------------------


async def test_an_environment_is_restored_from_what_was_kept(nomad: FakeNomad, act: Acting) -> None:
    act.templates[TEMPLATE] = orjson.dumps(nomad.jobs.pop(TEMPLATE))

    result = await act("restore-environment", TEMPLATE)

    assert result.outcome == "done"
    assert nomad.jobs[TEMPLATE]["Version"] == 0
    assert config_meta(nomad.jobs[TEMPLATE])["prewarmingPoolSize"] == "3"
    assert nomad.bodies[0]["JobModifyIndex"] == 0


async def test_an_environment_that_is_back_is_not_touched(nomad: FakeNomad, act: Acting) -> None:
    act.templates[TEMPLATE] = orjson.dumps(nomad.jobs[TEMPLATE])

    assert (await act("restore-environment", TEMPLATE)).outcome == "already"
    assert nomad.writes == []


async def test_an_environment_that_was_never_read_cannot_be_restored(nomad: FakeNomad, act: Acting) -> None:
    del nomad.jobs[TEMPLATE]

    assert (await act("restore-environment", TEMPLATE)).outcome == "failed"
    assert nomad.writes == []


@pytest.mark.parametrize("answer", [text(500, "what"), text(404, "<html>"), text(404, "job not found")])
async def test_only_nomads_own_word_that_it_is_gone_restores_an_environment(
    nomad: FakeNomad, act: Acting, answer: Any
) -> None:
    act.templates[TEMPLATE] = orjson.dumps(nomad.jobs.pop(TEMPLATE))
    nomad.script("GET", f"/v1/job/{TEMPLATE}", *[answer] * 4)

    assert (await act("restore-environment", TEMPLATE)).outcome == "failed"
    assert nomad.writes == []
