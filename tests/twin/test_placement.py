"""Where allocations are placed, and what is said when they cannot be."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from poseidon_reconciler.twin.cluster import Cluster, Settings
from poseidon_reconciler.twin.placement import node_attributes, unmet_constraint
from poseidon_reconciler.twin.poseidon_jobs import Work, runner_job
from poseidon_reconciler.twin.records import NodeSpec
from tests.twin.labs import PROMPT, lab, with_runner


def placed(cluster: Cluster, count: int) -> Counter[str]:
    for number in range(count):
        with_runner(cluster, name=f"10-{number}", run_s=0.5)
    return Counter(allocation.node_name for allocation in cluster.state.allocations.values())


def test_spread_fills_the_machines_evenly() -> None:
    assert set(placed(lab(3), 12).values()) == {4}


def test_binpack_fills_one_machine_first() -> None:
    cluster = Cluster(3, seed=1, settings=Settings(algorithm="binpack", agents=PROMPT))
    cluster.run_for(15)
    assert list(placed(cluster, 6).values()) == [6]


def test_what_is_full_is_left_out_and_named() -> None:
    cluster = lab(2)
    for number in range(3):
        with_runner(cluster, Work(memory_mb=4000), name=f"10-{number}")
    (blocked,) = [e for e in cluster.state.evaluations.values() if e.status == "blocked"]
    metrics: Any = (blocked.failed_groups or {})["default-group"]
    assert (metrics["DimensionExhausted"], metrics["NodesEvaluated"], metrics["NodesAvailable"]) == (
        {"memory": 2},
        2,
        {"dc1": 2},
    )


@pytest.mark.parametrize(
    ("left", "operand", "right", "holds"),
    [
        ("${attr.kernel.name}", "=", "linux", True),
        ("${attr.kernel.name}", "!=", "linux", False),
        ("${attr.os.signals}", "set_contains", "SIGKILL,SIGTERM", True),
        ("${attr.os.signals}", "set_contains", "SIGKILL,SIGNONE", False),
        ("${attr.os.signals}", "set_contains_any", "SIGKILL,SIGNONE", True),
        ("${node.unique.name}", "regexp", "^agent-[0-9]$", True),
        ("${node.datacenter}", "=", "dc2", False),
        ("${meta.rack}", "=", "r1", False),
        ("${meta.rack}", "is_not_set", "", True),
        ("", "distinct_hosts", "true", True),
    ],
)
def test_constraints(left: str, operand: str, right: str, holds: bool) -> None:
    cluster = lab(1)
    raw = runner_job("10-a")
    raw["Constraints"] = [{"LTarget": left, "Operand": operand, "RTarget": right}]
    job, _ = cluster.jobs.register(raw)
    (node,) = cluster.state.nodes.values()
    assert (unmet_constraint(job, job.groups[0], node) is None) is holds


def test_a_machine_without_the_driver_is_left_out() -> None:
    cluster = Cluster([NodeSpec("a", drivers=("docker",)), NodeSpec("b")], seed=1, settings=Settings(agents=PROMPT))
    cluster.run_for(15)
    assert set(placed(cluster, 4)) == {"b"}
    node = next(node for node in cluster.state.nodes.values() if node.spec.name == "a")
    assert "driver.raw_exec" not in node_attributes(node)


def test_other_datacenters_are_left_out() -> None:
    cluster = Cluster([NodeSpec("a", datacenter="dc2"), NodeSpec("b")], seed=1, settings=Settings(agents=PROMPT))
    cluster.run_for(15)
    assert set(placed(cluster, 3)) == {"b"}
