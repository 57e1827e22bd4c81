"""The alerts: right by Prometheus's own tool, each with a test and with words for the one on call."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
import yaml

from tests.observe.telemetry.queries import ALERTS, CONFIG, dashboard, rules

PROMETHEUS = CONFIG / "prometheus"


@pytest.fixture
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None and os.environ.get("CI"):
        pytest.fail("no promtool: CI must check the alerts")
    if found is None:
        pytest.skip("no promtool")
    return found


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "rules", "--lint-fatal", ALERTS.name),
        ("test", "rules", "alerts_test.yml"),
        ("check", "config", "--lint-fatal", "prometheus.yml"),
    ],
    ids=" ".join,
)
def test_prometheus_itself_finds_them_right(promtool: str, arguments: tuple[str, ...]) -> None:
    run = subprocess.run([promtool, *arguments], cwd=PROMETHEUS, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_each_alert_is_tested_firing_and_at_rest() -> None:
    tests = yaml.safe_load((PROMETHEUS / "alerts_test.yml").read_text())["tests"]
    expected: dict[str, set[bool]] = {}
    for test in tests:
        for looked in test["promql_expr_test"]:
            name = looked["expr"].split('"')[1]
            expected.setdefault(name, set()).add(bool(looked["exp_samples"]))
    assert expected == {rule["alert"]: {True, False} for rule in rules()}


def test_each_alert_says_what_it_means_and_what_to_do() -> None:
    for rule in rules():
        assert set(rule["annotations"]) == {"summary", "description", "action"}
        assert rule["labels"]["severity"] in {"critical", "warning"}
    assert len({rule["alert"] for rule in rules()}) == len(rules())


def test_the_dashboard_has_no_panel_twice_and_each_says_what_it_shows() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["description"] for panel in panels if panel["type"] != "row")
    taken = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(taken)) == len(taken), "panels overlap"
