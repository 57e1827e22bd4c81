"""Pausing over HTTP: who may, what is understood, and what it does."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from yarl import URL

from poseidon_reconciler.observe.web import writes
from poseidon_reconciler.policy import Policy, PoolPolicy
from tests.core.builders import START, bench_with_pool
from tests.observe.web.serving import TOKEN, Served, ask, pool

OPERATIONS = Path(__file__).parents[3] / "docs" / "operations.md"
MAY = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    return path


async def post(
    client: aiohttp.ClientSession, path: str, body: Any, headers: dict[str, str] | None = None
) -> tuple[int, dict[str, Any]]:
    """With the token, unless other headers are given."""
    async with client.post(path, json=body, headers=MAY if headers is None else headers) as answer:
        return answer.status, await answer.json()


# --- who may ---------------------------------------------------------------------------------------------------------


async def test_without_a_token_file_nobody_may_and_is_told_how(tmp_path: Path) -> None:
    async with pool().serving() as client:
        status, answer = await post(client, "/v1/pause", {"reason": "maintenance"})
    assert (status, answer["error"]) == (403, "nobody may: http.token_file is not set")
    async with pool(token_file=tmp_path / "absent").serving() as client:
        status, answer = await post(client, "/v1/pause", {"reason": "maintenance"})
    assert (status, answer["error"]) == (403, "nobody may: http.token_file: no such file or directory")


@pytest.mark.parametrize(
    "given", [None, "", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer ü"]
)
async def test_the_token_is_needed(token_file: Path, given: str | None) -> None:
    served = pool(token_file=token_file)
    async with served.serving() as client:
        headers = {"Authorization": given} if given is not None else {}
        status, answer = await post(client, "/v1/pause", {"reason": "maintenance"}, headers)
    assert status == 401
    assert TOKEN not in str(answer)
    assert served.bench.core.planner.pauses.current(served.bench.now) == []


async def test_a_token_of_bytes_that_are_no_text_is_a_wrong_one(token_file: Path) -> None:
    served = pool(token_file=token_file)
    async with served.serving():
        reader, writer = await asyncio.open_connection("127.0.0.1", URL(served.address).port)
        writer.write(b"POST /v1/resume HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n")
        writer.write(b"Authorization: Bearer \xff\xfe\r\n\r\n")
        status = await reader.readline()
        writer.close()
    assert status.split()[1] == b"401"


async def test_the_token_is_the_one_of_the_file_as_it_is_now(token_file: Path) -> None:
    async with pool(token_file=token_file).serving() as client:
        token_file.write_text("another")  # noqa: ASYNC240 - nobody waits for it
        assert (await post(client, "/v1/pause", {"reason": "x"}))[0] == 401
        assert (await post(client, "/v1/pause", {"reason": "x"}, {"Authorization": "bearer another"}))[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://elsewhere.example"},
        {"Origin": "null"},
        {"Origin": "http://[::"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_a_page_of_another_site_may_not(token_file: Path, headers: dict[str, str]) -> None:
    async with pool(token_file=token_file).serving() as client:
        status, answer = await post(client, "/v1/resume", {}, MAY | headers)
    assert (status, answer["error"]) == (403, "a page of another site asks for this")


async def test_a_page_of_ours_may(token_file: Path) -> None:
    served = pool(token_file=token_file)
    async with served.serving() as client:
        ours = {"Origin": served.address, "Sec-Fetch-Site": "same-origin"}
        assert (await post(client, "/v1/resume", {}, MAY | ours))[0] == 200


# --- what is understood ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({}, 400, "reason"),
        ({"reason": ""}, 400, "reason"),
        ({"reason": " "}, 400, "reason"),
        ({"reason": "x" * 201}, 400, "reason"),
        ({"reason": 1}, 400, "reason"),
        ({"reason": "x", "environment_id": "010"}, 400, "environment_id"),
        ({"reason": "x", "environment_id": 10}, 400, "environment_id"),
        ({"reason": "x", "environment_id": "99"}, 404, "no environment 99"),
        ({"reason": "x", "for": "soon"}, 400, "soon"),
        ({"reason": "x", "for": ""}, 400, "''"),
        ({"reason": "x", "for": "0s"}, 409, "over already"),
        ({"reason": "x", "until": "2020-01-01T00:00:00Z"}, 409, "over already"),
        ({"reason": "x", "until": "2100-01-01T00:00:00"}, 400, "time zone"),
        ({"reason": "x", "until": "tomorrow"}, 400, "tomorrow"),
        ({"reason": "x", "until": "9999-12-31T23:59:59-23:59"}, 400, "beyond"),
        ({"reason": "x", "until": "2243-01-01T00:00:00Z"}, 400, "beyond"),
        ({"reason": "x", "for": "1m", "until": "2100-01-01T00:00:00Z"}, 400, "either"),
        ({"reason": "x", "environment": "10"}, 400, "unknown field `environment` (did you mean environment_id?)"),
        ({"reason": "x", "minutes": 5}, 400, "(known are reason, environment_id, for, until)"),
        ([], 400, "object"),
    ],
)
async def test_what_is_not_understood_changes_nothing(token_file: Path, body: Any, status: int, said: str) -> None:
    served = pool(token_file=token_file)
    async with served.serving() as client:
        answered, answer = await post(client, "/v1/pause", body)
    assert answered == status
    assert said in answer["error"]
    assert served.bench.core.planner.pauses.current(served.bench.now) == []


async def test_only_json_of_a_bounded_size_in_a_bounded_time(token_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writes, "_BODY_TIMEOUT_S", 0.2)

    async def endless() -> Any:
        yield b'{"reason": '
        await asyncio.sleep(5)

    async with pool(token_file=token_file).serving() as client:
        for data, headers, status in (
            (b'{"reason": "x"}', {"Content-Type": "text/plain"}, 415),
            (b'{"reason": "x"}', {"Content-Type": "application/x-www-form-urlencoded"}, 415),
            (b"{", {"Content-Type": "application/json"}, 400),
            (b'"\xff"', {"Content-Type": "application/json"}, 400),
            (b" " * 9000, {"Content-Type": "application/json"}, 413),
            (endless(), {"Content-Type": "application/json"}, 408),
        ):
            async with client.post("/v1/pause", data=data, headers=MAY | headers) as answer:
                assert answer.status == status, data
                assert (await answer.json())["error"]


# --- what it does ----------------------------------------------------------------------------------------------------


async def test_a_pause_holds_until_its_end(token_file: Path) -> None:
    served = pool(token_file=token_file)
    async with served.serving() as client:
        body = {"reason": "we drain a rack", "environment_id": "10", "for": "30m"}
        status, answer = await post(client, "/v1/pause", body)
        assert (status, answer["paused"], answer["kept"]) == (200, True, False)
        assert "not kept" in answer["text"]
        served.lose(0, index=500)
        _, document = await ask(client, "/v1/status")
    assert served.bench.actions == []
    (pause,) = document["pauses"]
    assert (pause["environment_id"], pause["reason"], pause["by"]) == ("10", "we drain a rack", "request")
    assert pause["until"] == answer["until"]
    assert document["holds"][0]["reason"] == "paused: we drain a rack"
    served.bench.wait(1800)
    assert sorted(served.bench.kinds()) == ["create-runner", "remove-job"]


async def test_a_pause_of_everything_ends_when_somebody_resumes(token_file: Path) -> None:
    served = pool(token_file=token_file)
    served.pausing.kept = True
    async with served.serving() as client:
        _, answer = await post(client, "/v1/pause", {"reason": "upgrade", "environment_id": None})
        assert (answer["until"], answer["kept"]) == (None, True)
        assert answer["text"] == "paused until somebody resumes, over a restart too"
        served.lose(0, index=500)
        assert served.bench.actions == []
        _, of_one = await post(client, "/v1/resume", {"environment_id": "10"})
        assert (of_one["paused"], of_one["text"]) == (
            True, "still paused as everything is (upgrade): resume without an environment_id"
        )  # fmt: skip
        _, answer = await post(client, "/v1/resume", {})
        assert (answer["paused"], answer["text"]) == (False, "resumed")
        _, document = await ask(client, "/v1/status")
    decided = served.bench.core.advance(served.bench.now).actions
    assert {action.kind for action in decided} == {"create-runner", "remove-job"}
    assert document["pauses"] == []


async def test_a_pause_ends_at_a_time_that_is_given(token_file: Path) -> None:
    served = pool(token_file=token_file)
    async with served.serving() as client:
        _, answer = await post(client, "/v1/pause", {"reason": "x", "until": "2040-01-01T01:00:00+01:00"})
    assert answer["until"] == "2040-01-01T00:00:00.000Z"


async def test_a_pause_of_the_configuration_is_not_lifted_here_and_it_is_said_which(token_file: Path) -> None:
    pool_policy = PoolPolicy(pause="frozen for exams", pause_until=START + 1e6)
    others = {"11": PoolPolicy(pause="broken image"), "12": PoolPolicy()}
    served = Served(bench_with_pool(1, policy=Policy(pool=pool_policy, environments=others)), token_file=token_file)
    served.synced = False  # so that environments which are not there may be named
    async with served.serving() as client:
        bodies: list[dict[str, str]] = [{}, *({"environment_id": id_} for id_ in ("10", "11", "12"))]
        answers = [(await post(client, "/v1/resume", body))[1] for body in bodies]
        _, document = await ask(client, "/v1/status")
    of_all = "still paused by the configuration (pool.pause: frozen for exams): take it out and reload"
    of_one = "still paused by the configuration (environments.11.pause: broken image): take it out and reload"
    assert [answer["text"] for answer in answers] == [of_all, of_all, of_one, "resumed"]
    assert [answer["paused"] for answer in answers] == [True, True, True, False]
    assert [pause["by"] for pause in document["pauses"]] == ["configuration"] * 2


async def test_there_is_a_bound_on_pauses(token_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writes, "_MAX_PAUSES", 1)
    async with pool(token_file=token_file).serving() as client:
        assert (await post(client, "/v1/pause", {"reason": "x"}))[0] == 200
        assert (await post(client, "/v1/pause", {"reason": "x", "environment_id": "10"}))[0] == 409


def test_what_the_page_on_operations_shows_of_it_works(token_file: Path) -> None:
    shell = shutil.which("sh")
    if shell is None or shutil.which("curl") is None:
        pytest.skip("no shell, or no curl")
    (block,) = re.findall(r"```sh\n(TOKEN=.*?)```", OPERATIONS.read_text(), re.DOTALL)
    served = pool(token_file=token_file)
    served.synced = False  # so that environments which are not there may be named
    with served.in_background():
        script = block.replace("/etc/poseidon-reconciler/http-token", str(token_file))
        script = script.replace("http://127.0.0.1:8646", served.address.rstrip("/"))
        script = script.replace('"2026-', '"2036-')  # yet to come where the bench's clock stands
        run = subprocess.run([shell, "-c", script], capture_output=True, text=True, check=True, timeout=30)
    answers = [msgspec.json.decode(line) for line in run.stdout.splitlines()]
    assert [answer.get("paused", answer) for answer in answers] == [True, True, True, True, False]
    (left,) = served.bench.core.planner.pauses.current(served.bench.now)
    assert left.environment_id == "10"
