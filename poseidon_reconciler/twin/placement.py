"""Chooses a node for an allocation, and says in Nomad's own form why none would do."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any

from msgspec import Struct

from poseidon_reconciler.twin.jobspec import Group
from poseidon_reconciler.twin.records import Job, JsonObject, Node
from poseidon_reconciler.twin.state import Usage

_VARIABLE = re.compile(r"\$\{(attr|node|meta)\.(.+)\}")


class Choice(Struct, frozen=True):
    """The node chosen, if any; what was found on the way; and which classes of nodes could take it at all."""

    node: Node | None
    metrics: JsonObject
    eligibility: Mapping[str, bool]


class Chooser(Struct, frozen=True):
    """How nodes are chosen: `spread` prefers the emptiest node, `binpack` the fullest that still has room."""

    algorithm: str
    rng: Random
    used_on: Callable[[str], Usage]

    def choose(self, job: Job, group: Group, nodes: Iterable[Node], avoid: frozenset[str]) -> Choice:
        """The best node with room that meets the job's constraints; those to `avoid` only if nothing else is left."""
        ready = [node for node in nodes if node.schedulable and _in_datacenter(node, job)]
        self.rng.shuffle(ready)
        filtered: Counter[str] = Counter()
        exhausted: Counter[str] = Counter()
        eligibility: dict[str, bool] = {}
        scores: list[tuple[float, Node]] = []
        for node in ready:
            unmet = unmet_constraint(job, group, node)
            eligibility[node.computed_class] = unmet is None
            if unmet is not None:
                filtered[unmet] += 1
                continue
            lacking, score = self._fit(group, node)
            if lacking:
                exhausted[lacking] += 1
                continue
            scores.append((score - (1.0 if node.id in avoid else 0.0), node))
        scores.sort(key=lambda scored: -scored[0])
        metrics = _metrics(job, group, ready, filtered, exhausted, scores)
        return Choice(scores[0][1] if scores else None, metrics, eligibility)

    def _fit(self, group: Group, node: Node) -> tuple[str, float]:
        """What a node lacks for the group, or how good it would be."""
        cpu, memory, disk = self.used_on(node.id)
        cpu, memory, disk = cpu + group.cpu_mhz, memory + group.memory_mb, disk + group.disk_mb
        if cpu > node.spec.cpu_mhz:
            return "cpu", 0.0
        if memory > node.spec.memory_mb:
            return "memory", 0.0
        if disk > node.spec.disk_mb:
            return "disk", 0.0
        free: float = 10.0 ** (1 - cpu / node.spec.cpu_mhz) + 10.0 ** (1 - memory / node.spec.memory_mb)
        return "", (free - 2 if self.algorithm == "spread" else 20 - free) / 18


def unmet_constraint(job: Job, group: Group, node: Node) -> str | None:
    """The first constraint, or missing driver, that keeps a group off a node."""
    for task in group.raw["Tasks"]:
        if task["Driver"] and task["Driver"] not in node.spec.drivers:
            return "missing drivers"
    holders = (job.spec, group.raw, *group.raw["Tasks"])
    constraints = (constraint for holder in holders for constraint in holder["Constraints"] or ())
    for constraint in constraints:
        left, operand, right = constraint["LTarget"], constraint["Operand"], constraint["RTarget"]
        if not _holds(_resolve(left, node), operand, right):
            return f"{left} {operand} {right}"
    return None


def _resolve(target: str, node: Node) -> str | None:
    match = _VARIABLE.fullmatch(target or "")
    if match is None:
        return target
    kind, name = match.groups()
    if kind == "attr":
        return node_attributes(node).get(name)
    if kind == "meta":
        return node.spec.meta.get(name)
    known = {
        "unique.id": node.id, "unique.name": node.spec.name, "datacenter": node.spec.datacenter,
        "class": node.spec.node_class,
    }  # fmt: skip
    return known.get(name)


def _holds(left: str | None, operand: str, right: str) -> bool:
    if operand in {"distinct_hosts", "distinct_property"}:
        return True
    if left is None:
        return operand in {"!=", "is_not_set"}
    match operand:
        case "=" | "==" | "is":
            return left == right
        case "!=" | "not":
            return left != right
        case "regexp":
            return re.search(right, left) is not None
        case "set_contains" | "set_contains_all":
            return set(right.split(",")) <= set(left.split(","))
        case "set_contains_any":
            return bool(set(right.split(",")) & set(left.split(",")))
        case "is_not_set":
            return False
        case _:
            return True


def node_attributes(node: Node) -> dict[str, str]:
    """A node's attributes, as its agent fingerprints them."""
    spec = node.spec
    base = {
        "cpu.arch": "amd64", "cpu.numcores": "2", "cpu.totalcompute": str(spec.cpu_mhz), "kernel.name": "linux",
        "memory.totalbytes": str(spec.memory_mb << 20), "os.name": "debian",
        "os.signals": "SIGABRT,SIGHUP,SIGINT,SIGKILL,SIGQUIT,SIGTERM,SIGUSR1,SIGUSR2",
        "unique.hostname": spec.name, "unique.network.ip-address": "127.0.0.1",
        "nomad.advertise.address": f"127.0.0.1:{spec.port}",
    }  # fmt: skip
    drivers = {f"driver.{name}": "1" for name in spec.drivers}
    return {**base, **drivers, **spec.attributes}


def _in_datacenter(node: Node, job: Job) -> bool:
    datacenters = job.spec["Datacenters"]
    return node.spec.datacenter in datacenters or "*" in datacenters


def _metrics(
    job: Job,
    group: Group,
    ready: list[Node],
    filtered: Counter[str],
    exhausted: Counter[str],
    scores: list[tuple[float, Node]],
) -> dict[str, Any]:
    available = dict.fromkeys(job.spec["Datacenters"], 0) | dict(Counter(n.spec.datacenter for n in ready))
    lacking = {
        task["Name"]: {
            "CPU": task["Resources"]["CPU"] if "cpu" in exhausted else 0, "Cores": 0, "Devices": None, "DiskMB": 0,
            "IOPS": 0, "MemoryMB": task["Resources"]["MemoryMB"] if "memory" in exhausted else 0, "MemoryMaxMB": 0,
            "Networks": None,
        }
        for task in group.raw["Tasks"]
    }  # fmt: skip
    return {
        "AllocationTime": 50_000, "ClassExhausted": None, "ClassFiltered": None, "CoalescedFailures": 0,
        "ConstraintFiltered": dict(filtered) or None, "DimensionExhausted": dict(exhausted) or None,
        "NodesAvailable": available, "NodesEvaluated": len(ready), "NodesExhausted": exhausted.total(),
        "NodesFiltered": filtered.total(), "QuotaExhausted": None,
        "ResourcesExhausted": lacking if exhausted else None,
        "ScoreMetaData": [_score(score, node) for score, node in scores] or None, "Scores": None,
    }  # fmt: skip


def _score(score: float, node: Node) -> dict[str, Any]:
    scores = {"binpack": score, "job-anti-affinity": 0.0, "node-affinity": 0.0, "node-reschedule-penalty": 0.0}
    return {"NodeID": node.id, "NormScore": score, "Scores": scores}
