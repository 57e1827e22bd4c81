"""Whom those trust who look on and tell others: in a process of its own, because it is read when that begins."""

from __future__ import annotations

import asyncio
import ssl
import sys
from pathlib import Path

import pytest
import trustme
from aiohttp import web

ASKS_BOTH = """
import asyncio, os, sys
from poseidon_reconciler.config.observing import TelemetrySettings
from poseidon_reconciler.observe.outgoing import FAILURES, new_session, why_no_answer
from poseidon_reconciler.observe.telemetry.exporting import Exporting
from poseidon_reconciler.observe.telemetry.scrape import Scrape

async def ask(address):
    async with new_session(5.0) as session:
        try:
            await session.post(f"{address}/hook")
        except FAILURES as error:
            print(why_no_answer(error, session))
    exporting = Exporting(TelemetrySettings(endpoint=address, timeout_s=1.0), os.environ, "me", Scrape().reader)
    exporting.tracers.get_tracer("t").start_span("s").end()
    exporting.meters.get_meter("m").create_counter("c").add(1)
    await exporting.close(3.0)

asyncio.run(ask(sys.argv[1]))
"""
OF_TELEMETRY = ["/v1/metrics", "/v1/traces"]


@pytest.mark.parametrize(
    ("variables", "asked"),
    [
        ({"SSL_CERT_FILE": "ca.pem"}, ["/hook", *OF_TELEMETRY]),
        ({"SSL_CERT_FILE": "other.pem"}, []),
        ({"SSL_CERT_FILE": "other.pem", "OTEL_EXPORTER_OTLP_CERTIFICATE": "ca.pem"}, OF_TELEMETRY),
        ({"SSL_CERT_FILE": "ca.pem", "OTEL_EXPORTER_OTLP_CERTIFICATE": "other.pem"}, ["/hook"]),
        ({"SSL_CERT_FILE": "other.pem", "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE": "ca.pem"}, ["/v1/traces"]),
    ],
    ids=str,
)
async def test_the_systems_certificates_are_trusted_or_those_of_the_variables(
    tmp_path: Path, variables: dict[str, str], asked: list[str]
) -> None:
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ca.issue_cert("127.0.0.1").configure_cert(context)
    paths = set()

    async def answer(request: web.Request) -> web.Response:
        paths.add(request.path)
        return web.Response()

    application = web.Application()
    application.router.add_post("/{path:.*}", answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    environ = {name: str(tmp_path / value) for name, value in variables.items()} | {"SSL_CERT_DIR": str(tmp_path)}
    try:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", ASKS_BOTH, f"https://127.0.0.1:{runner.addresses[0][1]}", env=environ,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        said, complained = await asyncio.wait_for(child.communicate(), 30)
    finally:
        await runner.cleanup()

    assert sorted(paths) == asked, complained.decode()
    assert ("is not trusted" in said.decode()) == ("/hook" not in asked)
