"""What everybody may ask, over loopback."""

from __future__ import annotations

import asyncio
import time

import msgspec

from poseidon_reconciler.core.explanation import EnvironmentExplanation, JobExplanation
from poseidon_reconciler.core.ledger import ActionOutcome
from poseidon_reconciler.core.subjects import explain
from tests.core.builders import TEMPLATE, runner
from tests.observe.web.serving import ask, eventful, pool

CONTRACT_KEYS = {
    "state", "cause", "rule", "target", "idle", "used", "starting", "recovering", "blocked", "disconnected", "leaving",
    "lost", "deficit", "surplus",
}  # fmt: skip


async def test_healthz_says_whether_the_loop_turns() -> None:
    served = pool()
    async with served.serving() as client:
        assert await ask(client, "/healthz") == (200, {"alive": True})
        served.synced = False
        assert (await ask(client, "/healthz"))[0] == 200
        served.trouble = "the loop has not turned for 11 s"
        assert await ask(client, "/healthz") == (503, {"error": served.trouble})


async def test_readyz_says_why_nothing_is_decided() -> None:
    served = pool()
    async with served.serving() as client:
        assert await ask(client, "/readyz") == (200, {"ready": True})
        served.synced = False
        served.server.recent.noted("lists-not-read", "jobs: 403 Permission denied")
        status, answer = await ask(client, "/readyz")
    assert status == 503
    assert "lists-not-read: jobs: 403 Permission denied" in answer["error"]


async def test_metrics_are_those_that_are_given() -> None:
    async with pool(metrics=lambda: (b"up 1\n", "text/plain; version=1.0.0")).serving() as client:
        answer = await client.get("/metrics")
        assert (answer.status, await answer.text()) == (200, "up 1\n")
        assert answer.headers["Content-Type"] == "text/plain; version=1.0.0"
    async with pool().serving() as client:
        assert (await ask(client, "/metrics"))[0] == 404


async def test_metrics_are_made_beside_the_loop_and_once_for_all_who_ask() -> None:
    renders = 0

    def render() -> tuple[bytes, str]:
        nonlocal renders
        renders += 1
        time.sleep(0.5)
        return b"up 1\n", "text/plain"

    served = pool(metrics=render)
    async with served.serving() as client:
        scrapes = [asyncio.create_task(client.get("/metrics")) for _ in range(5)]
        await asyncio.sleep(0.1)
        assert (await ask(client, "/healthz"))[0] == 200
        assert not any(scrape.done() for scrape in scrapes)
        assert [(await scrape).status for scrape in scrapes] == [200] * 5
    assert renders == 1


async def test_the_status_has_the_numbers_of_the_contract_and_its_own() -> None:
    served = pool()
    async with served.serving() as client:
        status, document = await ask(client, "/v1/status")
    assert status == 200
    row = document["environments"]["10"]
    assert set(row) == CONTRACT_KEYS | {"on_their_way", "not_counting", "expected", "at_risk", "holds"}
    assert (row["state"], row["target"], row["idle"], row["deficit"]) == ("active", 3, 3, 0)
    assert [(node["status"], node["runners"]) for node in document["nodes"]] == [("ready", {"idle": 1})] * 3
    assert document["summary"] == {"level": "good", "text": "All is well: 1 pool at the target."}
    assert document["at"].endswith("Z")


async def test_a_loss_is_told_with_its_cause_its_node_and_its_evidence() -> None:
    served = pool()
    async with served.serving() as client:
        served.lose(0, index=500)
        _, document = await ask(client, "/v1/status")
    (loss,) = document["losses"]
    assert (loss["job_id"], loss["cause"], loss["state"]) == (runner(0), "stuck-complete", "lost")
    assert loss["node"].startswith("agent-")
    assert "complete" in loss["evidence"]
    assert [action["kind"] for action in document["actions"]] == ["create-runner", "remove-job"]
    row = document["environments"]["10"]
    assert (row["expected"], row["on_their_way"], row["not_counting"]) == (1, {"expected": 1}, {})


async def test_losses_are_told_by_node_and_the_surplus_with_its_story() -> None:
    served = eventful()
    async with served.serving() as client:
        _, document = await ask(client, "/v1/status")
    (blame,) = document["blame"]
    assert (blame["node"], blame["losses"], blame["causes"]) == ("agent-a0", 1, {"stuck-complete": 1})
    assert blame["what"] == "went down, ready again after 8s"
    assert blame["at"].endswith("Z")
    surplus = {"environment_id": "10", "surplus": 1, "story": "2 came back from nodes out of reach"}
    assert document["surplus"] == [surplus]


async def test_what_poseidon_believes_stands_beside_what_is() -> None:
    served = eventful()
    async with served.serving() as client:
        _, document = await ask(client, "/v1/status")
    (row,) = document["poseidon"]["environments"]
    assert (row["environment_id"], row["believed_idle"], row["idle"]) == ("10", 5, 4)
    assert (row["believed_used"], row["used"], row["drift"], row["lasting"]) == (1, 0, "too-many-idle", True)
    assert row["since"] == document["poseidon"]["at"]
    assert document["poseidon"]["text"] == "Poseidon and Nomad differ on 1 of 1 environment."


async def test_a_dry_run_tells_its_score() -> None:
    served = eventful()
    async with served.serving() as client:
        _, document = await ask(client, "/v1/status")
    assert document["dry_run"]
    (score,) = document["shadow"]
    assert (score["kind"], score["would"], score["open"], score["after_s"]) == ("remove-job", 1, 1, None)


async def test_of_what_is_not_there_nothing_is_told() -> None:
    async with pool().serving() as client:
        _, document = await ask(client, "/v1/status")
    assert (document["dry_run"], document["shadow"], document["poseidon"]) == (False, None, None)
    assert (document["blame"], document["surplus"]) == ([], [])


async def test_what_is_held_is_told_with_its_end() -> None:
    served = pool()
    async with served.serving() as client:
        served.lose(0, index=500, wait_s=15)
        _, document = await ask(client, "/v1/status")
    (hold,) = document["holds"]
    assert hold["environment_id"] == "10"
    assert "Poseidon goes first" in hold["reason"]
    assert hold["until"] > document["at"] >= hold["since"]
    assert (hold["rule"], bool(hold["ends"])) == ("settling", True)
    assert document["environments"]["10"]["holds"] == 1


async def test_the_journal_tells_decisions_and_then_what_became_of_them() -> None:
    served = pool()
    async with served.serving() as client:
        served.lose(0, index=500)
        _, first = await ask(client, "/v1/journal")
        served.server.recent.acted(served.bench.actions[0], ActionOutcome("done", "registered", 600))
        _, second = await ask(client, f"/v1/journal?since={first['next']}")
        _, third = await ask(client, f"/v1/journal?since={second['next']}")
    assert [(each["id"], each["kind"], each["outcome"]) for each in first["decisions"]] == [
        (1, "remove-job", None),
        (2, "create-runner", None),
    ]
    (ended,) = second["decisions"]
    assert (ended["id"], ended["outcome"]["result"], ended["outcome"]["detail"]) == (1, "done", "registered")
    assert third == {"next": second["next"], "decisions": []}


async def test_the_journal_is_read_in_parts_and_from_the_beginning_after_a_restart() -> None:
    served = pool()
    async with served.serving() as client:
        served.lose(0, index=500)
        _, first = await ask(client, "/v1/journal?since=0&limit=1")
        _, second = await ask(client, f"/v1/journal?since={first['next']}&limit=1")
        _, after_a_restart = await ask(client, "/v1/journal?since=900000")
        _, last = await ask(client, "/v1/journal?limit=1")
    assert [len(part["decisions"]) for part in (first, second, after_a_restart, last)] == [1, 1, 2, 1]
    assert first["decisions"][0]["id"] < second["decisions"][0]["id"] == last["decisions"][0]["id"]


async def test_a_bad_number_is_refused() -> None:
    async with pool().serving() as client:
        for query in ("since=-1", "since=x", "limit=0", "limit=1&limit=2", "since=" + "9" * 30, "since=%C2%B2"):
            status, answer = await ask(client, f"/v1/journal?{query}")
            assert status == 400, query
            assert query[:5] in answer["error"]


async def test_explain_gives_what_the_core_gives() -> None:
    served = pool()
    async with served.serving() as client:
        served.lose(0, index=500)
        _, of_job = await ask(client, f"/v1/explain/{runner(0)}")
        _, of_beginning = await ask(client, f"/v1/explain/{runner(0)[:11]}")
        _, of_environment = await ask(client, "/v1/explain/10")
        _, of_template = await ask(client, f"/v1/explain/{TEMPLATE}")
    assert of_job == of_beginning
    assert msgspec.convert(of_job["explanation"], JobExplanation) == explain(served.bench.core, runner(0))
    assert of_job["explanation"]["decisions"]
    assert (of_environment["kind"], of_template["kind"]) == ("environment", "job")
    environment = msgspec.convert(of_environment["explanation"], EnvironmentExplanation)
    assert environment == explain(served.bench.core, "10")


async def test_what_is_not_known_is_answered_with_what_may_be_meant() -> None:
    async with pool().serving() as client:
        status, answer = await ask(client, f"/v1/explain/{runner(1)[:-1]}7")
        assert (status, runner(1) in answer["near"]) == (404, True)
        status, answer = await ask(client, "/v1/explain/10-")
        assert (status, "3 jobs begin with" in answer["error"], len(answer["near"])) == (404, True, 3)


async def test_history_fills_with_time() -> None:
    async with pool().serving() as client:
        for _ in range(100):
            _, document = await ask(client, "/v1/history")
            if len(document["environments"].get("10", {"idle": []})["idle"]) > 1:
                break
            await asyncio.sleep(0.05)
    assert document["environments"]["10"]["target"][-1] == 3
    assert document["environments"]["10"]["idle"][-1] == 3


async def test_nothing_that_is_not_there_is_found() -> None:
    async with pool().serving() as client:
        for path in ("/v1", "/v2/status", "/page/page.css", "/..%2fserver.py", "/explain", "/explain/"):
            assert (await ask(client, path))[0] == 404, path
        answer = await client.delete("/v1/status")
        assert (answer.status, answer.headers["Allow"]) == (405, "GET,HEAD")
        assert await answer.json() == {"error": "method not allowed"}
