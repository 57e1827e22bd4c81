"""How everything stands at this moment, in the numbers that every view shows: pages, terminals, metrics and JSON."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from poseidon_reconciler.core.reconciler import Reconciler

POOL_STATES: Final = (
    "idle", "used", "starting", "recovering", "blocked", "disconnected", "leaving", "lost"
)  # fmt: skip


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
