"""The bar of a pool and the table of the nodes."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from poseidon_reconciler.app.demo.picture import nodes_table, pool_picture
from poseidon_reconciler.core.status import POOL_STATES
from tests.demo.clusters import empty, fill, key
from tests.twin.labs import newest


def picture(target: int, width: int = 40, **numbers: int) -> list[str]:
    told = dict.fromkeys(POOL_STATES, 0) | numbers
    return pool_picture("10", told, target, "active", None, width).plain.splitlines()


@pytest.mark.parametrize(
    ("target", "numbers", "line"),
    [
        (4, {"idle": 4}, "████│  4 of 4 idle"),
        (4, {"idle": 1, "starting": 2}, "█▓▓·│  1 of 4 idle  ▓ 2 starting"),
        (3, {"idle": 1, "recovering": 1, "blocked": 1}, "█▒░│  1 of 3 idle  ▒ 1 recovering  ░ 1 blocked"),
        (2, {"idle": 4}, "██│██  4 of 2 idle"),
        (2, {"idle": 2, "disconnected": 1}, "██│?  2 of 2 idle  ? 1 disconnected"),
        (2, {"lost": 2, "used": 1}, "··│  0 of 2 idle  1 used  2 lost"),
        (0, {"idle": 0}, "│  0 of 0 idle"),
    ],
)
def test_a_pool_is_a_bar_with_a_mark_at_its_target(target: int, numbers: dict[str, int], line: str) -> None:
    head, bar = picture(target, **numbers)
    assert head == "environment 10  its own job is active"
    assert bar == line


def test_a_large_pool_is_drawn_to_scale() -> None:
    bar = picture(200, idle=100, width=20)[1]
    assert bar == "██████████··········│  100 of 200 idle"


def test_a_large_surplus_stands_behind_the_mark() -> None:
    bar = picture(100, idle=200, width=20)[1]
    assert bar == "██████████│██████████  200 of 100 idle"


def test_the_cause_of_a_lost_environment_is_told() -> None:
    told = pool_picture("10", dict.fromkeys(POOL_STATES, 0), 1, "lost", "stuck-complete", 10).plain
    assert told.startswith("environment 10  its own job is lost, stuck-complete\n")


def test_the_nodes_with_what_is_on_them() -> None:
    cluster = empty()
    fill(cluster, disconnect={"LostAfter": 3600 * 10**9, "Replace": False})
    agents = {agent.name: agent for agent in cluster.agents.values()}
    agents["agent-1"].cut()
    agents["agent-2"].freeze()
    cluster.run_for(8)
    console = Console(width=80, file=StringIO())
    with console.capture() as captured:
        console.print(nodes_table(cluster))
    lines = [" ".join(line.split()) for line in captured.get().splitlines()]
    counts = {
        name: sum(newest(cluster, key(job)).node_name == name for job in ("10-0", "10-1", "10-2", "template-10"))
        for name in agents
    }
    assert lines == [
        f"agent-1 disconnected cut off 0 run {counts['agent-1']} out of sight",
        f"agent-2 disconnected agent frozen 0 run {counts['agent-2']} out of sight",
        f"agent-3 ready {counts['agent-3']} run",
    ]
