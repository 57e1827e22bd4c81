"""Where telemetry goes, by our settings and by OpenTelemetry's own variables, and that its end has a bound."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

from poseidon_reconciler.config.observing import TelemetrySettings
from poseidon_reconciler.observe.telemetry.exporting import Exporting
from poseidon_reconciler.observe.telemetry.scrape import Scrape

COLLECTOR = "http://127.0.0.1:1"
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"

Make = Callable[..., Exporting]


@pytest.fixture
async def make(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Make]:
    made: list[Exporting] = []

    def build(settings: TelemetrySettings | None = None, **environ: str) -> Exporting:
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        made.append(Exporting(settings or TelemetrySettings(), environ, "me", Scrape().reader))
        return made[-1]

    yield build
    for exporting in made:
        await exporting.close(0.1)


def threads_of_the_sdk() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("Otel")}


def exporter_of(exporting: Exporting) -> OTLPSpanExporter:
    assert exporting.tracers is not None
    processor: Any = exporting.tracers._active_span_processor._span_processors[0]
    exporter = processor.span_exporter
    assert isinstance(exporter, OTLPSpanExporter)
    return exporter


async def test_without_a_collector_there_is_no_exporter_and_no_thread(make: Make) -> None:
    before = threads_of_the_sdk()
    exporting = make()
    assert exporting.tracers is None
    assert not exporting.sends_metrics
    assert threads_of_the_sdk() <= before


@pytest.mark.parametrize(
    ("environ", "traces", "metrics"),
    [
        ({ENDPOINT: COLLECTOR}, True, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{COLLECTOR}/v1/traces"}, True, False),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": f"{COLLECTOR}/v1/metrics"}, False, True),
        ({ENDPOINT: COLLECTOR, "OTEL_TRACES_EXPORTER": "none"}, False, True),
        ({ENDPOINT: COLLECTOR, "OTEL_TRACES_EXPORTER": "console, otlp", "OTEL_METRICS_EXPORTER": "none"}, True, False),
        ({ENDPOINT: COLLECTOR, "OTEL_SDK_DISABLED": " TRUE"}, False, False),
        ({ENDPOINT: ""}, False, False),
    ],
    ids=str,
)
async def test_the_variables_say_what_goes_where(
    make: Make, environ: dict[str, str], traces: bool, metrics: bool
) -> None:
    exporting = make(**environ)
    assert (exporting.tracers is not None) is traces
    assert exporting.sends_metrics is metrics


async def test_our_own_endpoint_comes_before_the_variable(make: Make) -> None:
    ours = TelemetrySettings(endpoint="http://collector:4318/base/")
    assert exporter_of(make(ours, **{ENDPOINT: COLLECTOR}))._endpoint == "http://collector:4318/base/v1/traces"
    assert exporter_of(make(**{ENDPOINT: COLLECTOR}))._endpoint == f"{COLLECTOR}/v1/traces"


@pytest.mark.parametrize(
    ("settings", "environ", "timeout_s"),
    [
        (TelemetrySettings(), {}, 5.0),
        (TelemetrySettings(timeout_s=3.0), {}, 3.0),
        (TelemetrySettings(), {"OTEL_EXPORTER_OTLP_TIMEOUT": "7"}, 7.0),
        (TelemetrySettings(timeout_s=3.0), {"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "7"}, 3.0),
    ],
)
async def test_a_timeout_is_the_one_that_was_said(
    make: Make, settings: TelemetrySettings, environ: dict[str, str], timeout_s: float
) -> None:
    exporter = exporter_of(make(settings, **environ, **{ENDPOINT: COLLECTOR}))
    assert exporter._client._timeout == timeout_s


@pytest.mark.parametrize(
    "environ",
    [
        {"OTEL_EXPORTER_OTLP_TIMEOUT": "soon"},
        {"OTEL_EXPORTER_OTLP_COMPRESSION": "best"},
        {"OTEL_EXPORTER_OTLP_CERTIFICATE": "/no/such/file"},
        {"OTEL_BSP_MAX_QUEUE_SIZE": "-1"},
        {"OTEL_METRIC_EXPORT_INTERVAL": "0"},
    ],
    ids=str,
)
async def test_a_variable_that_nobody_understands_ends_nothing(make: Make, environ: dict[str, str]) -> None:
    make(**environ, **{ENDPOINT: COLLECTOR})


async def test_the_operator_may_name_the_service(make: Make) -> None:
    environ = {
        ENDPOINT: COLLECTOR,
        "OTEL_SERVICE_NAME": "pools",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=staging",
    }
    exporting = make(**environ)
    assert exporting.tracers is not None
    attributes = exporting.tracers.resource.attributes
    assert attributes["service.name"] == "pools"
    assert attributes["deployment.environment.name"] == "staging"
    assert attributes["service.instance.id"] == "me"
    assert not [key for key in attributes if key.startswith(("process.", "host."))]


async def test_the_end_has_a_bound_and_does_not_stop_the_loop(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    exporting = make(**{ENDPOINT: COLLECTOR})
    let_go = threading.Event()
    tracers = exporting.tracers
    assert tracers is not None
    shut_down = tracers.shutdown

    def shut_down_late() -> None:
        let_go.wait(30)
        shut_down()

    monkeypatch.setattr(tracers, "shutdown", shut_down_late)
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0.01)

    turning = asyncio.create_task(turn())
    began = time.monotonic()
    await exporting.close(0.5)
    took_s = time.monotonic() - began
    turning.cancel()
    let_go.set()

    assert 0.4 < took_s < 5
    assert turns > 5
