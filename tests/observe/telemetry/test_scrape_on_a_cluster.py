"""What Prometheus gets of a reconciler at work, and that alerts and dashboard ask for nothing else."""

from __future__ import annotations

import asyncio
import re

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from poseidon_reconciler.config.observing import TelemetrySettings
from poseidon_reconciler.observe.drift import EnvironmentView, PoseidonView, Statistics
from poseidon_reconciler.observe.telemetry.catalogue import METRICS
from poseidon_reconciler.observe.telemetry.telemetry import Telemetry
from tests.leaps import run_in_leaps
from tests.observe.telemetry.living import living
from tests.observe.telemetry.queries import ALWAYS, grouping_in, metrics_in, queries

_SUFFIXES = ("_bucket", "_count", "_sum")


def scraped(telemetry: Telemetry) -> list[Metric]:
    body, content_type = telemetry.render()
    assert content_type.startswith("text/plain")
    return list(text_string_to_metric_families(body.decode()))


async def _page() -> list[Metric]:
    async with living(TelemetrySettings()) as found:
        view = PoseidonView(1.0, None, {"10": EnvironmentView(Statistics(10, 3, 4, 0), 3, 0, 3)})
        found.running.poseidon = lambda: view
        await found.replaced()
        # A sample is taken once a second.
        await asyncio.sleep(1.1)
        return scraped(found.telemetry)


@pytest.fixture(scope="module")
def page() -> list[Metric]:
    """Of a reconciler that has replaced a runner, beside a Poseidon that was asked."""
    return run_in_leaps(_page())


def test_the_page_has_every_metric_and_each_label_that_somebody_asks_for(page: list[Metric]) -> None:
    labels: dict[str, set[str]] = {}
    for family in page:
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)

    declared = {metric.prometheus_name: set(metric.labels) for metric in METRICS}
    seen = {re.sub("|".join(f"{suffix}$" for suffix in _SUFFIXES), "", name) for name in labels} - {"target_info"}
    assert seen == set(declared)
    for query in queries():
        asked = metrics_in(query)
        assert asked or "up{" in query
        assert not set(asked) - set(labels), query
        assert not [name for name, by in asked.items() if by - labels[name] - ALWAYS], query
        if asked:
            known = {label for name in asked for label in labels[name]}
            assert not grouping_in(query) - known - ALWAYS, query
    for metric in METRICS:
        name = metric.prometheus_name + ("_count" if metric.kind == "histogram" else "")
        assert labels[name] == set(metric.labels)


def test_no_label_is_as_long_as_the_jobs_are_many(page: list[Metric]) -> None:
    samples = [sample for family in page for sample in family.samples if sample.name != "target_info"]
    values = {value for sample in samples for value in sample.labels.values()}
    assert {"10", "idle", "stuck-complete", "create-runner", "/v1/job/:id"} <= values
    assert not [value for value in values if re.match(r"\d+-|template-\d|.*[0-9a-f]{8}", value)]


def test_the_page_tells_what_happened(page: list[Metric]) -> None:
    value = {
        (sample.name, *sorted(sample.labels.items())): sample.value for family in page for sample in family.samples
    }
    prefix = "poseidon_reconciler_"
    environment = ("environment_id", "10")
    assert value[f"{prefix}pool_runners", environment, ("state", "idle")] == 3
    assert value[f"{prefix}pool_target", environment] == 3
    assert value[f"{prefix}losses_total", ("cause", "stuck-complete"), ("kind", "runner")] == 1
    assert value[f"{prefix}actions_total", ("kind", "create-runner"), ("outcome", "done")] == 1
    assert value[f"{prefix}actions_total", ("kind", "remove-job"), ("outcome", "not-done")] == 0
    assert value[f"{prefix}pool_deficit_duration_seconds_total", environment] > 1
    assert value[(f"{prefix}pool_refill_duration_seconds_count",)] == 1
    assert value[(f"{prefix}synced",)] == 1
    assert value[f"{prefix}nodes", ("status", "ready")] == 3
    assert value[f"{prefix}poseidon_drift", environment] == 1
    assert value[(f"{prefix}model_jobs",)] == 5
    assert value[(f"{prefix}model_allocations",)] >= 4
