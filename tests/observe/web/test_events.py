"""The status pushed as it changes: what is sent, how soon, and what becomes of clients that do not read."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import orjson
import pytest

from poseidon_reconciler.observe.web import events as module
from tests.observe.web.serving import Served, large, pool

SOON_S = 10.0


async def events(answer: aiohttp.ClientResponse) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """The events of a stream, heartbeats left out."""
    name = ""
    while line := await answer.content.readline():
        key, _, value = line.decode().rstrip("\n").partition(": ")
        if key == "event":
            name = value
        elif key == "data":
            yield name, orjson.loads(value)


async def until(condition: Any) -> None:
    async with asyncio.timeout(SOON_S):
        while not condition():  # noqa: ASYNC110 - what the server does raises no event here
            await asyncio.sleep(0.02)


async def test_the_whole_status_comes_first_and_then_what_changed() -> None:
    served = pool()
    async with served.serving() as client, client.get("/v1/events") as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        stream = events(answer)
        name, whole = await anext(stream)
        assert (name, whole["environments"]["10"]["idle"]) == ("status", 3)
        served.lose(0, index=500)
        name, change = await anext(stream)
    assert name == "change"
    assert change["environments"]["10"]["lost"] == 1
    assert change["losses"][0]["cause"] == "stuck-complete"
    assert "pauses" not in change


async def test_only_environments_that_changed_are_sent() -> None:
    served = Served(large(20, 60))
    async with served.serving() as client, client.get("/v1/events") as answer:
        stream = events(answer)
        _, whole = await anext(stream)
        served.server.events._sent = whole | {"environments": whole["environments"] | {"10": {}, "99": {}}}
        _, change = await anext(stream)
    assert {id_: row and row["idle"] for id_, row in change["environments"].items()} == {"10": 3, "99": None}


async def test_changes_are_sent_four_times_a_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    served = pool()
    async with served.serving() as client, client.get("/v1/events") as answer:
        stream = events(answer)
        await anext(stream)
        number = 0
        came: list[float] = []

        async def receive() -> None:
            async for _ in stream:
                came.append(time.monotonic())  # noqa: PERF401 - it is cancelled, and what came must be there then

        receiver = asyncio.create_task(receive())
        began = time.monotonic()
        while time.monotonic() - began < 2:
            served.bench.core.model.index = number = number + 1
            served.server.recent.noted("note", str(number))
            await asyncio.sleep(0.01)
        receiver.cancel()
    assert 2 <= len(came) <= 9


async def test_a_client_without_news_gets_signs_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_HEARTBEAT_S", 0.05)
    async with pool().serving() as client, client.get("/v1/events") as answer:
        async with asyncio.timeout(SOON_S):
            while not (await answer.content.readline()).startswith(b": "):
                pass


async def test_beyond_a_number_nobody_is_let_in_until_somebody_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CLIENTS", 2)
    served = pool()
    async with served.serving() as client:
        answers = [await client.get("/v1/events") for _ in range(3)]
        assert [answer.status for answer in answers] == [200, 200, 503]
        for answer in answers:
            answer.close()
        await until(lambda: served.server.events.clients == 0)
        async with client.get("/v1/events") as answer:
            assert answer.status == 200


async def test_who_does_not_read_is_dropped_and_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_QUEUED_FRAMES", 4)
    monkeypatch.setattr(module, "_LEAST_BETWEEN_S", 0.01)
    served = Served(large(200, 400))
    async with served.serving() as client, client.get("/v1/events") as answer:
        received = asyncio.create_task(count(answer))
        port = int(served.address.rpartition(":")[2])
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await until(lambda: served.server.events.clients == 2)
        async with asyncio.timeout(30):
            while served.server.events.clients == 2:
                served.server.events._sent = {}
                served.server.events.changed()
                await asyncio.sleep(0.01)
        assert not received.done()
        writer.close()
        received.cancel()


async def count(answer: aiohttp.ClientResponse) -> None:
    while await answer.content.readany():
        pass


async def test_the_end_of_the_server_ends_the_streams() -> None:
    served = pool()
    async with aiohttp.ClientSession() as client:
        async with served.serving():
            answer = await client.get(f"{served.address}/v1/events")
            await answer.content.readline()
        async with asyncio.timeout(SOON_S), answer:
            with contextlib.suppress(aiohttp.ClientError):
                await count(answer)
