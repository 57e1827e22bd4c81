"""`check` says what is wrong and what to do about it, changes nothing, and ends whatever it is up against."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
import trustme
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from pydantic import SecretStr

from poseidon_reconciler.app.check.certificate import valid_until
from poseidon_reconciler.app.check.command import Limits, look
from poseidon_reconciler.app.check.environments import look_at_environment
from poseidon_reconciler.app.check.report import Check, Report, line_of
from poseidon_reconciler.app.check.state import look_at_state_dir
from poseidon_reconciler.app.check.tls import look_at_plain
from poseidon_reconciler.app.check.version import look_at_version, plans_are_a_right_of_their_own
from poseidon_reconciler.cli import main
from poseidon_reconciler.config import NomadSettings, Settings
from poseidon_reconciler.config.observing import HttpSettings
from poseidon_reconciler.core.events import JobPayload
from poseidon_reconciler.nomad.api import JobRead
from poseidon_reconciler.policy import PoolPolicy
from poseidon_reconciler.twin.acl import Acl
from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.poseidon_jobs import Work, environment_job, runner_job
from poseidon_reconciler.twin.server import TwinServer
from tests.nomad.fake_nomad import FakeNomad, Script, never, stream, text
from tests.nomad.jobs import RUNNER, TEMPLATE, document, runner, template
from tests.twin.labs import lab

QUICK = Limits(step_s=1.0, lists_s=1.0, total_s=4.0)
SECRET = "6f3a1c52-0000-4b1e-9d5f-secret-secret"
RIGHTS = ("read-job", "submit-job", "node:read", "agent:read")
EVERYTHING = [
    "state_dir",
    "page",
    "address",
    "connection",
    "TLS",
    "Nomad",
    "version",
    "leader",
    "token",
    "list jobs",
    "list allocations",
    "list evaluations",
    "list nodes",
    "read a job",
    "plan a job",
    "stream Job",
    "stream Allocation",
    "stream Evaluation",
    "stream Node",
    "environment 10",
    "orphans",
    "at risk",
]


class Looked:
    """What a run of the command found."""

    def __init__(self, report: Report, *, whole: bool) -> None:
        self.report = report
        self.whole = whole

    def __getitem__(self, name: str) -> Check:
        (check,) = (check for check in self.report.checks if check.name == name)
        return check

    @property
    def names(self) -> list[str]:
        return [check.name for check in self.report.checks]

    @property
    def failed(self) -> list[str]:
        return [check.name for check in self.report.checks if check.result == "FAIL"]

    @property
    def words(self) -> str:
        return "\n".join(line_of(check) for check in self.report.checks)


async def looked(address: str, limits: Limits = QUICK, *, token: str | None = None, **settings: Any) -> Looked:
    """Everything but the configuration, looked at there."""
    own = {name: settings.pop(name) for name in list(settings) if name in NomadSettings.model_fields}
    nomad = NomadSettings(address=address, token=SecretStr(token) if token else None, **own)
    report = Report()
    whole = await look(Settings(nomad=nomad, http=HttpSettings(listen="off"), **settings), report, limits)
    return Looked(report, whole=whole)


def cluster(version: str = "1.10.5") -> Cluster:
    """An environment and two runners of it."""
    made = lab(version=version)
    made.jobs.register(environment_job(10, 2))
    for number in (1, 2):
        made.jobs.register(runner_job(f"10-{number}"))
    made.run_for(5)
    return made


@asynccontextmanager
async def nomad_with(*jobs: dict[str, Any], **answers: Script) -> AsyncIterator[FakeNomad]:
    """A scripted Nomad that says of itself what a real one does. `answers` replaces some of it by name."""
    usual: dict[str, tuple[str, Script]] = {
        "agent": ("/v1/agent/self", says({"config": {"Version": {"Version": "1.10.5"}, "ACL": {"Enabled": True}}})),
        "leader": ("/v1/status/leader", says("10.0.0.1:4647")),
        "own": ("/v1/acl/token/self", says({"Name": "reconciler", "Type": "client", "ExpirationTime": None})),
    }
    async with FakeNomad() as nomad:
        for job in jobs:
            nomad.add_job(job)
            nomad.plans[job["ID"]] = {"JobModifyIndex": nomad.index}
        for name, (path, usually) in usual.items():
            nomad.script("GET", path, answers.get(name, usually))
        for _ in range(4):
            nomad.script("GET", "/v1/event/stream", answers.get("events", stream(b"{}\n", end="open")))
        yield nomad


def says(value: object, status: int = 200) -> Script:
    return text(status, json.dumps(value), {"X-Nomad-Index": "7"})


# --- the whole of it -----------------------------------------------------------------------------------------------


async def test_a_healthy_cluster_has_nothing_to_complain_of_and_is_left_as_it_was() -> None:
    async with TwinServer(cluster()) as server:
        before = {key: (job.version, job.modify_index) for key, job in server.cluster.state.jobs.items()}

        found = await looked(server.address)

        assert {key: (job.version, job.modify_index) for key, job in server.cluster.state.jobs.items()} == before
    assert found.names == EVERYTHING
    assert found.whole
    assert {check.result for check in found.report.checks} == {"ok"}, found.words
    assert all(check.advice is None for check in found.report.checks)
    assert found["environment 10"].detail == "target 2, running, at-least"


async def test_the_command_prints_one_document(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with TwinServer(cluster("1.1.2")) as server:
        monkeypatch.setenv("NOMAD_ADDR", server.address)
        monkeypatch.setenv("RECONCILER_HTTP__LISTEN", "off")
        status = await asyncio.to_thread(main, ["check", "--json"])

    printed = json.loads(capfdbinary.readouterr().out)
    assert status == 0
    assert printed["ok"] is True
    assert [check["name"] for check in printed["checks"]] == ["configuration", *EVERYTHING]
    assert {tuple(check) for check in printed["checks"]} == {("name", "result", "detail", "advice")}


def test_the_command_prints_one_line_each_and_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
) -> None:
    monkeypatch.setenv("NOMAD_ADDR", f"http://127.0.0.1:{unused_tcp_port}")
    monkeypatch.setenv("RECONCILER_HTTP__LISTEN", "off")

    assert main(["check"]) == 1

    *lines, summary = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["ok", "ok", "ok", "ok", "FAIL"]
    assert "connection refused → nothing listens there" in lines[-1]
    assert summary == "5 things looked at: 4 ok, 0 warn, 1 FAIL; what needs the one that failed was not looked at"


def test_a_wrong_configuration_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "reconciler.yaml"
    path.write_text("nomad: {adress: http://127.0.0.1:4646}")

    assert main(["check", "--config", str(path), "--json"]) == 2

    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"{path}:1: nomad.adress: unknown key")


def test_no_text_of_others_steers_a_terminal() -> None:
    assert line_of(Check("environment 10", "FAIL", "a\x1b[2Jb", "c\nd")) == r"FAIL  environment 10: a\x1b[2Jb → c\nd"


# --- address -------------------------------------------------------------------------------------------------------


async def test_a_name_that_means_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fails)
    found = await looked("http://nomad.example:4646")

    assert (found.failed, found.whole) == (["address"], False)
    assert "Name or service not known" in found["address"].detail


async def test_a_name_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: over.wait(10) and [])
    began_at = time.monotonic()
    found = await looked("http://nomad.example:4646", Limits(step_s=0.2))
    over.set()

    assert time.monotonic() - began_at < 2
    assert found["address"].detail == "nomad.example was not looked up within 0.2 s"


async def test_all_addresses_of_a_name_are_tried_and_the_good_ones_used(
    monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
) -> None:
    async with TwinServer(cluster()) as server:
        port = int(server.address.rpartition(":")[2])
        infos = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port)) for ip in ("127.0.0.2", "127.0.0.1")]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: infos)

        found = await looked(f"http://nomad.example:{port}")

    assert found["address"].detail == f"nomad.example:{port} is 127.0.0.2, 127.0.0.1"
    assert found["connection"].detail == "127.0.0.1 takes connections (127.0.0.2: connection refused)"
    assert found.whole
    assert found.report.ok, found.words


async def test_a_missing_port_is_guessed_to_be_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuses(*_: object, **__: object) -> None:
        raise ConnectionRefusedError(111, "Connect call failed")

    monkeypatch.setattr(asyncio, "open_connection", refuses)
    found = await looked("http://127.0.0.1")

    assert found["connection"].advice == (
        "give the port in nomad.address, as in …://127.0.0.1:4646: Nomad does not listen on 80"
    )


# --- servers that are none, or do not end --------------------------------------------------------------------------

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def raw_server(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server that says what it likes; its port."""
    tasks: set[asyncio.Task[Any]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await serve(reader, writer)
        except (OSError, asyncio.CancelledError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls)
    yield server.sockets[0].getsockname()[1]
    server.close()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _says_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


async def _hangs_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)


async def _never_ends_its_headers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    while True:
        writer.write(b"a")
        await writer.drain()
        await asyncio.sleep(0.05)


async def _never_ends_its_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n["')
    while True:
        writer.write(b"a" * 65536)
        await writer.drain()
        await asyncio.sleep(0.001)


async def _echoes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    request = await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n" % len(request) + request)
    await writer.drain()


async def _echoes_raw(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    request = await reader.readuntil(b"\r\n\r\n")
    writer.write(request[request.index(b"X-Nomad-Token") :] * 2)
    await writer.drain()


@pytest.mark.parametrize(
    "serve", [_says_nothing, _hangs_up, _never_ends_its_headers, _never_ends_its_body, _echoes, _echoes_raw]
)
async def test_no_server_keeps_it_and_none_gets_it_to_show_the_token(serve: Serve) -> None:
    began_at = time.monotonic()
    async with raw_server(serve) as port:
        found = await looked(f"http://127.0.0.1:{port}", Limits(step_s=0.4), token=SECRET)

    assert time.monotonic() - began_at < 3
    assert (found.failed, found.whole) == (["Nomad"], False)
    assert found["Nomad"].advice is not None
    assert "secret" not in found.words


@pytest.mark.parametrize(
    ("answer", "detail", "advice"),
    [
        (text(200, "<html>Welcome</html>"), "no Nomad", "4646"),
        (text(404, "Not Found"), "no Nomad", "4646"),
        (says({"version": "8.1", "cluster_name": "search"}), "no Nomad", "4646"),
        (text(302, "", {"Location": "https://sso.example/"}), "redirected to 'https://sso.example/'", "redirects"),
        (text(400, "Client sent an HTTP request to an HTTPS server."), "TLS is spoken here", "use https"),
        (text(502, "Bad Gateway"), "no Nomad", "4646"),
    ],
)
async def test_a_web_server_that_is_no_nomad(answer: Script, detail: str, advice: str) -> None:
    async with nomad_with(agent=answer, leader=answer, own=answer) as nomad:
        found = await looked(nomad.address)

    assert (found.failed, found.whole) == (["Nomad"], False)
    assert detail in found["Nomad"].detail
    assert advice in (found["Nomad"].advice or "")


async def test_one_that_answers_at_first_and_then_no_more() -> None:
    async with nomad_with(template(), events=never) as nomad:
        for path in ("/v1/jobs", "/v1/allocations", "/v1/evaluations", "/v1/nodes"):
            nomad.script("GET", path, never)
        began_at = time.monotonic()
        found = await looked(nomad.address, Limits(step_s=0.3, lists_s=0.5))

    assert time.monotonic() - began_at < 3
    assert found.failed == EVERYTHING[9:13] + EVERYTHING[15:19]
    assert found["list jobs"].detail == "no whole answer within 0.5 s" or "not read" in found["list jobs"].detail
    assert "proxy_buffering off" in (found["stream Job"].advice or "")


async def test_all_steps_together_have_their_time() -> None:
    async def late(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(0.5)
        return nomad.respond(request)

    async with nomad_with(template()) as nomad:
        for path in ("/v1/jobs", "/v1/allocations", "/v1/evaluations", "/v1/nodes", f"/v1/job/{TEMPLATE}"):
            nomad.script("GET", path, late)
        nomad.script("POST", f"/v1/job/{TEMPLATE}/plan", late)
        began_at = time.monotonic()
        found = await looked(nomad.address, Limits(total_s=0.8))

    assert time.monotonic() - began_at < 1.5
    assert found["list jobs"].result == "ok"
    assert found["read a job"].detail == f"{TEMPLATE} was not read in time"


# --- TLS -----------------------------------------------------------------------------------------------------------


def _issued(authority: trustme.CA, name: str = "127.0.0.1", days: float = 365) -> trustme.LeafCert:
    return authority.issue_cert(name, not_after=datetime.now(UTC) + timedelta(days=days))


def _files(folder: Path, authority: trustme.CA, certificate: trustme.LeafCert) -> dict[str, Any]:
    """The files that the settings name, for a client that trusts an authority and has a certificate."""
    files = {name: folder / f"{name}.pem" for name in ("ca_file", "cert_file", "key_file")}
    authority.cert_pem.write_to_path(files["ca_file"])
    certificate.cert_chain_pems[0].write_to_path(files["cert_file"])
    certificate.private_key_pem.write_to_path(files["key_file"])
    return files


def _context(certificate: trustme.LeafCert, clients: trustme.CA | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate.configure_cert(context)
    if clients is not None:
        clients.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


async def test_mutual_tls_that_is_as_it_should_be(tmp_path: Path) -> None:
    authority = trustme.CA()
    context = _context(_issued(authority), authority)
    async with TwinServer(cluster(), tls=context) as server:
        found = await looked(server.address, **_files(tmp_path, authority, _issued(authority, "reconciler")))

    day = (datetime.now(UTC) + timedelta(days=365)).date().isoformat()
    assert found.report.ok, found.words
    assert found.whole
    assert found["TLS"].detail == f"trusted, valid until {day}"
    assert found["client certificate"].detail == f"valid until {day}"


@pytest.mark.parametrize(
    ("name", "days", "trusts", "detail", "advice"),
    [
        ("127.0.0.1", 365, False, "unable to get local issuer certificate", "nomad.ca_file"),
        ("nomad.example", 365, True, "IP address mismatch", "use a name in nomad.address"),
        ("127.0.0.1", -1, True, "certificate has expired", "get a new one"),
    ],
)
async def test_a_certificate_that_is_not_trusted(
    tmp_path: Path, name: str, days: float, trusts: bool, detail: str, advice: str
) -> None:
    authority = trustme.CA()
    files = _files(tmp_path, authority if trusts else trustme.CA(), _issued(authority))
    certificate = authority.issue_cert(
        name, not_before=datetime.now(UTC) - timedelta(days=9), not_after=datetime.now(UTC) + timedelta(days=days)
    )
    async with raw_server(_says_nothing, _context(certificate)) as port:
        found = await looked(f"https://127.0.0.1:{port}", ca_file=files["ca_file"])

    assert (found.failed, found.whole) == (["TLS"], False)
    assert detail in found["TLS"].detail
    assert advice in (found["TLS"].advice or "")


async def test_a_certificate_that_ends_soon(tmp_path: Path) -> None:
    authority = trustme.CA()
    files = _files(tmp_path, authority, _issued(authority, days=12.2))
    async with TwinServer(cluster(), tls=_context(_issued(authority, days=7.2))) as server:
        found = await looked(server.address, **files)

    assert (found["TLS"].result, found["client certificate"].result) == ("warn", "warn")
    assert "for 7 days yet" in found["TLS"].detail
    assert "for 12 days yet" in found["client certificate"].detail
    assert found.report.ok


@contextmanager
def alerting_server(context: ssl.SSLContext) -> Iterator[int]:
    """A server that says why it does not go on, as Nomad does and asyncio does not; its port."""

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True) as secured:
                    secured.recv(1000)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("foreign", [False, True])
@pytest.mark.parametrize("alerts", [False, True])
async def test_servers_that_want_a_certificate_of_ours(
    tmp_path: Path, version: ssl.TLSVersion, foreign: bool, alerts: bool
) -> None:
    authority = trustme.CA()
    context = _context(_issued(authority), authority)
    context.maximum_version = version
    files = _files(tmp_path, authority, _issued(trustme.CA()))
    settings = files if foreign else {"ca_file": files["ca_file"]}
    if alerts:
        with alerting_server(context) as port:
            found = await looked(f"https://127.0.0.1:{port}", **settings)
    else:
        async with raw_server(_hangs_up, context) as port:
            found = await looked(f"https://127.0.0.1:{port}", **settings)

    assert (found.failed, found.whole) == (["TLS"], False)
    assert ("the server refuses us" if alerts else "the server hangs up") in found["TLS"].detail
    assert ("is nomad.cert_file signed" if foreign else "Give nomad.cert_file") in (found["TLS"].advice or "")


async def test_certificates_of_ours_that_cannot_be_used(tmp_path: Path, unused_tcp_port: int) -> None:
    authority = trustme.CA()
    files = _files(tmp_path, authority, _issued(authority))

    async def result() -> Check:
        async with raw_server(_says_nothing) as port:
            found = await looked(f"https://127.0.0.1:{port}", **files)
        assert found.failed == ["client certificate"]
        return found["client certificate"]

    key = serialization.load_pem_private_key(files["key_file"].read_bytes(), None)
    locked = serialization.BestAvailableEncryption(b"password")
    files["key_file"].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)
    )
    assert "without a password" in ((await result()).advice or "")
    _issued(authority).private_key_pem.write_to_path(files["key_file"])
    assert "mismatch" in (await result()).detail
    old = authority.issue_cert("a", not_before=datetime(2000, 1, 1), not_after=datetime(2001, 2, 3))  # noqa: DTZ001
    files = _files(tmp_path, authority, old)
    assert (await result()).detail == "expired on 2001-02-03"


@pytest.mark.parametrize("year", [1999, 2049, 2050, 2100])
def test_when_a_certificate_ends_is_read_in_both_ways_of_writing_it(year: int) -> None:
    before, until = datetime(1990, 1, 1, tzinfo=UTC), datetime(year, 12, 30, 23, 58, 59, tzinfo=UTC)
    pem = (
        trustme.CA()
        .issue_cert("a" * 60 + ".example", common_name="b" * 60, not_before=before, not_after=until)
        .cert_chain_pems[0]
        .bytes()
    )

    assert valid_until(f"what stands before it\n{pem.decode()}") == until.timestamp()


@pytest.mark.parametrize("pem", ["", "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"])
def test_what_is_no_certificate_is_told(pem: str) -> None:
    with pytest.raises(ValueError, match=r"certificate"):
        valid_until(pem)


async def test_https_where_http_is_spoken(tmp_path: Path) -> None:
    async with TwinServer(cluster()) as server:
        found = await looked(server.address.replace("http:", "https:"))

    assert found.failed == ["TLS"]
    assert "use http in nomad.address" in (found["TLS"].advice or "")


# --- version, leader, token ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "result", "lacks"),
    [
        ("0.12.9", "FAIL", ["no event stream"]),
        ("1.1.2", "warn", ["purge"]),
        ("1.3.0", "warn", ["purge"]),
        ("1.7.3", "warn", ["purge"]),
        ("1.7.4", "ok", []),
        ("1.10.13", "ok", []),
        ("1.10.14+ent", "warn", ["drained"]),
        ("1.11.7", "ok", []),
        ("1.11.2", "FAIL", ["HTTP/0.0"]),
        ("1.11.8", "warn", ["drained"]),
        ("2.0.3", "ok", []),
        ("2.0.4-beta.1", "warn", ["drained"]),
        ("2.1.0", "warn", ["drained"]),
        ("latest", "warn", ["not understood"]),
    ],
)
def test_what_a_version_lacks(version: str, result: str, lacks: list[str]) -> None:
    check = look_at_version(version, {"at-least", "exactly"})

    assert (check.result, version in check.detail) == (result, True)
    every = ("no event stream", "HTTP/0.0", "max_client_disconnect", "lock", "purge", "drained", "not understood")
    assert [lack for lack in every if lack in check.detail] == lacks


async def test_what_a_version_lacks_for_a_policy_is_told_where_it_is_in_use() -> None:
    details = []
    for policy in (PoolPolicy(), PoolPolicy(disconnect_policy="leave-alone")):
        pools = {"10": policy}
        async with TwinServer(cluster("1.2.6")) as server:
            settings = Settings(nomad=NomadSettings(address=server.address), environments=pools)
            report = Report()
            await look(settings, report, QUICK)
        (found,) = [check for check in report.checks if check.name == "version"]
        details.append(found.detail)
        assert len((found.advice or "").split()) < 40
    assert ["max_client_disconnect" in detail for detail in details] == [False, True]


async def test_servers_without_a_leader() -> None:
    async with nomad_with(template(), leader=text(500, "No cluster leader")) as nomad:
        found = await looked(nomad.address)

    assert (found.failed, found.whole) == (["leader"], False)
    assert "No cluster leader" in found["leader"].detail


OFF = says({"config": {"Version": {"Version": "1.10.5"}, "ACL": {"Enabled": False}}})
SOON = (datetime.now(UTC) + timedelta(days=2)).isoformat()


@pytest.mark.parametrize(
    ("token", "answers", "result", "detail"),
    [
        (SECRET, {}, "ok", "reconciler, client, does not expire"),
        (SECRET, {"own": says({"Name": "r", "Type": "client", "ExpirationTime": SOON})}, "warn", "expires at"),
        (SECRET, {"own": says({"ExpirationTime": "2024-05-01T10:00:00Z"})}, "FAIL", "expired at 2024-05-01T10:00"),
        (SECRET, {"own": text(404, "ACL token not found", {"X-Nomad-Index": "7"})}, "FAIL", "not accepted"),
        (SECRET, {"own": text(403, "ACL token expired")}, "FAIL", "not accepted"),
        (SECRET, {"own": text(403, "Permission denied")}, "FAIL", "not accepted"),
        ("abc", {"own": text(500, "index error: UUID must be 36 characters")}, "FAIL", "not accepted"),
        ("abc", {"own": text(500, "failed to parse signed token: three parts")}, "FAIL", "not accepted"),
        (SECRET, {"own": text(500, "rpc error: EOF")}, "warn", "does not tell"),
        (SECRET, {"own": text(400, "ACL support disabled")}, "ok", "ACLs are disabled"),
        (SECRET, {"own": text(404, "Invalid path")}, "warn", "does not tell"),
        ("eyJh.eyJi.c2ln", {"own": text(404, "ACL token not found", {"X-Nomad-Index": "7"})}, "warn", "does not tell"),
        (None, {"own": text(400, "ACL support disabled")}, "ok", "ACLs are disabled"),
        (None, {"own": says({"AccessorID": "acls-disabled", "Type": "client"})}, "ok", "ACLs are disabled"),
        (None, {"own": says({"AccessorID": "anonymous", "Type": "client"})}, "warn", "none is given"),
        (None, {"own": text(404, ""), "agent": OFF}, "ok", "ACLs are disabled"),
        (None, {"own": text(500, "missing secret id")}, "warn", "none is given"),
    ],
)
async def test_the_token(token: str | None, answers: dict[str, Script], result: str, detail: str) -> None:
    async with nomad_with(template(), **answers) as nomad:
        found = await looked(nomad.address, token=token)

    assert found["token"].result == result
    assert detail in found["token"].detail
    assert found.whole == (result != "FAIL")


async def test_a_token_that_nobody_knows() -> None:
    unknown = text(403, "ACL token not found")
    async with nomad_with(template(), agent=unknown, own=text(404, "Invalid path")) as nomad:
        found = await looked(nomad.address, token=SECRET)

    assert (found.failed, found.whole) == (["token"], False)
    assert "nomad.token_file" in (found["token"].advice or "")
    assert found["Nomad"].result == "ok"


def test_a_token_in_clear_text(monkeypatch: pytest.MonkeyPatch) -> None:
    nomad = NomadSettings(address="http://nomad.example:4646", token=SecretStr(SECRET))

    assert [check.result for check in look_at_plain(nomad, ["127.0.0.1"])] == ["ok"]
    assert [check.result for check in look_at_plain(nomad, ["127.0.0.1", "192.0.2.7"])] == ["warn"]


# --- rights and the stream -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.1.2", "1.10.5", "1.11.3"])
@pytest.mark.parametrize(
    ("missing", "failed", "advice"),
    [
        ("", [], ""),
        ("node:read", ["list nodes", "stream Node"], 'node { policy = "read" }'),
        ("submit-job", ["plan a job"], 'namespace "default" { capabilities = ["submit-job"] }'),
        (
            "read-job",
            [
                "list jobs",
                "list allocations",
                "list evaluations",
                "stream Job",
                "stream Allocation",
                "stream Evaluation",
            ],
            'namespace "default" { capabilities = ["',
        ),
        ("agent:read", [], ""),
    ],
)
async def test_each_right_that_is_missing(version: str, missing: str, failed: list[str], advice: str) -> None:
    acl = Acl({SECRET: set(RIGHTS) - {missing}})
    async with TwinServer(cluster(version), acl=acl) as server:
        found = await looked(server.address, token=SECRET)

    assert found.failed == failed
    assert found.whole
    assert all(advice in (found[name].advice or "") for name in failed)
    assert (found["Nomad"].result == "warn") == (missing == "agent:read")
    assert "secret" not in found.words


async def test_a_job_that_may_be_listed_and_not_be_read() -> None:
    async with nomad_with(template()) as nomad:
        nomad.script("GET", f"/v1/job/{TEMPLATE}", text(403, "Permission denied"))
        found = await looked(nomad.address)

    assert found.failed == ["read a job"]
    assert '"read-job"' in (found["read a job"].advice or "")


async def test_the_plan_is_that_of_the_job_as_it_is() -> None:
    async with nomad_with(template()) as nomad:
        found = await looked(nomad.address)

        assert found["plan a job"].result == "ok"
        assert nomad.writes == []
        assert [path for path in nomad.paths("POST") if not path.endswith("/plan")] == []
        assert nomad.bodies == [{"Job": nomad.jobs[TEMPLATE], "Diff": False, "PolicyOverride": False}]


def test_since_when_planning_proves_less() -> None:
    versions = ["1.1.2", "1.11.1", "1.11.2", "2.0.5", None]
    assert [plans_are_a_right_of_their_own(version) for version in versions] == [False, False, True, True, True]


@pytest.mark.parametrize(
    ("answer", "detail", "advice"),
    [
        (stream(b"{", end="open"), "no heartbeat within 0.3 s", "proxy"),
        (stream(b""), "200 and then nothing", "token's policy"),
        (stream(b"{}"), "", ""),
        (stream(b'{"Index":5,"Events":[]}\n', end="open"), "", ""),
        (stream(b"<html>\n</html>"), "no event stream", "Nomad itself"),
        (stream(b"Permission denied"), "not allowed: denied", "token's policy"),
        (text(500, "Permission denied"), "not allowed: 500 Permission denied", "token's policy"),
        (text(400, "no"), "400 no", "1.0 or later"),
        (text(302, "", {"Location": "/elsewhere"}), "302", "look again"),
        (stream(b"{", end="cut"), "", "look again"),
    ],
)
async def test_the_first_line_of_each_topic(answer: Script, detail: str, advice: str) -> None:
    async with nomad_with(template(), events=answer) as nomad:
        found = await looked(nomad.address, Limits(step_s=0.3))

        topics = [request.query["topic"] for request in nomad.requests if request.path == "/v1/event/stream"]
    assert sorted(topics) == ["Allocation:*", "Evaluation:*", "Job:*", "Node:*"]
    assert [found[name].result for name in EVERYTHING[15:19]] == ["FAIL" if advice else "ok"] * 4
    assert detail in found["stream Node"].detail
    assert advice in (found["stream Node"].advice or "")


# --- environments --------------------------------------------------------------------------------------------------

TEN_S = 10_000_000_000
STOP_AFTER = {"StopAfterClientDisconnect": TEN_S}
LOST_AFTER = {"MaxClientDisconnect": TEN_S}
EXACTLY = PoolPolicy(disconnect_policy="exactly")
LEAVE_ALONE = PoolPolicy(disconnect_policy="leave-alone")


def judged(job: dict[str, Any], policy: PoolPolicy | None = None, **payload: Any) -> list[tuple[str, str]]:
    """Results and details for an environment with this job."""
    whole = {"Status": "running", **job, **payload}
    read = JobRead(_payload(whole), orjson.dumps(whole), 1)
    return [(check.result, check.detail) for check in look_at_environment("10", read, policy or PoolPolicy())]


def _payload(whole: dict[str, Any]) -> JobPayload:
    return JobPayload(whole["ID"], whole["Status"], whole.get("Type"), stop=whole.get("Stop", False))


@pytest.mark.parametrize(
    ("job", "policy", "result", "detail"),
    [
        (template(3), None, "ok", "target 3, running, at-least"),
        (template(**STOP_AFTER), None, "warn", "Nomad waits 10s"),
        (template(Disconnect={"StopOnClientAfter": TEN_S}), None, "warn", "Nomad waits 10s"),
        (template(**STOP_AFTER), EXACTLY, "ok", "exactly"),
        (template(Disconnect={"StopOnClientAfter": TEN_S}), EXACTLY, "ok", "exactly"),
        (template(), EXACTLY, "warn", "nothing stops a runner out of reach"),
        (template(), EXACTLY.model_copy(update={"stop_after_s": 60.0}), "ok", "exactly"),
        (template(**LOST_AFTER), EXACTLY.model_copy(update={"stop_after_s": 60.0}), "warn", "second copy"),
        (template(**STOP_AFTER, Volumes={"data": {"Type": "csi"}}), EXACTLY, "warn", "claim a volume ('data')"),
        (template(Volumes={"data": {"Type": "csi"}}), None, "ok", "at-least"),
        (template(), LEAVE_ALONE, "warn", "Nomad replaces a runner out of reach at once"),
        (template(**LOST_AFTER), LEAVE_ALONE, "warn", "replace is not false"),
        (template(Disconnect={"LostAfter": TEN_S, "Replace": True}), LEAVE_ALONE, "warn", "replace is not false"),
        (template(Disconnect={"LostAfter": TEN_S, "Replace": False}), LEAVE_ALONE, "ok", "leave-alone"),
        (template(ReschedulePolicy={"Attempts": 0}), None, "warn", "lost at once: its job allows no reschedules"),
        (
            template(ReschedulePolicy={"Attempts": 0}, RestartPolicy={"Attempts": 3, "Mode": "fail"}),
            None,
            "warn",
            "lost after 3 restarts",
        ),
        (template(ReschedulePolicy={"Attempts": 0, "Unlimited": True}), None, "ok", "target"),
        (template(RestartPolicy={"Attempts": 3, "Mode": "delay"}), None, "warn", "restarted for ever"),
        ({**template(), "Status": "dead"}, None, "warn", "its job is dead"),
        ({**template(), "Status": "dead", "Stop": True}, None, "warn", "its job was stopped"),
        ({**template(), "Status": "pending"}, None, "warn", "its job is pending"),
        ({**template(), "Type": "service"}, None, "FAIL", "of type 'service'"),
        (
            document(TEMPLATE, {"prewarmingPoolSize": "many"}),
            None,
            "FAIL",
            "prewarmingPoolSize is 'many', not a number",
        ),
        (document(TEMPLATE, None), None, "FAIL", "prewarmingPoolSize is missing"),
        ({**template(), "TaskGroups": 5}, None, "FAIL", "its job is not understood"),
    ],
)
def test_an_environment(job: dict[str, Any], policy: PoolPolicy | None, result: str, detail: str) -> None:
    ((seen, said),) = judged(job, policy)

    assert seen == result
    assert detail in said


def test_everything_that_is_wrong_with_an_environment_is_told() -> None:
    job = template(**STOP_AFTER, ReschedulePolicy={"Attempts": 0})

    assert [result for result, _ in judged(job, LEAVE_ALONE, Status="dead")] == ["warn"] * 4


def test_groups_that_are_missing() -> None:
    assert [detail for _, detail in judged({**template(), "TaskGroups": None})] == [
        "its job has no group default-group: no runner can be made of it",
        "its job has no group config: no runner can be made of it",
    ]


async def test_the_policy_is_that_of_the_environment() -> None:
    made = lab(version="1.10.5")
    for number, work in ((9, Work()), (10, Work(stop_after_s=30.0))):
        made.jobs.register(environment_job(number, 1, work))
    made.run_for(5)
    async with TwinServer(made) as server:
        found = await looked(server.address, environments={"10": EXACTLY, "12": EXACTLY})

    assert found["environment 10"].detail == "target 1, running, exactly"
    assert found["environment 12"].detail == "configured, but there is no job template-12"
    assert found.names[19:22] == ["environment 9", "environment 10", "environment 12"]


async def test_a_namespace_without_environments() -> None:
    async with TwinServer(cluster()) as server:
        found = await looked(server.address, namespace="poseidon")

    assert found["environments"].detail == "there is none in the namespace poseidon"
    assert (found["read a job"].result, found["plan a job"].result) == ("warn", "warn")
    assert found.report.ok


async def test_an_id_is_asked_for_as_it_is() -> None:
    strange = "7-a/b c%41?x#y"
    async with nomad_with(document(strange, {"used": "false"})) as nomad:
        found = await looked(nomad.address)

        assert nomad.paths("GET").count(f"/v1/job/{strange}") == 1
    assert found.failed == ["read a job"]
    assert found["plan a job"].detail == "not tried: no job was read"


async def test_an_environment_that_cannot_be_read() -> None:
    async with nomad_with(template(), document("template-11", {"prewarmingPoolSize": "1"})) as nomad:
        nomad.script("GET", "/v1/job/template-11", text(500, "rpc error: EOF"))
        found = await looked(nomad.address)

    assert found.failed == ["environment 11"]
    assert "rpc error" in found["environment 11"].detail


# --- the pools now -------------------------------------------------------------------------------------------------


async def test_runners_without_an_environment() -> None:
    async with nomad_with(template(), runner(), document("7-a", None), document("7-b", None)) as nomad:
        found = await looked(nomad.address)

    assert found["orphans"].result == "warn"
    assert found["orphans"].detail == "2 runners of environments without a job: 7-a, 7-b"


@pytest.mark.parametrize("protect", [True, False])
@pytest.mark.parametrize("in_stub", [True, False])
async def test_jobs_at_risk_are_those_with_an_old_allocation_of_their_current_version(
    in_stub: bool, protect: bool
) -> None:
    safe = "10-2"
    async with nomad_with(template(), runner(), document(safe, {"used": "false"})) as nomad:
        for job_id, version in ((RUNNER, 0), (safe, 1)):
            nomad.jobs[job_id]["Version"] = version
            nomad.add_allocation(job_id, f"old-{job_id}", ClientStatus="lost", DesiredStatus="stop")
            nomad.add_allocation(job_id, f"new-{job_id}", JobVersion=version)
        if in_stub:
            nomad.script("GET", "/v1/jobs", says(list(nomad.jobs.values())))
        found = await looked(nomad.address, pool=PoolPolicy(protect=protect))

        asked = [path.removeprefix("/v1/job/") for path in nomad.paths("GET") if path.startswith("/v1/job/")]
        assert ("/v1/allocation/old-" + RUNNER) in nomad.paths("GET")
    assert found["at risk"].result == "warn"
    assert found["at risk"].detail == f"1 runner and 0 environments can be ended by their next evaluation: {RUNNER}"
    assert ("pool.protect: true" in (found["at risk"].advice or "")) == (not protect)
    assert sorted(asked) == sorted([TEMPLATE, RUNNER] if in_stub else [TEMPLATE, RUNNER, safe])


async def test_an_allocation_that_is_followed_by_another_is_none_of_the_old_ones() -> None:
    """Servers before 1.2 do not tell it in a list."""
    async with nomad_with(template(), runner()) as nomad:
        nomad.jobs[RUNNER]["Version"] = 0
        old = nomad.add_allocation(RUNNER, "old", ClientStatus="lost", DesiredStatus="stop")
        nomad.add_allocation(RUNNER, "new")
        nomad.script("GET", "/v1/allocation/old", says({**old, "NextAllocation": "new"}))
        found = await looked(nomad.address)

    assert found["at risk"].detail == "none of 2 jobs"


async def test_a_version_that_ends_no_job_for_an_old_allocation() -> None:
    agent = says({"config": {"Version": {"Version": "2.0.3"}}})
    async with nomad_with(template(), runner(), agent=agent) as nomad:
        nomad.jobs[RUNNER]["Version"] = 0
        nomad.add_allocation(RUNNER, "old", ClientStatus="lost", DesiredStatus="stop")
        nomad.add_allocation(RUNNER, "new")
        found = await looked(nomad.address)

    assert found["at risk"].result == "ok"
    assert "1 runner and 0 environments have an old allocation" in found["at risk"].detail


# --- the state directory -------------------------------------------------------------------------------------------


def test_the_state_directory(tmp_path: Path) -> None:
    absent, file = tmp_path / "a" / "b", tmp_path / "file"
    file.write_text("")

    assert look_at_state_dir(None).result == "ok"
    assert look_at_state_dir(tmp_path).result == "ok"
    assert look_at_state_dir(absent).detail == f"{absent} will be made"
    assert not absent.exists()
    assert look_at_state_dir(file).result == "FAIL"
    assert look_at_state_dir(file / "below").result == "FAIL"
    (tmp_path / "templates.json").write_text("[]")
    assert "not a file of templates" in look_at_state_dir(tmp_path).detail
