"""A collector of the tests' own: takes OTLP over HTTP, keeps what it was sent, or misbehaves."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

from aiohttp import web
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.serving import serving

Manner = Literal["good", "hang", "503"]


@dataclass
class Receiver:
    """Listens on a port of its own.

    Attributes:
        requests: how many came, answered or not.
        spans: those that were sent, in the order of their ends.
        resource: the attributes of the process, as last sent.
        metrics: the names of the metrics that were sent.
        headers: those of the last request.
    """

    manner: Manner = "good"
    requests: int = 0
    spans: list[Span] = field(default_factory=list)
    resource: dict[str, str] = field(default_factory=dict)
    metrics: set[str] = field(default_factory=set)
    headers: dict[str, str] = field(default_factory=dict)
    address: str = ""

    async def take(self, request: web.Request) -> web.Response:
        self.requests += 1
        self.headers = dict(request.headers)
        body = await request.read()
        if self.manner == "hang":
            await asyncio.Event().wait()
        if self.manner == "503":
            return web.Response(status=503, headers={"Retry-After": "60"})
        if request.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        if request.path == "/v1/traces":
            self._take_traces(ExportTraceServiceRequest.FromString(body))
        else:
            self._take_metrics(ExportMetricsServiceRequest.FromString(body))
        return web.Response(content_type="application/x-protobuf")

    def _take_traces(self, sent: ExportTraceServiceRequest) -> None:
        for of_resource in sent.resource_spans:
            self.resource = plain(of_resource.resource.attributes)
            for of_scope in of_resource.scope_spans:
                self.spans += of_scope.spans

    def _take_metrics(self, sent: ExportMetricsServiceRequest) -> None:
        for of_resource in sent.resource_metrics:
            for of_scope in of_resource.scope_metrics:
                self.metrics.update(metric.name for metric in of_scope.metrics)

    def traces(self) -> dict[str, list[Span]]:
        """The spans by their trace."""
        found: dict[str, list[Span]] = {}
        for span in self.spans:
            found.setdefault(span.trace_id.hex(), []).append(span)
        return found

    def roots(self, name: str) -> list[Span]:
        """The first spans of all traces that are called so."""
        return [span for span in self.spans if span.name == name and not span.parent_span_id]


@asynccontextmanager
async def receiving(manner: Manner = "good") -> AsyncIterator[Receiver]:
    receiver = Receiver(manner)
    app = web.Application()
    app.router.add_post("/v1/{signal}", receiver.take)
    async with serving(app) as receiver.address:
        yield receiver


def plain(attributes: Iterable[KeyValue]) -> dict[str, str]:
    """Attributes as text."""
    return {attribute.key: _text(attribute.value) for attribute in attributes}


def _text(value: AnyValue) -> str:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return ",".join(map(_text, value.array_value.values))
    return str(getattr(value, kind)) if kind is not None else ""
