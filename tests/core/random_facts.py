"""Jobs in any condition whatever, likely or not: whoever judges must not rely on what is usual."""

from __future__ import annotations

from random import Random
from typing import Any, Final

import orjson
from msgspec import convert

from poseidon_reconciler.core.events import AllocationPayload, EvaluationPayload
from poseidon_reconciler.core.facts import Facts
from poseidon_reconciler.core.ids import Kind
from poseidon_reconciler.core.records import Allocation, Evaluation, Job, Node, Origin
from poseidon_reconciler.policy import PoolPolicy
from tests.core.builders import START, Wire, allocation, evaluation, node_id, runner

_POLICIES: Final = tuple(
    PoolPolicy(disconnect_policy=policy, lost_grace_s=grace_s)
    for policy in ("at-least", "exactly", "leave-alone")
    for grace_s in (0.0, 10.0)
)
_KINDS: Final[tuple[Kind, ...]] = ("runner", "environment")
_ORIGIN: Final = Origin(100, "AllocationUpdated")


def any_facts(chance: Random) -> Facts:
    """A job with up to three allocations and two evaluations, among nodes in any state."""
    pick = chance.choice
    kind = pick(_KINDS)
    job = Job("template-10" if kind == "environment" else runner(0), kind, "10", seen=chance.random() < 0.9)
    job.status = pick(("pending", "running", "dead"))
    job.stop = chance.random() < 0.05
    job.gone = pick((*[None] * 20, "stopped", "purged", "collected", "vanished"))
    job.used = kind == "runner" and chance.random() < 0.3
    job.modify_index, job.version, job.job_modify_index = chance.randrange(100, 110), pick((-1, 0, 1)), 90
    job.stop_after_s = pick((None, 5.0, 60.0))
    job.quiet_since = START - pick((0.0, 5.0, 20.0, 1000.0))
    job.first_seen = START - pick((0.0, 400.0))
    for number in range(pick((0, 1, 1, 1, 2, 3))):
        one = _allocation(chance, f"a{number}", job.id)
        job.allocations[one.data.id] = one
    job.choose_current()
    for number in range(pick((0, 0, 1, 2))):
        job.put_evaluation(_evaluation(chance, f"e{number}", job.id))
    nodes = {}
    for number in range(1, 3):
        status = pick((None, "", "initializing", "ready", "ready", "down", "disconnected", "gone"))
        if status is not None:
            id_ = node_id(number)
            nodes[id_] = Node(id_, status=status, draining=chance.random() < 0.2, since=START - pick((0.0, 8.0, 500.0)))
    return Facts(job, job.current, nodes, pick(_POLICIES), START)


def _allocation(chance: Random, allocation_id: str, job_id: str) -> Allocation:
    pick = chance.choice
    more: Wire = {}
    if chance.random() < 0.2:
        more["NextAllocation"] = "next"
    if chance.random() < 0.2:
        more["PreviousAllocation"] = "previous"
    if chance.random() < 0.2:
        more["DesiredTransition"] = pick(({"Migrate": True}, {"MigrateDisablePlacement": True}, {"Reschedule": True}))
    client = pick(("pending", "running", "running", "complete", "failed", "lost", "unknown", "never heard of"))
    wire = allocation(
        allocation_id,
        job_id,
        client,
        pick(("run", "run", "run", "stop", "evict")),
        index=chance.randrange(91, 110),
        created=chance.randrange(80, 90),
        node=node_id(pick((1, 2))),
        task=pick((None, "pending", "running", "dead")),
        restarts=pick((0, 0, 1)),
        **more,
    )
    if chance.random() < 0.1:
        del wire["TaskStates"]
    since = START - pick((0.0, 8.0, 400.0))
    one = Allocation(_typed(wire, AllocationPayload), _ORIGIN, first_seen=since, since=since)
    one.take(one.data, _ORIGIN)
    one.ran = one.ran or chance.random() < 0.3
    return one


def _evaluation(chance: Random, evaluation_id: str, job_id: str) -> Evaluation:
    status = chance.choice(("pending", "pending", "blocked", "complete", "canceled"))
    delayed: Wire = {"WaitUntil": "2027-01-15T08:01:00Z"} if chance.random() < 0.3 else {}
    wire = evaluation(evaluation_id, job_id, status, index=chance.randrange(95, 115), **delayed)
    return Evaluation(_typed(wire, EvaluationPayload), _ORIGIN, first_seen=START)


def _typed(wire: Wire, kind: type[Any]) -> Any:
    return convert(orjson.loads(orjson.dumps(wire)), kind)
