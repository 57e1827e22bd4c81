"""`check` looks at what is optional too: the page, Poseidon, a collector and webhooks."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from poseidon_reconciler.app.check.around import look_around
from poseidon_reconciler.app.check.report import Check
from poseidon_reconciler.app.observers import Observers
from poseidon_reconciler.app.running import Running
from poseidon_reconciler.app.web import add_page
from poseidon_reconciler.config import Settings
from poseidon_reconciler.twin.poseidon import Poseidon
from poseidon_reconciler.twin.poseidon_http import PoseidonServer
from tests.controllers import Notes
from tests.nomad.fake_nomad import FakeNomad
from tests.observe.receivers import receiving
from tests.twin.labs import lab

OFF: dict[str, Any] = {"listen": "off"}


@pytest.fixture
def taken() -> Iterator[int]:
    """A port at which somebody listens who says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


async def looked(environ: dict[str, str] | None = None, **settings: Any) -> dict[str, Check]:
    given = Settings.model_validate({"http": OFF, **settings})
    return {check.name: check for check in await look_around(given, 0.5, environ or {})}


async def test_nothing_is_looked_at_that_nobody_asked_for() -> None:
    found = await looked()
    assert {name: check.detail for name, check in found.items()} == {"page": "off"}


# --- the page --------------------------------------------------------------------------------------------------------


async def test_where_the_page_is_to_be(unused_tcp_port: int) -> None:
    listen = f"127.0.0.1:{unused_tcp_port}"
    assert (await looked(http={"listen": listen}))["page"] == Check("page", "ok", f"{listen} is free")


async def test_somebody_else_is_where_the_page_is_to_be(taken: int) -> None:
    page = (await looked(http={"listen": f"127.0.0.1:{taken}"}))["page"]
    assert (page.result, page.detail) == ("FAIL", f"127.0.0.1:{taken}: the port is in use")


async def test_another_program_with_a_page_is_none_of_ours() -> None:
    async with FakeNomad() as nomad:
        listen = nomad.address.removeprefix("http://")
        assert (await looked(http={"listen": listen}))["page"].result == "FAIL"


async def test_one_of_ours_may_serve_the_page_already() -> None:
    settings = Settings.model_validate({"http": {"listen": "127.0.0.1:0"}})
    running = Running(settings, Notes())
    address = await add_page(running, Observers(), settings)
    assert address is not None
    listen = address.removeprefix("http://").rstrip("/")

    page = (await looked(http={"listen": listen}))["page"]

    assert (page.result, page.detail) == ("ok", f"{listen} is served already, by a reconciler that runs")
    task = asyncio.create_task(running.companions[0].run())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_an_address_that_this_machine_does_not_have() -> None:
    page = (await looked(http={"listen": "192.0.2.1:8646"}))["page"]
    assert page.result == "FAIL"


async def test_a_token_that_cannot_be_read(tmp_path: Path, unused_tcp_port: int) -> None:
    page = (await looked(http={"listen": f"127.0.0.1:{unused_tcp_port}", "token_file": tmp_path / "none"}))["page"]
    assert page.result == "warn"
    assert page.detail.endswith(f"http.token_file {tmp_path / 'none'}: no such file or directory")


# --- Poseidon --------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def poseidon() -> AsyncIterator[str]:
    beside = Poseidon(lab(version="1.10.5"))
    beside.start()
    async with PoseidonServer(beside, touch=lambda: None) as server:
        yield server.address


async def test_a_poseidon_that_tells_its_statistics() -> None:
    async with poseidon() as address:
        found = (await looked(poseidon={"address": address}))["Poseidon"]
    assert (found.result, found.detail) == ("ok", f"{address} tells of 0 environments")


async def test_a_poseidon_that_is_not_there_or_none(unused_tcp_port: int) -> None:
    absent = (await looked(poseidon={"address": f"http://127.0.0.1:{unused_tcp_port}"}))["Poseidon"]
    assert (absent.result, absent.detail) == ("warn", f"127.0.0.1:{unused_tcp_port}: connection refused")
    async with FakeNomad() as nomad:
        other = (await looked(poseidon={"address": nomad.address}))["Poseidon"]
    assert other.result == "warn"
    assert "is this Poseidon?" in other.detail


# --- those who are sent something ------------------------------------------------------------------------------------


async def test_a_collector_by_the_settings_or_by_its_variable(taken: int, unused_tcp_port: int) -> None:
    there, absent = f"http://127.0.0.1:{taken}", f"http://127.0.0.1:{unused_tcp_port}"
    variable = {"OTEL_EXPORTER_OTLP_ENDPOINT": absent}

    assert (await looked(telemetry={"endpoint": there}))["collector"].result == "ok"
    assert (await looked(variable, telemetry={"endpoint": there}))["collector"].result == "ok"
    found = (await looked(variable))["collector"]
    assert (found.result, found.detail) == ("warn", f"127.0.0.1:{unused_tcp_port}: connection refused")


@pytest.mark.parametrize("value", ["collector:4318", "ftp://collector", "http://[::1"])
async def test_a_variable_that_is_no_url(value: str) -> None:
    found = (await looked({"OTEL_EXPORTER_OTLP_ENDPOINT": value}))["collector"]
    assert (found.result, found.detail) == ("warn", "the URL is not a URL such as https://host/path")


async def test_a_webhook_is_not_told_anything(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cr3t\n")
    async with receiving() as receiver:
        hook = {"url": f"{receiver.url}/s3cr3t-path", "secret_file": secret}
        found = (await looked(webhooks={"on_call": hook}))["webhook on_call"]
        assert receiver.batches == []
    assert found.result == "ok"
    assert "s3cr3t" not in found.detail


async def test_a_webhook_that_cannot_work(tmp_path: Path, taken: int, unused_tcp_port: int) -> None:
    found = await looked(
        webhooks={
            "absent": {"url": f"http://127.0.0.1:{unused_tcp_port}/hook"},
            "unsigned": {"url": f"http://127.0.0.1:{taken}/hook", "secret_file": tmp_path / "none"},
            "unnamed": {"url": "http://name.invalid/hook"},
            "no-tls": {"url": f"https://127.0.0.1:{taken}/hook"},
        }
    )
    assert {check.result for name, check in found.items() if name != "page"} == {"warn"}
    assert found["webhook unsigned"].detail == f"secret_file {tmp_path / 'none'}: no such file or directory"
    assert "cannot be looked up" in found["webhook unnamed"].detail
    assert found["webhook no-tls"].detail.endswith("no answer within 0.5 s")


async def test_a_webhook_whose_certificate_is_not_trusted(unused_tcp_port: int) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", unused_tcp_port, ssl=context)
    async with server:
        found = (await looked(webhooks={"secure": {"url": f"https://127.0.0.1:{unused_tcp_port}/"}}))["webhook secure"]
    assert found.result == "warn"
    assert "its certificate is not trusted" in found.detail
