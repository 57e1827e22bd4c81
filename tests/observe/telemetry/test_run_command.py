"""`run` as an operator starts it: the variables are all it needs, and an ill collector does not hold it up."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from poseidon_reconciler.twin.clock import RealClock
from poseidon_reconciler.twin.server import TwinServer
from tests.observe.telemetry.living import pool_with_a_mortal
from tests.observe.telemetry.receiver import Receiver, receiving

RUN = (sys.executable, "-m", "poseidon_reconciler", "run")


@asynccontextmanager
async def command(receiver: Receiver) -> AsyncIterator[asyncio.subprocess.Process]:
    async with TwinServer(pool_with_a_mortal(), clock=RealClock()) as server:
        variables = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "NOMAD_"))},
            "NOMAD_ADDR": server.address,
            "RECONCILER_HTTP__LISTEN": "off",
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.address,
            "OTEL_EXPORTER_OTLP_HEADERS": "x-key=secret",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
            "OTEL_SERVICE_NAME": "pools",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
            "OTEL_METRIC_EXPORT_INTERVAL": "200",
        }
        child = await asyncio.create_subprocess_exec(*RUN, env=variables, stderr=asyncio.subprocess.PIPE)
        try:
            yield child
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()


async def _until(receiver: Receiver, name: str) -> None:
    async with asyncio.timeout(30):
        while not (receiver.roots(name) and receiver.metrics):  # noqa: ASYNC110 - the receiver has no event for it
            await asyncio.sleep(0.05)


async def test_the_variables_are_enough() -> None:
    async with receiving() as receiver, command(receiver) as child:
        await _until(receiver, "connect")
        child.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(child.wait(), 20) == 0

        assert receiver.resource["service.name"] == "pools"
        assert "poseidon_reconciler.synced" in receiver.metrics
        assert receiver.headers["x-key"] == "secret"


@pytest.mark.parametrize("manner", ["hang", "503"])
async def test_it_ends_in_time_and_complains_once(manner: str) -> None:
    async with receiving("hang" if manner == "hang" else "503") as receiver, command(receiver) as child:
        async with asyncio.timeout(30):
            while not receiver.requests:  # noqa: ASYNC110 - the receiver has no event for it
                await asyncio.sleep(0.05)
        await asyncio.sleep(1)
        began = time.monotonic()
        child.send_signal(signal.SIGTERM)
        _, complaints = await asyncio.wait_for(child.communicate(), 20)

        assert child.returncode == 0
        assert time.monotonic() - began < 10
        told = complaints.decode().splitlines()
        assert sum("telemetry-not-sent" in line for line in told) <= 1
        assert not [line for line in told if "Traceback" in line or "secret" in line]
