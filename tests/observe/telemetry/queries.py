"""What the alerts and the dashboard ask for: names of metrics, and of their labels."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import yaml

CONFIG: Final = Path(__file__).parents[3] / "config"
ALERTS: Final = CONFIG / "prometheus" / "alerts.yml"

_METRIC: Final = re.compile(r"\b(poseidon_reconciler_\w+)(?:\{([^}]*)\})?")
_MATCHER: Final = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_GROUPING: Final = re.compile(r"\b(?:by|ignoring|on)\s*\(([^)]*)\)")
# Set by Prometheus, or by a histogram.
ALWAYS: Final = frozenset({"instance", "job", "le"})


def rules() -> list[dict[str, Any]]:
    """All alerts."""
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    read: dict[str, Any] = json.loads((CONFIG / "grafana" / "dashboard.json").read_text())
    return read


def queries() -> list[str]:
    """Every expression of both."""
    board = dashboard()
    found = [str(rule["expr"]) for rule in rules()]
    found += [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    variables = board["templating"]["list"]
    return found + [variable["definition"] for variable in variables if "definition" in variable]


def metrics_in(query: str) -> dict[str, set[str]]:
    """The metrics that a query names, each with the labels by which it is told apart there."""
    found: dict[str, set[str]] = {}
    for name, matchers in _METRIC.findall(query):
        found.setdefault(name, set()).update(_MATCHER.findall(matchers))
    return found


def grouping_in(query: str) -> set[str]:
    """The labels that a query groups or matches by."""
    return {label.strip() for labels in _GROUPING.findall(query) for label in labels.split(",")}
