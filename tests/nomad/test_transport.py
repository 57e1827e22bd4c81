"""A request ends in an outcome, within bounds, whatever the server or the network does."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator
from contextvars import ContextVar
from pathlib import Path

import pytest
import trustme
from aiohttp import web

from poseidon_reconciler.nomad.connection import USER_AGENT, Connection
from poseidon_reconciler.nomad.outcomes import Answer, Ok, Outcome
from poseidon_reconciler.nomad.transport import Request, Transport
from tests.nomad.fake_nomad import FakeNomad, Script, hang_up, never, text

JOBS = Request("get", "jobs")


def body_of(answer: Answer) -> Outcome[bytes]:
    return Ok(answer.body, answer.index)


@pytest.fixture
async def transport(nomad: FakeNomad) -> AsyncIterator[Transport]:
    client = Transport(Connection(nomad.address), threads=3, deadline_s=1.0, max_answer_bytes=10_000)
    yield client
    await client.close()


async def test_the_answer_is_read_on_a_thread_of_the_pool(transport: Transport) -> None:
    names: list[str] = []

    def read(answer: Answer) -> Outcome[bytes]:
        names.append(threading.current_thread().name)
        return body_of(answer)

    assert isinstance(await transport.send(JOBS, read), Ok)
    assert names[0].startswith("nomad-api")


async def test_the_scope_goes_with_every_request(nomad: FakeNomad) -> None:
    transport = Transport(Connection(nomad.address, namespace="poseidon", region="eu", token=lambda: "secret"))
    for request in (JOBS, Request("get", "evaluations"), Request("get", "nodes", params={"per_page": "3"})):
        await transport.send(request, body_of)
    await transport.close()

    for sent in nomad.requests:
        assert sent.query["namespace"] == "poseidon"
        assert sent.query["region"] == "eu"
        assert sent.headers["X-Nomad-Token"] == "secret"
        assert sent.headers["User-Agent"] == USER_AGENT
    assert nomad.requests[-1].query["per_page"] == "3"


async def test_nothing_comes_from_the_environment(nomad: FakeNomad, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NOMAD_ADDR", "HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("NOMAD_TOKEN", "of somebody else")
    monkeypatch.setenv("NOMAD_NAMESPACE", "elsewhere")
    monkeypatch.setenv("NOMAD_REGION", "elsewhere")
    transport = Transport(Connection(nomad.address))
    outcome = await transport.send(JOBS, body_of)
    await transport.close()

    assert isinstance(outcome, Ok)
    assert "X-Nomad-Token" not in nomad.requests[0].headers
    assert dict(nomad.requests[0].query) == {"namespace": "default"}


async def test_the_token_is_read_for_each_request(nomad: FakeNomad) -> None:
    tokens = iter(["first", "second", None])
    transport = Transport(Connection(nomad.address, token=lambda: next(tokens)), threads=1)
    for _ in range(3):
        await transport.send(JOBS, body_of)
    await transport.close()

    assert [sent.headers.get("X-Nomad-Token") for sent in nomad.requests] == ["first", "second", None]


@pytest.mark.parametrize("error", [OSError("no such file"), ValueError("empty")])
async def test_without_a_readable_token_nothing_is_asked(nomad: FakeNomad, error: Exception) -> None:
    def token() -> str:
        raise error

    transport = Transport(Connection(nomad.address, token=token))
    outcome = await transport.send(JOBS, body_of)
    await transport.close()

    assert outcome.kind == "unavailable"
    assert nomad.requests == []


@pytest.mark.parametrize("method", ["get", "post", "delete"])
async def test_a_request_that_never_left_did_nothing(method: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    transport = Transport(Connection(f"http://127.0.0.1:{port}"))
    outcome = await transport.send(Request(method, "jobs"), body_of)  # type: ignore[arg-type]
    await transport.close()

    assert outcome.kind == "unavailable"
    assert not isinstance(outcome, Ok)
    assert "refused" in outcome.detail
    assert "0x" not in outcome.detail


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize(("ending", "timeout_s"), [(hang_up, 5.0), (never, 0.3)])
async def test_after_a_request_that_left_nobody_knows(
    nomad: FakeNomad, method: str, ending: Script, timeout_s: float
) -> None:
    nomad.script(method, "/v1/jobs", ending)
    transport = Transport(Connection(nomad.address), timeout_s=timeout_s)

    outcome = await transport.send(Request(method.lower(), "jobs"), body_of)  # type: ignore[arg-type]
    await transport.close()

    assert outcome.kind == "unknown"
    assert len(nomad.requests) == 1


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_no_redirect_is_followed(nomad: FakeNomad, transport: Transport, method: str) -> None:
    nomad.script(method, "/v1/jobs", text(307, "", {"Location": "/v1/nodes"}))

    outcome = await transport.send(Request(method.lower(), "jobs"), body_of)  # type: ignore[arg-type]

    assert outcome.kind == "rejected"
    assert [sent.path for sent in nomad.requests] == ["/v1/jobs"]


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_an_answer_may_only_be_so_long(nomad: FakeNomad, transport: Transport, method: str) -> None:
    nomad.script(method, "/v1/jobs", text(200, "x" * 10_000), text(200, "x" * 10_001), text(500, "x" * 10_001))
    request = Request(method.lower(), "jobs")  # type: ignore[arg-type]

    kinds = [(await transport.send(request, body_of)).kind for _ in range(3)]

    assert kinds == ["ok", "unknown", "unknown"]


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_an_answer_may_only_take_so_long(nomad: FakeNomad, transport: Transport, method: str) -> None:
    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(60):
            await response.write(b"x")
            await asyncio.sleep(0.05)
        return response

    nomad.script(method, "/v1/jobs", drip)
    began = time.monotonic()
    outcome = await transport.send(Request(method.lower(), "jobs"), body_of)  # type: ignore[arg-type]

    assert outcome.kind == "unknown"
    assert not isinstance(outcome, Ok)
    assert "longer than 1 s" in outcome.detail
    assert time.monotonic() - began < 2.5


async def test_a_body_that_is_cut_is_no_answer(nomad: FakeNomad, transport: Transport) -> None:
    async def cut(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"[")
        assert request.transport is not None
        request.transport.close()
        return response

    nomad.script("GET", "/v1/jobs", cut)

    assert (await transport.send(JOBS, body_of)).kind == "unknown"


async def test_compressed_answers_are_unpacked(nomad: FakeNomad, transport: Transport) -> None:
    async def packed(request: web.Request) -> web.StreamResponse:
        response = web.Response(text="[" + " " * 5000 + "]")
        response.enable_compression(web.ContentCoding.gzip)
        return response

    nomad.script("GET", "/v1/jobs", packed)
    outcome = await transport.send(JOBS, body_of)

    assert isinstance(outcome, Ok)
    assert len(outcome.value) == 5002


async def test_requests_run_side_by_side_each_thread_with_a_session_of_its_own(
    nomad: FakeNomad, transport: Transport
) -> None:
    under_way, most = 0, 0

    async def slow(request: web.Request) -> web.StreamResponse:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.1)
        under_way -= 1
        return nomad.respond(request)

    nomad.script("GET", "/v1/jobs", *[slow] * 6)
    outcomes = await asyncio.gather(*[transport.send(JOBS, body_of) for _ in range(6)])

    assert {outcome.kind for outcome in outcomes} == {"ok"}
    assert most == 3
    assert len({id(session) for session in transport._sessions}) == 3


async def test_closing_does_not_wait_for_a_long_answer(nomad: FakeNomad) -> None:
    begun = asyncio.Event()

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        begun.set()
        while True:
            await response.write(b"x")
            await asyncio.sleep(0.02)

    nomad.script("GET", "/v1/jobs", endless)
    transport = Transport(Connection(nomad.address), timeout_s=5.0)
    asked = asyncio.create_task(transport.send(JOBS, body_of))
    await begun.wait()
    began = time.monotonic()
    await transport.close()

    assert (await asked).kind == "unknown"
    assert time.monotonic() - began < 3.0


async def test_only_a_trusted_server_is_told_anything(tmp_path: Path) -> None:
    ca = trustme.CA()
    nomad = FakeNomad()
    nomad.ssl_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1").configure_cert(nomad.ssl_context)
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    async with nomad:
        for name, kind in (("ca", "ok"), ("other", "unavailable"), ("missing", "unavailable"), (None, "unavailable")):
            ca_file = tmp_path / f"{name}.pem" if name is not None else None
            transport = Transport(Connection(nomad.address, ca_file=ca_file))
            assert (await transport.send(JOBS, body_of)).kind == kind
            await transport.close()

    assert len(nomad.requests) == 1


@pytest.mark.parametrize(
    ("request_", "route", "writes"),
    [
        (Request("get", "job", ("10-a%2Fb", "allocations")), "/v1/job/:id/allocations", False),
        (Request("get", "job", ("template-10",)), "/v1/job/:id", False),
        (Request("post", "job", ("template-10", "plan")), "/v1/job/:id/plan", False),
        (Request("post", "jobs"), "/v1/jobs", True),
        (Request("delete", "job", ("10-a",)), "/v1/job/:id", True),
        (Request("post", "allocation", ("b0", "stop")), "/v1/allocation/:id/stop", True),
        (Request("get", "agent", ("members",)), "/v1/agent/members", False),
    ],
)
def test_a_route_names_no_object(request_: Request, route: str, writes: bool) -> None:
    assert (request_.route, request_.writes) == (route, writes)


async def test_each_answer_is_reported_in_the_context_of_who_asked(nomad: FakeNomad, transport: Transport) -> None:
    asker: ContextVar[str] = ContextVar("asker")
    heard: list[tuple[str, int | None, str]] = []
    transport.on_answer = lambda report: heard.append((asker.get(), report.status, report.outcome))
    nomad.script("GET", "/v1/nodes", hang_up)

    async def ask(name: str, request: Request) -> None:
        asker.set(name)
        await transport.send(request, body_of)

    await asyncio.gather(ask("one", JOBS), ask("two", Request("get", "nodes")))

    assert sorted(heard) == [("one", 200, "ok"), ("two", None, "unknown")]
