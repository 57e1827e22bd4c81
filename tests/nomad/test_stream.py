"""Whatever ends a connection, it is told, counted, and followed by another one after a wait that is never nothing."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web

from poseidon_reconciler.nomad.connection import Connection
from poseidon_reconciler.nomad.items import Closed, FrameReceived, Gap, Heartbeat, Item, MalformedLine, Opened
from poseidon_reconciler.nomad.stream import EventStream, StreamLimits
from tests.nomad.fake_nomad import FakeNomad, Script, hang_up, never, stream, text

PATH = "/v1/event/stream"
HEARTBEAT = b"{}\n"


def frame(index: int) -> bytes:
    return b'{"Index":%d,"Events":[]}\n' % index


class Harness:
    """A stream whose waits take no time, under a clock that the test moves."""

    def __init__(self, connection: Connection, **limits: Any) -> None:
        self.now = 0.0
        self.waits: list[float] = []
        self.stream = EventStream(
            connection,
            limits=StreamLimits(**limits),
            clock=lambda: 1000.0,
            monotonic=lambda: self.now,
            chance=lambda: 0.999,
            sleep=self._sleep,
        )

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    async def until_closed(self, times: int = 1, on_item: Callable[[Item], None] = lambda _: None) -> list[Item]:
        """The items up to the end of so many connections."""
        items: list[Item] = []
        async with asyncio.timeout(10), aclosing(self.stream.items()) as found:
            async for item in found:
                items.append(item)
                on_item(item)
                times -= isinstance(item, Closed)
                if not times:
                    break
        return items


def names(items: list[Item]) -> list[object]:
    """Indexes of frames, kinds of ends, and the names of the other items."""
    short: list[object] = []
    for item in items:
        if isinstance(item, FrameReceived):
            short.append(item.line.index)
        else:
            short.append(item.kind if isinstance(item, Closed) else type(item).__name__)
    return short


@pytest.fixture
def harness(nomad: FakeNomad) -> Harness:
    return Harness(Connection(nomad.address))


async def test_the_request_names_topics_namespace_and_wants_no_compression(nomad: FakeNomad) -> None:
    nomad.script("GET", PATH, stream(HEARTBEAT))
    connection = Connection(nomad.address, namespace="poseidon", region="eu", token=lambda: "secret")

    await Harness(connection).until_closed()

    sent = nomad.requests[0]
    assert sent.query.getall("topic") == ["Job:*", "Allocation:*", "Evaluation:*", "Node:*"]
    assert (sent.query["namespace"], sent.query["region"]) == ("poseidon", "eu")
    assert sent.headers["Accept-Encoding"] == "identity"
    assert sent.headers["X-Nomad-Token"] == "secret"
    assert "index" not in sent.query


async def test_lines_become_items_in_order(nomad: FakeNomad, harness: Harness) -> None:
    nomad.script("GET", PATH, stream(HEARTBEAT, frame(5)[:10], 0.01, frame(5)[10:] + b"junk\n" + frame(6), HEARTBEAT))

    items = await harness.until_closed()

    assert names(items) == ["Opened", "Heartbeat", 5, "MalformedLine", 6, "Heartbeat", "eof"]
    assert items[0] == Opened(None, 1000.0)
    assert items[3] == MalformedLine("junk", 1000.0)
    assert isinstance(items[2], FrameReceived)
    assert items[2].received_at == 1000.0


CHUNKED: list[tuple[Script, str, list[object]]] = [
    (stream(HEARTBEAT, frame(5)), "eof", ["Opened", "Heartbeat", 5]),
    (stream(HEARTBEAT, frame(5) + frame(6)[:8]), "cut-line", ["Opened", "Heartbeat", 5]),
    (stream(HEARTBEAT, frame(5), 0.05, end="cut"), "cut", ["Opened", "Heartbeat", 5]),
    (stream(HEARTBEAT, b"event dropped from buffer"), "dropped", ["Opened", "Heartbeat"]),
    (
        stream(HEARTBEAT, b"subscription closed by server, client should resubscribe"),
        "resubscribe",
        ["Opened", "Heartbeat"],
    ),
    (stream(HEARTBEAT, b"EOF"), "upstream-eof", ["Opened", "Heartbeat"]),
    (stream(), "nothing", ["Opened"]),
    (stream(b"<html>\n</html>\n"), "not-nomad", ["Opened", "MalformedLine", "MalformedLine"]),
    (stream(HEARTBEAT, end="open"), "silent", ["Opened", "Heartbeat"]),
    (stream(end="open"), "silent", ["Opened"]),
    (text(403, "Permission denied"), "denied", []),
    (text(500, "Permission denied"), "denied", []),
    (text(500, "No cluster leader"), "refused", []),
    (text(400, "Unable to parse index"), "bad-request", []),
    (text(307, "", {"Location": "/v1/jobs"}), "refused", []),
    (hang_up, "unreachable", []),
    (never, "unreachable", []),
    (stream(HEARTBEAT, b"x" * 2000, b"x" * 2000, end="open"), "oversized", ["Opened", "Heartbeat"]),
    (stream(HEARTBEAT, b"x" * 4000 + b"\n", end="open"), "oversized", ["Opened", "Heartbeat", "MalformedLine"]),
]


@pytest.mark.parametrize(("ending", "kind", "before"), CHUNKED, ids=[f"{n}-{row[1]}" for n, row in enumerate(CHUNKED)])
async def test_each_ending_is_told_counted_and_followed_by_another_connection(
    nomad: FakeNomad, ending: Script, kind: str, before: list[object]
) -> None:
    short: dict[str, float] = (
        {"silence_s": 0.3, "first_byte_s": 0.3} if kind == "silent" else {"answer_s": 0.3} if ending is never else {}
    )
    harness = Harness(Connection(nomad.address), max_line_bytes=3000, **short)
    # aiohttp asks a second time, unasked, when a server hangs up without an answer.
    nomad.script("GET", PATH, *[ending] * (2 if ending is hang_up else 1), stream(HEARTBEAT))

    items = await harness.until_closed(times=2)

    assert names(items) == [*before, kind, "Opened", "Heartbeat", "eof"]
    assert harness.stream.endings == {kind: 2} if kind == "eof" else {kind: 1, "eof": 1}
    assert len(harness.waits) == 1
    assert harness.waits[0] >= 0.25
    closed = next(item for item in items if isinstance(item, Closed))
    assert closed.reason
    assert closed.retry_in_s == harness.waits[0]
    assert "\n" not in closed.reason


@pytest.mark.parametrize(("end", "reason"), [("cut", "in the middle of a line"), ("gone", "without ending the stream")])
async def test_a_server_that_goes_away_is_told_in_our_words_and_in_the_librarys_for_debugging(
    nomad: FakeNomad, harness: Harness, caplog: pytest.LogCaptureFixture, end: str, reason: str
) -> None:
    nomad.script("GET", PATH, stream(HEARTBEAT, frame(5), 0.05, end=end))

    with caplog.at_level("DEBUG", "poseidon_reconciler.nomad.stream"):
        (*_, closed) = await harness.until_closed(times=1)

    assert isinstance(closed, Closed)
    assert (closed.kind, closed.reason) == ("cut", f"the server went away {reason}")
    assert "TransferEncodingError" in caplog.text


async def test_the_next_connection_resumes_at_the_last_index(nomad: FakeNomad, harness: Harness) -> None:
    nomad.script("GET", PATH, stream(HEARTBEAT, frame(5), frame(7)), stream(HEARTBEAT, frame(7), frame(8)))

    items = await harness.until_closed(times=2)

    assert nomad.requests[1].query["index"] == "7"
    assert names(items) == ["Opened", "Heartbeat", 5, 7, "eof", "Opened", "Heartbeat", 7, 8, "eof"]
    assert [item.resumed_at for item in items if isinstance(item, Opened)] == [None, 7]
    assert harness.stream.last_index == 8


async def test_a_server_that_starts_elsewhere_leaves_a_gap(nomad: FakeNomad, harness: Harness) -> None:
    nomad.script("GET", PATH, stream(frame(7)), stream(HEARTBEAT), stream(frame(9)), stream(frame(3)), stream(frame(3)))

    items = await harness.until_closed(times=5)

    assert [item for item in items if isinstance(item, Gap)] == [Gap(7, 9, 1000.0), Gap(9, 3, 1000.0)]
    assert [sent.query.get("index") for sent in nomad.requests] == [None, "7", "7", "9", "3"]


async def test_after_an_oversized_line_the_stream_goes_on_behind_it(nomad: FakeNomad) -> None:
    harness = Harness(Connection(nomad.address), max_line_bytes=3000)
    nomad.script("GET", PATH, stream(frame(7), b"x" * 4000 + b"\n", end="open"), stream(frame(9)), stream(frame(9)))

    items = await harness.until_closed(times=3)

    assert int(nomad.requests[1].query["index"]) > 2**50
    assert nomad.requests[2].query["index"] == "9"
    assert [item for item in items if isinstance(item, Gap)] == [Gap(7, 9, 1000.0)]


@pytest.mark.parametrize("ending", [stream(), stream(HEARTBEAT), stream(frame(5)), text(500, ""), hang_up])
async def test_failures_in_a_row_wait_longer_and_longer(nomad: FakeNomad, harness: Harness, ending: Script) -> None:
    nomad.script("GET", PATH, *[ending] * 20)

    items = await harness.until_closed(times=10)

    waits = [item.retry_in_s for item in items if isinstance(item, Closed)]
    assert waits == sorted(waits)
    assert waits[0] == pytest.approx(0.5, abs=0.01)
    assert waits[-1] == pytest.approx(30, abs=0.1)


async def test_a_connection_that_has_lasted_makes_the_next_failure_a_first_one(
    nomad: FakeNomad, harness: Harness
) -> None:
    def age(item: Item) -> None:
        harness.now += 30.0 * isinstance(item, Heartbeat)

    long = stream(HEARTBEAT, HEARTBEAT)
    nomad.script("GET", PATH, *[stream()] * 4, long, *[stream()] * 2)

    items = await harness.until_closed(times=7, on_item=age)

    waits = [round(item.retry_in_s, 1) for item in items if isinstance(item, Closed)]
    assert waits == [0.5, 1.0, 2.0, 4.0, 0.5, 1.0, 2.0]


async def test_a_connection_that_was_only_held_open_has_not_lasted(nomad: FakeNomad, harness: Harness) -> None:
    def age(item: Item) -> None:
        harness.now += 100.0 * isinstance(item, Opened)

    nomad.script("GET", PATH, *[stream()] * 3)

    items = await harness.until_closed(times=3, on_item=age)

    assert [round(item.retry_in_s, 1) for item in items if isinstance(item, Closed)] == [0.5, 1.0, 2.0]


async def test_heartbeats_keep_a_connection_for_ever(nomad: FakeNomad) -> None:
    pieces: list[bytes | float] = [HEARTBEAT, 0.15]
    nomad.script("GET", PATH, stream(*pieces * 6))

    items = await Harness(Connection(nomad.address), silence_s=0.6).until_closed()

    assert names(items) == ["Opened", *["Heartbeat"] * 6, "eof"]


async def test_bytes_that_complete_no_line_keep_it_too(nomad: FakeNomad) -> None:
    line = frame(5)
    nomad.script("GET", PATH, stream(*[part for n in range(6) for part in (line[n * 4 : n * 4 + 4], 0.15)], line[24:]))

    items = await Harness(Connection(nomad.address), silence_s=0.6).until_closed()

    assert names(items) == ["Opened", 5, "eof"]


async def test_a_slow_reader_is_not_mistaken_for_a_silent_server(nomad: FakeNomad) -> None:
    harness = Harness(Connection(nomad.address), silence_s=0.4)
    nomad.script("GET", PATH, stream(*[frame(n) * 200 for n in range(1, 200)]))
    count = 0
    async with asyncio.timeout(10), aclosing(harness.stream.items()) as items:
        async for item in items:
            if isinstance(item, FrameReceived):
                count += 1
                if count == 100:
                    await asyncio.sleep(0.6)
            if isinstance(item, Closed):
                break

    assert (count, item.kind) == (199 * 200, "eof")  # type: ignore[union-attr]


async def test_token_and_certificates_are_read_at_each_connection(nomad: FakeNomad) -> None:
    tokens = iter(["first", "second", None])
    nomad.script("GET", PATH, *[stream(HEARTBEAT)] * 3)

    await Harness(Connection(nomad.address, token=lambda: next(tokens))).until_closed(times=3)

    assert [sent.headers.get("X-Nomad-Token") for sent in nomad.requests] == ["first", "second", None]


@pytest.mark.parametrize("error", [OSError("gone"), ValueError("empty")])
async def test_a_token_that_cannot_be_read_is_an_ending_too(nomad: FakeNomad, error: Exception) -> None:
    def token() -> str:
        raise error

    items = await Harness(Connection(nomad.address, token=token)).until_closed(times=2)

    assert names(items) == ["credentials", "credentials"]
    assert nomad.requests == []


async def test_a_closed_port_is_unreachable() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]

    items = await Harness(Connection(f"http://127.0.0.1:{port}")).until_closed(times=2)

    assert names(items) == ["unreachable", "unreachable"]


async def test_something_that_is_no_web_server_is_unreachable() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example.org ESMTP\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        items = await Harness(Connection(f"http://127.0.0.1:{port}")).until_closed()

    assert names(items) == ["unreachable"]


@pytest.fixture
async def tls(tmp_path: Path) -> AsyncIterator[FakeNomad]:
    """A server that wants a certificate of its clients; its authority is in `ca.pem`, another one in `other.pem`."""
    ca = trustme.CA()
    server = FakeNomad()
    server.ssl_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1").configure_cert(server.ssl_context)
    ca.configure_trust(server.ssl_context)
    server.ssl_context.verify_mode = ssl.CERT_REQUIRED
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    ours = ca.issue_cert("us@example.org")
    ours.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "us.pem"))
    async with server:
        yield server


@pytest.mark.parametrize(
    ("ca", "certificate", "kind"),
    [("ca", "us", "eof"), ("other", "us", "tls"), (None, None, "tls"), ("missing", "us", "credentials")],
)
async def test_tls_is_mutual_and_verified(
    tls: FakeNomad, tmp_path: Path, ca: str | None, certificate: str | None, kind: str
) -> None:
    tls.script("GET", PATH, stream(HEARTBEAT))
    files = {name: tmp_path / f"{part}.pem" for name, part in (("ca_file", ca), ("cert_file", certificate)) if part}

    items = await Harness(Connection(tls.address, **files)).until_closed()  # type: ignore[arg-type]

    assert names(items)[-1] == kind
    assert len(tls.requests) == (kind == "eof")


async def test_plain_http_to_a_tls_port_and_the_reverse_are_told(nomad: FakeNomad, tls: FakeNomad) -> None:
    plain = await Harness(Connection(tls.address.replace("https", "http"))).until_closed()
    secure = await Harness(Connection(nomad.address.replace("http", "https"))).until_closed()

    assert names(plain)[-1] in ("unreachable", "bad-request")
    assert names(secure) == ["tls"]


async def test_a_restart_ends_the_connection_once(nomad: FakeNomad, harness: Harness) -> None:
    def restart(item: Item) -> None:
        if isinstance(item, FrameReceived) and item.line.index == 5:
            harness.stream.restart()

    nomad.script("GET", PATH, stream(HEARTBEAT, 0.02, frame(5), end="open"), stream(frame(6)))

    items = await harness.until_closed(times=2, on_item=restart)

    assert names(items) == ["Opened", "Heartbeat", 5, "restarted", "Opened", "Gap", 6, "eof"]
    assert harness.stream.endings == {"restarted": 1, "eof": 1}


async def test_closing_ends_the_connection(nomad: FakeNomad, harness: Harness) -> None:
    gone = asyncio.Event()

    async def watched(request: web.Request) -> web.StreamResponse:
        try:
            return await stream(HEARTBEAT, end="open")(request)
        except asyncio.CancelledError:
            gone.set()
            raise

    nomad.script("GET", PATH, watched)
    async with aclosing(harness.stream.items()) as items:
        async for item in items:
            if isinstance(item, Heartbeat):
                break

    await asyncio.wait_for(gone.wait(), 2)
    assert harness.stream.endings == {}


async def test_cancelling_ends_it_too(nomad: FakeNomad, harness: Harness) -> None:
    nomad.script("GET", PATH, stream(HEARTBEAT, end="open"))
    seen: list[Item] = []
    listening = asyncio.create_task(harness.until_closed(on_item=seen.append))
    async with asyncio.timeout(5):
        while len(seen) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    listening.cancel()

    with pytest.raises(asyncio.CancelledError):
        await listening
