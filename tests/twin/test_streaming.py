"""The event stream over HTTP: what is sent, from where on, and every way in which it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson
import pytest

from poseidon_reconciler.twin.acl import READ_JOB, READ_NODE, Acl
from poseidon_reconciler.twin.events import Batch, event_of
from poseidon_reconciler.twin.faults import Fault, StreamFault
from poseidon_reconciler.twin.poseidon_jobs import runner_job
from poseidon_reconciler.twin.streaming import CLOSED, Topics
from tests.twin.labs import job_of, lab, with_runner
from tests.twin.serving import Client, serving

STREAM = "/v1/event/stream"


@asynccontextmanager
async def reading(client: Client, *topics: str, token: str = "", **query: str) -> AsyncIterator[aiohttp.ClientResponse]:
    params = [("topic", topic) for topic in topics] + list(query.items())
    headers = {"Accept-Encoding": "identity"} | ({"X-Nomad-Token": token} if token else {})
    timeout = aiohttp.ClientTimeout(total=5)
    async with client.http.get(
        client.server.address + STREAM, params=params, headers=headers, timeout=timeout
    ) as answer:
        yield answer


async def next_frame(answer: aiohttp.ClientResponse) -> dict[str, Any]:
    """The next line that is no heartbeat."""
    while True:
        line = await asyncio.wait_for(answer.content.readline(), 5.0)
        assert line.endswith(b"\n"), line
        frame: dict[str, Any] = orjson.loads(line)
        if frame:
            return frame


async def rest(answer: aiohttp.ClientResponse) -> bytes:
    """All that is still to come."""
    return await asyncio.wait_for(answer.content.read(), 5.0)


async def test_a_heartbeat_comes_at_once_and_then_every_half_minute() -> None:
    async with serving(lab(1), speed=100.0) as client, reading(client, "Nonsense:*") as answer:
        assert answer.headers["Content-Type"] == "application/json"
        assert await answer.content.readline() == b"{}\n"
        before = client.server.clock.now()
        assert await answer.content.readline() == b"{}\n"
        assert client.server.clock.now() - before == pytest.approx(30.0, abs=10.0)


async def test_events_come_as_they_happen() -> None:
    async with serving(lab(1)) as client, reading(client, "Job:*", "Evaluation:*", index="9999") as answer:
        await client.ask("POST", "/v1/jobs", {"Job": runner_job("10-a")})
        frames = [await next_frame(answer) for _ in range(3)]
    events = [(event["Topic"], event["Type"]) for frame in frames for event in frame["Events"]]
    assert events == [
        ("Job", "JobRegistered"),
        ("Evaluation", "JobRegistered"),
        ("Evaluation", "PlanResult"),
        ("Job", "PlanResult"),
    ]


async def test_an_index_is_inclusive_and_without_one_all_that_is_kept_comes() -> None:
    cluster = lab(1)
    with_runner(cluster)
    async with serving(cluster) as client:
        newest = cluster.log[-1].index
        async with reading(client, index=str(newest)) as answer:
            assert (await next_frame(answer))["Index"] == newest
        async with reading(client) as answer:
            assert (await next_frame(answer))["Index"] == cluster.log[0].index


@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        (["Job"], {"Job"}),
        (["Job:*", "Node:*"], {"Job", "Node"}),
        (["Job:10-a"], {"Job"}),
        (["Evaluation:10-a"], {"Evaluation"}),
        (["Job:10-b"], set()),
        (["*:10-a"], {"Job", "Evaluation", "Allocation"}),
        ([], {"Job", "Evaluation", "Allocation", "Node"}),
    ],
)
def test_topics_and_keys_select(topics: list[str], expected: set[str]) -> None:
    cluster = lab(1)
    with_runner(cluster)
    selected = {event.topic for batch in cluster.log for event in Topics.of(topics, "default").select(batch)}
    assert selected == expected


def test_other_namespaces_are_not_told() -> None:
    cluster = lab(1)
    job = job_of(cluster, with_runner(cluster))
    batch = Batch(1, (event_of("JobRegistered", 1, job),))
    assert [len(Topics.of([], name).select(batch)) for name in ("default", "other", "*")] == [1, 0, 1]


async def test_a_wildcard_namespace_gives_heartbeats_only_on_an_old_server() -> None:
    for version, kept in (("1.1.2", False), ("1.10.5", True)):
        async with serving(lab(1, version=version)) as client, reading(client, "Node:*", namespace="*") as answer:
            await answer.content.readline()
            assert bool(orjson.loads(await answer.content.readline())) is kept


async def test_a_server_that_stops_cuts_its_readers_off() -> None:
    async with serving(lab(1)) as client, reading(client, "Node:*") as answer:
        await next_frame(answer)
        client.server.touch().stop_server()
        with pytest.raises(aiohttp.ClientPayloadError):
            await rest(answer)


async def test_a_restored_server_tells_its_readers_to_come_back() -> None:
    cluster = lab(1)
    snapshot = cluster.save_snapshot()
    async with serving(cluster) as client, reading(client, "Job:*", index="9999") as answer:
        await answer.content.readline()
        client.server.touch().restore_snapshot(snapshot)
        assert (await rest(answer)).endswith(b"subscription closed by server, client should resubscribe")


async def test_a_negative_index_is_an_error_and_a_live_stream_all_the_same() -> None:
    async with serving(lab(1)) as client, reading(client, "Node:*", index="-1") as answer:
        assert answer.status == 400
        assert (await next_frame(answer))["Events"]


@pytest.mark.parametrize(("version", "status"), [("1.1.2", 500), ("1.10.5", 403)])
async def test_a_reader_without_permission(version: str, status: int) -> None:
    acl = Acl({"jobs": [READ_JOB], "all": [READ_JOB, READ_NODE]})
    async with serving(lab(1, version=version), acl=acl) as client:
        async with reading(client, "Node:*", token="jobs") as answer:
            assert (answer.status, (await rest(answer)).decode()) == (status, "Permission denied")
        async with reading(client, "Job:*", "Node:*", token="all") as answer:
            assert (await next_frame(answer))["Events"]
        async with reading(client, token="all") as answer:
            assert answer.status == status


async def test_newer_servers_turn_a_reader_away_by_saying_nothing() -> None:
    acl = Acl({"jobs": [READ_JOB]})
    async with (
        serving(lab(1, version="2.0.5"), acl=acl, speed=100.0) as client,
        reading(client, "Node:*", token="jobs") as answer,
    ):
        assert answer.status == 200
        assert await rest(answer) == b""


@pytest.mark.parametrize(("version", "ending"), [("1.10.5", CLOSED.encode()), ("2.0.5", b"")])
async def test_a_token_that_is_taken_away_ends_the_stream(version: str, ending: bytes) -> None:
    acl = Acl({"nodes": [READ_NODE]})
    async with (
        serving(lab(1, version=version), acl=acl, speed=100.0) as client,
        reading(client, "Node:*", token="nodes", index="9999") as answer,
    ):
        await next_frame(answer)
        acl.revoke("nodes")
        assert await rest(answer) == ending


@pytest.mark.parametrize(
    ("fault", "ending"),
    [
        (StreamFault("eof", 1), b""),
        (StreamFault("text", 1, "event dropped from buffer"), b"event dropped from buffer"),
        (StreamFault("text", 1, "EOF"), b"EOF"),
    ],
)
async def test_streams_end_with_or_without_a_word(fault: StreamFault, ending: bytes) -> None:
    async with serving(lab(1)) as client:
        client.server.faults.add(Fault(STREAM, times=1, stream=fault))
        async with reading(client, "Node:*") as answer:
            await next_frame(answer)
            assert await rest(answer) == ending
        async with reading(client, "Node:*") as answer:
            for _ in range(3):
                await next_frame(answer)


async def test_a_stream_may_be_cut_in_the_middle_of_a_line() -> None:
    async with serving(lab(1)) as client:
        client.server.faults.add(Fault(STREAM, stream=StreamFault("cut")))
        async with reading(client, "Node:*") as answer:
            assert await answer.content.readline() == b"{}\n"
            with pytest.raises(aiohttp.ClientPayloadError):
                await rest(answer)


async def test_lines_may_be_garbage_or_too_long_and_the_stream_goes_on() -> None:
    async with serving(lab(1)) as client:
        client.server.faults.add(Fault(STREAM, times=1, stream=StreamFault("garbage")))
        async with reading(client, "Node:*") as answer:
            await answer.content.readline()
            assert await answer.content.readline() == b"this is no JSON\n"
            assert (await next_frame(answer))["Events"]
        client.server.faults.add(Fault(STREAM, times=1, stream=StreamFault("oversized", size=100_000)))
        async with reading(client, "Node:*") as answer:
            await answer.content.readline()
            assert len(await answer.content.readuntil(b"\n")) > 100_000
            assert (await next_frame(answer))["Events"]


async def test_a_stream_may_fall_silent() -> None:
    async with serving(lab(1), speed=1000.0) as client:
        client.server.faults.add(Fault(STREAM, stream=StreamFault("silence")))
        async with reading(client, "Node:*") as answer:
            assert await answer.content.readline() == b"{}\n"
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(answer.content.readline(), 0.3)
