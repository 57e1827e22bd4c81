"""What the log tells of a step: the cause (nodes, a storm) before what came of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from poseidon_reconciler.core.reconciler import Step, Storm
from poseidon_reconciler.core.records import NodeChange
from poseidon_reconciler.observe.logs.events import MESSAGES
from poseidon_reconciler.observe.logs.nodes import MOST_ALONE, message_of_node
from tests.core.builders import allocation, bench_with_pool, node, node_id, runner

Lines = Callable[..., list[str]]


def told(lines: Lines, *steps: Step) -> list[dict[str, Any]]:
    messages = [json.loads(line) for line in lines(lambda observer: [observer.stepped(step) for step in steps])]
    return [{name: value for name, value in each.items() if name not in ("time", "level")} for each in messages]


def test_a_node_that_goes_down_and_comes_back_is_told_by_name_and_id(lines: Lines) -> None:
    bench = bench_with_pool(0)
    down = bench.feed(node(node_id(1), "down", index=300))
    back = bench.feed(node(node_id(1), "ready", index=301))

    messages = told(lines, down._replace(storm=None), back)

    ids = {"node": node_id(1), "node_name": "agent-a0"}
    assert messages == [
        {"event": "node-down", **ids, "before": "ready"},
        {"event": "node-ready", **ids, "before": "down"},
    ]


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        (("ready", False), ("disconnected", False), "node-disconnected"),
        (("ready", False), ("initializing", False), "node-initializing"),
        (("ready", False), ("gone", False), "node-removed"),
        (("ready", False), ("ready", True), "node-draining"),
        (("ready", True), ("ready", False), "node-drained"),
        (("ready", True), ("down", True), "node-down"),
        (("", False), ("down", False), "node-down"),
        (("", False), ("ready", True), "node-draining"),
        (("", False), ("ready", False), None),
        (("ready", False), ("unheard-of", False), None),
    ],
)
def test_each_change_of_a_node_has_its_name(
    before: tuple[str, bool], after: tuple[str, bool], name: str | None
) -> None:
    assert message_of_node(NodeChange("n", "agent", *after, *before)) == name
    assert name is None or name in MESSAGES


def test_many_nodes_that_change_at_once_are_one_message(lines: Lines) -> None:
    nodes = [NodeChange(f"n{number}", f"agent-{number}", "down", False, "ready", False) for number in range(40)]

    assert len(told(lines, Step(0.0, [], [], [], nodes=nodes[:MOST_ALONE]))) == MOST_ALONE
    (message,) = told(lines, Step(0.0, [], [], [], nodes=nodes))
    assert (message["event"], message["count"]) == ("node-down", 40)
    assert message["node_names"][:2] == ["agent-0", "agent-1"]


def test_a_storm_is_told_when_it_begins_and_when_it_is_over(lines: Lines) -> None:
    storm = Storm(0.0, 30.5, "3 of 3 nodes lost within 1m")
    steps = (Step(0.0, [], [], [], storm=storm), Step(75.0, [], [], [], storm=storm._replace(until=None)))

    assert told(lines, *steps) == [
        {"event": "storm-began", "detail": "3 of 3 nodes lost within 1m", "until": "1970-01-01T00:00:30.500Z"},
        {"event": "storm-over", "detail": "after 1m15s; it began with 3 of 3 nodes lost within 1m"},
    ]


def test_beside_the_id_of_a_node_stands_its_name(lines: Lines) -> None:
    bench = bench_with_pool(1)
    lost = allocation("a0", runner(0), "failed", index=300, created=201, node=node_id(1), NodeName="agent-a0")
    bench.feed(lost)
    step = bench.steps[-1]

    messages = [json.loads(line) for line in lines(lambda observer: observer.stepped(step), level="debug")]

    assert [each.get("node_name") for each in messages if each.get("node")] == ["agent-a0"]
