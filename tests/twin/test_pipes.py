"""How the bytes of a stream reach a reader, by the server's version."""

from __future__ import annotations

import aiohttp
import pytest

from poseidon_reconciler.twin.pipes import FORGOTTEN_S
from tests.twin.labs import lab
from tests.twin.serving import serving
from tests.twin.test_streaming import STREAM, next_frame, reading, rest


async def test_newer_servers_send_no_chunks_and_end_without_a_word() -> None:
    async with serving(lab(1, version="2.0.5")) as client, reading(client, "Node:*") as answer:
        assert (answer.headers["Connection"], answer.headers.get("Transfer-Encoding")) == ("close", None)
        await next_frame(answer)
        client.server.touch().stop_server()
        assert (await rest(answer)).endswith(b"\n")


async def test_one_version_answers_with_a_status_line_that_nobody_reads() -> None:
    async with serving(lab(1, version="1.11.2")) as client:
        with pytest.raises(aiohttp.ClientResponseError):
            async with reading(client, "Node:*"):
                pass


async def test_who_accepts_it_gets_the_stream_compressed() -> None:
    async with serving(lab(1)) as client:
        url, headers = client.server.address + STREAM, {"Accept-Encoding": "gzip"}
        async with client.http.get(url, headers=headers) as answer:
            assert answer.headers["Content-Encoding"] == "gzip"
            assert (await next_frame(answer))["Events"]


async def test_a_connection_that_the_server_forgets_is_closed_in_the_end() -> None:
    cluster = lab(1, version="2.0.5")
    snapshot = cluster.save_snapshot()
    async with serving(cluster, speed=100.0) as client, reading(client, "Node:*", index="9999") as answer:
        await next_frame(answer)
        before = client.server.clock.now()
        client.server.touch().restore_snapshot(snapshot)
        assert b"resubscribe" not in await rest(answer)
        assert client.server.clock.now() - before >= FORGOTTEN_S
