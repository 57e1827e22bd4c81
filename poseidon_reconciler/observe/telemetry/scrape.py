"""The page that Prometheus scrapes: all metrics as text, made when somebody asks."""

from __future__ import annotations

import threading
from typing import Final

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import ObservableCounter, ObservableGauge
from opentelemetry.sdk.metrics.export import CardinalityLimits
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

# Series of one metric, over the whole life of the process: 200 environments with 8 states each are 1600, and an
# environment that was deleted goes on being counted here.
CARDINALITY: Final[CardinalityLimits] = {ObservableGauge: 20_000, ObservableCounter: 20_000}


class Scrape:
    """Renders the page. It has a registry of its own: nothing else of the process is shown.

    Attributes:
        reader: to be given to the meter provider.
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._lock = threading.Lock()
        self.reader = PrometheusMetricReader(
            scope_info_enabled=False, registry=self._registry, cardinality_limits=CARDINALITY
        )

    def render(self) -> tuple[bytes, str]:
        """The page and its content type."""
        # The SDK's reader hands over what it collects by a queue that two scrapes would share.
        with self._lock:
            return generate_latest(self._registry), CONTENT_TYPE_LATEST
