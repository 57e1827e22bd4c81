"""Headers, errors, blocking queries, paging and tokens of the HTTP API."""

from __future__ import annotations

import asyncio

import pytest

from poseidon_reconciler.twin.acl import MANAGEMENT, READ_JOB, READ_NODE, SUBMIT_JOB, Acl
from poseidon_reconciler.twin.poseidon_jobs import runner_job
from tests.twin.labs import lab, with_runner
from tests.twin.serving import serving


async def test_reads_tell_how_old_they_are() -> None:
    cluster = lab()
    key = with_runner(cluster)
    async with serving(cluster) as client:
        _, _, headers = await client.ask("GET", "/v1/jobs")
        assert headers["X-Nomad-Index"] == str(cluster.state.table_index["jobs"])
        assert (headers["X-Nomad-Knownleader"], headers["X-Nomad-Lastcontact"]) == ("true", "0")
        _, job, headers = await client.ask("GET", f"/v1/job/{key[1]}")
        assert headers["X-Nomad-Index"] == str(job["ModifyIndex"])
        _, _, headers = await client.ask("GET", "/v1/status/leader")
        assert "X-Nomad-Index" not in headers


@pytest.mark.parametrize(
    ("method", "path", "status", "text"),
    [
        ("GET", "/v1/job/nope", 404, "job not found"),
        ("GET", "/v1/job/nope/summary", 404, "job not found"),
        ("GET", "/v1/allocation/nope", 500, "alloc lookup failed: index error: UUID must be 36 characters"),
        ("GET", "/v1/allocation/00000000-0000-0000-0000-000000000000", 404, "alloc not found"),
        ("GET", "/v1/evaluation/00000000-0000-0000-0000-000000000000", 404, "eval not found"),
        ("GET", "/v1/node/00000000-0000-0000-0000-000000000000", 404, "node not found"),
        ("GET", "/v1/nope", 404, ""),
        ("DELETE", "/v1/jobs", 405, "Invalid method"),
        ("POST", "/v1/jobs", 400, "EOF"),
        ("GET", "/v1/jobs?index=soon", 400, "Invalid index"),
        ("GET", "/v1/jobs?filter=x", 400, "filter expressions are not understood by this server"),
        ("GET", "/v1/event/stream?index=x", 400, 'Unable to parse index: strconv.Atoi: parsing "x": invalid syntax'),
    ],
)
async def test_errors_are_plain_text(method: str, path: str, status: int, text: str) -> None:
    async with serving(lab(1)) as client:
        found, body, headers = await client.ask(method, path)
    assert (found, body) == (status, text)
    assert headers["Content-Type"] == "text/plain; charset=utf-8"


async def test_a_body_that_is_no_json_is_refused() -> None:
    async with serving(lab(1)) as client, client.http.post(client.server.address + "/v1/jobs", data=b"{") as answer:
        assert answer.status == 400


async def test_a_blocking_query_waits_for_something_new() -> None:
    cluster = lab()
    with_runner(cluster)
    async with serving(cluster) as client:
        index = cluster.state.table_index["jobs"]
        waiting = asyncio.create_task(client.ask("GET", "/v1/jobs", index=str(index), wait="600s"))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await client.ask("POST", "/v1/jobs", {"Job": runner_job("10-b")})
        _, jobs, headers = await asyncio.wait_for(waiting, 5.0)
    assert {job["ID"] for job in jobs} == {"10-a", "10-b"}
    assert int(headers["X-Nomad-Index"]) > index


async def test_a_blocking_query_ends_with_its_time() -> None:
    async with serving(lab(1)) as client:
        status, jobs, _ = await asyncio.wait_for(client.ask("GET", "/v1/jobs", index="99999", wait="2s"), 5.0)
        assert (status, jobs) == (200, [])
        status, text, _ = await client.ask("GET", "/v1/jobs", index="1", wait="soon")
        assert (status, text) == (400, "Invalid wait time")


async def test_lists_come_in_pages() -> None:
    cluster = lab(version="1.10.5")
    for name in "abcde":
        cluster.jobs.register(runner_job(f"10-{name}"))
    cluster.run_for(3)
    async with serving(cluster) as client:
        for path, total in (("/v1/jobs", 5), ("/v1/allocations", 5), ("/v1/evaluations", 5), ("/v1/nodes", 3)):
            seen, token = [], ""
            while True:
                query = {"per_page": "2"} | ({"next_token": token} if token else {})
                _, page, headers = await client.ask("GET", path, **query)
                assert 1 <= len(page) <= 2
                seen += [item["ID"] for item in page]
                token = headers.get("X-Nomad-Nexttoken", "")
                if not token:
                    break
            assert len(seen) == len(set(seen)) == total
        _, _, headers = await client.ask("GET", "/v1/jobs", per_page="1")
        assert headers["X-Nomad-Nexttoken"] == "default.10-b"


async def test_old_servers_know_no_pages() -> None:
    cluster = lab(version="1.1.2")
    with_runner(cluster)
    with_runner(cluster, name="10-b")
    async with serving(cluster) as client:
        assert len(await client.get("/v1/jobs", per_page="1")) == 2


async def test_tokens_are_asked_for_and_checked() -> None:
    acl = Acl({"reader": [READ_JOB], "root": [MANAGEMENT], "nodes": [READ_NODE]})
    async with serving(lab(1), acl=acl) as client:
        assert (await client.ask("GET", "/v1/jobs"))[:2] == (403, "Permission denied")
        assert (await client.ask("GET", "/v1/jobs", token="unknown"))[:2] == (403, "Permission denied")
        assert (await client.ask("GET", "/v1/jobs", token="reader"))[0] == 200
        assert (await client.ask("GET", "/v1/nodes", token="reader"))[0] == 403
        assert (await client.ask("GET", "/v1/nodes", token="nodes"))[0] == 200
        body = {"Job": runner_job("10-a")}
        assert (await client.ask("POST", "/v1/jobs", body, token="reader"))[0] == 403
        acl.set("reader", [READ_JOB, SUBMIT_JOB])
        assert (await client.ask("POST", "/v1/jobs", body, token="reader"))[0] == 200
        acl.revoke("reader")
        assert (await client.ask("GET", "/v1/jobs", token="reader"))[0] == 403
        assert (await client.ask("GET", "/v1/agent/self", token="root"))[0] == 200
        assert (await client.ask("GET", "/v1/status/leader"))[0] == 200
        headers = {"Authorization": "Bearer root"}
        async with client.http.get(client.server.address + "/v1/jobs", headers=headers) as answer:
            assert answer.status == 200


async def test_a_server_tells_about_itself() -> None:
    async with serving(lab(1, version="1.10.5")) as client:
        told = await client.get("/v1/agent/self")
        assert told["config"]["Version"]["Version"] == "1.10.5"
        assert (await client.get("/v1/agent/health"))["server"]["ok"] is True
        assert await client.get("/v1/regions") == ["global"]
        assert [namespace["Name"] for namespace in await client.get("/v1/namespaces")] == ["default"]
