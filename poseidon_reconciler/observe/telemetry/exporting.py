"""The SDK's providers, set up by our section of the settings and by OpenTelemetry's own variables.

Where neither names a collector, no exporter, queue or thread comes about. Everything that sends runs on the SDK's
threads. Nothing here is registered globally or at the interpreter's exit: whoever made it closes it, within a bound.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, TypeVar

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from poseidon_reconciler import __version__
from poseidon_reconciler.config.observing import TelemetrySettings
from poseidon_reconciler.observe.telemetry.harmless import complain
from poseidon_reconciler.observe.telemetry.scrape import CARDINALITY

T = TypeVar("T")

SERVICE_NAME: Final = "poseidon-reconciler"
CLOSE_BOUND_S: Final = 3.0

_MILLISECONDS: Final = 1000


class Exporting:
    """Both providers.

    Attributes:
        meters: the metrics' provider.
        sends_metrics: whether they go to a collector, besides being there to be scraped.
        tracers: the traces' provider; None where no trace goes anywhere.
    """

    def __init__(
        self, settings: TelemetrySettings, environ: Mapping[str, str], instance_id: str, scrape: MetricReader
    ) -> None:
        """`environ` are the variables of the process, of which the SDK reads some itself; `scrape` is a reader beside
        the exporting one.
        """
        resource = _resource(instance_id)
        readers = [scrape]
        if _is_wanted("METRICS", settings, environ) and (reader := _attempt(lambda: _reader(settings, environ))):
            readers.append(reader)
        self.sends_metrics = len(readers) > 1
        self.meters = MeterProvider(readers, resource, shutdown_on_exit=False)
        self.tracers: TracerProvider | None = None
        if _is_wanted("TRACES", settings, environ) and (processor := _attempt(lambda: _processor(settings, environ))):
            self.tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
            self.tracers.add_span_processor(processor)

    async def close(self, bound_s: float = CLOSE_BOUND_S) -> None:
        """Sends what is left, and stops; what cannot be sent within `bound_s` is given up."""
        closings = [self.meters.shutdown, *([self.tracers.shutdown] if self.tracers is not None else [])]
        async with asyncio.TaskGroup() as group:
            for closing in closings:
                group.create_task(_bounded(closing, bound_s))


def _resource(instance_id: str) -> Resource:
    ours = Resource({"service.name": SERVICE_NAME, "service.version": __version__, "service.instance.id": instance_id})
    return Resource.get_empty().merge(ours).merge(OTELResourceDetector().detect())


def _is_wanted(signal: str, settings: TelemetrySettings, environ: Mapping[str, str]) -> bool:
    """Whether a signal goes to a collector."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporters = environ.get(f"OTEL_{signal}_EXPORTER", "").replace(" ", "").split(",")
    if exporters != [""] and "otlp" not in exporters:
        return False
    variables = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
    return settings.endpoint is not None or any(environ.get(variable) for variable in variables)


def _attempt(build: Callable[[], T]) -> T | None:
    """What the SDK builds; None where it does not accept a variable or a file that one names."""
    try:
        return build()
    except Exception as error:  # noqa: BLE001 - nobody says what an SDK raises, and nothing depends on it
        complain(error)
        return None


def _processor(settings: TelemetrySettings, environ: Mapping[str, str]) -> BatchSpanProcessor:
    timeout_s = _timeout_s("TRACES", settings, environ)
    trusted = _trusted("TRACES", environ)
    return BatchSpanProcessor(OTLPSpanExporter(_url("traces", settings), certificate_file=trusted, timeout=timeout_s))


def _reader(settings: TelemetrySettings, environ: Mapping[str, str]) -> MetricReader:
    timeout_s = _timeout_s("METRICS", settings, environ)
    interval_s = _unless_said("interval_s", settings, environ, "OTEL_METRIC_EXPORT_INTERVAL")
    return PeriodicExportingMetricReader(
        OTLPMetricExporter(_url("metrics", settings), certificate_file=_trusted("METRICS", environ), timeout=timeout_s),
        export_interval_millis=interval_s * _MILLISECONDS if interval_s is not None else None,
        cardinality_limits=CARDINALITY,
    )


def _url(signal: str, settings: TelemetrySettings) -> str | None:
    """Where a signal is sent; None leaves that to the SDK's variables."""
    return f"{settings.endpoint.rstrip('/')}/v1/{signal}" if settings.endpoint is not None else None


def _trusted(signal: str, environ: Mapping[str, str]) -> str | None:
    """The certificates that the system trusts, by which all others here go: left alone, the SDK would take those of a
    package. None where it reads a variable itself, or where the system has none.
    """
    variables = ("OTEL_EXPORTER_OTLP_CERTIFICATE", f"OTEL_EXPORTER_OTLP_{signal}_CERTIFICATE")
    if any(environ.get(variable) for variable in variables):
        return None
    system = ssl.get_default_verify_paths()
    return system.cafile or system.capath


def _timeout_s(signal: str, settings: TelemetrySettings, environ: Mapping[str, str]) -> float | None:
    variables = ("OTEL_EXPORTER_OTLP_TIMEOUT", f"OTEL_EXPORTER_OTLP_{signal}_TIMEOUT")
    return _unless_said("timeout_s", settings, environ, *variables)


def _unless_said(name: str, settings: TelemetrySettings, environ: Mapping[str, str], *variables: str) -> float | None:
    """A setting; None where it was not set and one of the variables was, which the SDK then reads itself."""
    if name not in settings.model_fields_set and any(environ.get(variable) for variable in variables):
        return None
    value: float = getattr(settings, name)
    return value


async def _bounded(close: Callable[[], object], bound_s: float) -> None:
    """Runs what may block for long on a thread that nobody waits for beyond the bound, the interpreter included."""
    loop = asyncio.get_running_loop()
    closed = asyncio.Event()

    def run() -> None:
        try:
            close()
        except Exception as error:  # noqa: BLE001 - as at the beginning
            complain(error)
        finally:
            # The loop may be over by then.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(closed.set)

    threading.Thread(target=run, name="telemetry-close", daemon=True).start()
    with suppress(TimeoutError):
        async with asyncio.timeout(bound_s):
            await closed.wait()
