"""How everything stands at this moment, in the numbers that every view shows: pages, terminals, metrics and JSON."""

from __future__ import annotations

from collections import Counter
from typing import Final

from msgspec import Struct

from poseidon_reconciler.core.reconciler import Reconciler
from poseidon_reconciler.core.records import Job

POOL_STATES: Final = (
    "idle", "used", "starting", "recovering", "blocked", "disconnected", "leaving", "lost"
)  # fmt: skip

# A used runner that lives and one that is lost are told on their own.
_MAY_COUNT: Final = tuple(state for state in POOL_STATES if state not in ("used", "lost"))


class EnvironmentRow(Struct, frozen=True):
    """An environment, by the names of the contract."""

    state: str
    cause: str | None
    rule: str
    target: int | None
    idle: int
    used: int
    starting: int
    recovering: int
    blocked: int
    disconnected: int
    leaving: int
    lost: int
    deficit: int
    surplus: int


class NodeRow(Struct, frozen=True):
    """A node, and the runners that stand on it by their state. `status` is Nomad's; empty if nothing is known of it."""

    id: str
    name: str
    status: str
    draining: bool
    since: float
    runners: dict[str, int]


def environment_rows(core: Reconciler) -> dict[str, EnvironmentRow]:
    """How each environment stands, by its id, in the order of their numbers."""
    return {id_: _environment_row(core, id_) for id_ in sorted(core.diagnosis.pools, key=int)}


def target_of(core: Reconciler, environment_id: str) -> int | None:
    """The target of a pool by its environment's own job, whether it is kept or not; None if it is unknown."""
    environment = core.model.environments.get(environment_id)
    template = environment.template if environment is not None else None
    return template.target if template is not None else None


def _environment_row(core: Reconciler, environment_id: str) -> EnvironmentRow:
    pool = core.diagnosis.pools[environment_id]
    state, rule, cause = core.diagnosis.environment_state(environment_id)
    target = target_of(core, environment_id)
    return EnvironmentRow(
        state=state,
        cause=cause,
        rule=rule,
        target=target,
        **dict(zip(POOL_STATES, map(pool.count, POOL_STATES), strict=True)),
        deficit=core.planner.deficit(environment_id),
        surplus=max(0, pool.counting - target) if target is not None else 0,
    )


def on_their_way(core: Reconciler, environment_id: str) -> dict[str, int]:
    """How many runners besides the idle ones count towards an environment's target, by state; `expected` are those that
    we ordered and that were not seen yet. What the target lacks beyond them and the idle ones is the deficit.
    """
    counted = core.diagnosis.pools[environment_id].counted
    numbers = {state: counted.get(state, 0) for state in POOL_STATES if state != "idle"}
    numbers["expected"] = core.planner.ledger.expected_in(environment_id)
    return {state: number for state, number in numbers.items() if number}


def not_counting(core: Reconciler, environment_id: str) -> dict[str, int]:
    """How many runners that are neither `used` nor `lost` do not count towards an environment's target, by state: used
    ones that wait or recover, and those that the disconnect policy leaves out.
    """
    pool = core.diagnosis.pools[environment_id]
    numbers = {state: pool.count(state) - pool.counted.get(state, 0) for state in _MAY_COUNT}
    return {state: number for state, number in numbers.items() if number}


def at_risk_counts(core: Reconciler) -> Counter[str]:
    """How many jobs of each environment are at risk, its own job too."""
    return Counter(job.environment_id for job in core.diagnosis.at_risk.values())


def node_rows(core: Reconciler) -> list[NodeRow]:
    """How each node stands, by name. Work for each runner: not to be asked for all the time."""
    runners: dict[str, Counter[str]] = {}
    for job_id, verdict in core.diagnosis.verdicts.items():
        job = core.model.jobs[job_id]
        if job.kind == "runner" and verdict.state != "gone" and job.current is not None:
            runners.setdefault(job.current.data.node_id, Counter())[verdict.state] += 1
    rows = [
        NodeRow(node.id, node.name or node.id, node.status, node.draining, node.since, dict(runners.get(node.id, ())))
        for node in core.model.nodes.values()
        if node.status or node.id in runners
    ]
    return sorted(rows, key=lambda row: (row.name, row.id))


def node_of(core: Reconciler, job: Job) -> str | None:
    """The name of the node on which a job's current allocation stands, or stood; None if it was never placed."""
    if job.current is None or not job.current.data.node_id:
        return None
    node = core.model.nodes.get(job.current.data.node_id)
    return (node.name if node is not None else "") or job.current.data.node_id
