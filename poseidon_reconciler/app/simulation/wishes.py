"""What operators want: how each pool is to be kept and how fast, drawn at the beginning and again at each reload."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any, Final

from msgspec import Struct

from poseidon_reconciler.config import NomadSettings, Settings
from poseidon_reconciler.policy import PacePolicy, PoolPolicy
from poseidon_reconciler.twin.poseidon_jobs import Work

SIZES: Final = (0.0, 2.0, 5.0)
"""What somebody may make of a pool's target."""


class PoolPlan(Struct, frozen=True):
    """An environment: its number, the size of its pool, and what its runners do."""

    number: int
    target: int
    work: Work


def settings_of(pools: tuple[PoolPlan, ...], rng: Random) -> Settings:
    """A configuration for these pools."""
    nomad = NomadSettings(resync_interval_s=rng.choice((60.0, 120.0)))
    return reloaded(Settings(nomad=nomad), pools, rng)


def reloaded(settings: Settings, pools: Iterable[PoolPlan], rng: Random) -> Settings:
    """The same configuration with other wishes for the pools."""
    base = PoolPolicy(
        lost_grace_s=rng.choice((2.0, 10.0)),
        settle_s=rng.choice((2.0, 10.0)),
        start_deadline_s=rng.choice((30.0, 60.0)),
        protect=rng.random() < 0.8,
    )
    environments = {str(pool.number): base.model_copy(update=_own_wishes(pool, rng)) for pool in pools}
    pace = PacePolicy(
        storm_window_s=rng.choice((20.0, 60.0)),
        storm_settle_s=rng.choice((5.0, 15.0)),
        storm_max_hold_s=rng.choice((60.0, 120.0)),
        max_starting_per_node=rng.choice((1, 2, 4)),
        max_creates_per_second=rng.choice((1.0, 5.0)),
    )
    return settings.model_copy(update={"pool": base, "pace": pace, "environments": environments})


def _own_wishes(pool: PoolPlan, rng: Random) -> dict[str, Any]:
    wishes: dict[str, Any] = {
        "disconnect_policy": rng.choice(("at-least", "at-least", "exactly", "leave-alone")),
        "surge": rng.choice((0, 0, 1, 2)),
        "surplus": rng.choice(("report", "trim")),
        # Enough for any target, and for hardly more.
        "max_jobs": rng.choice((None, max(pool.target, round(max(SIZES))) + rng.choice((1, 3)))),
    }
    if wishes["disconnect_policy"] == "exactly" and pool.work.stop_after_s is None:
        wishes["stop_after_s"] = rng.choice((None, 15.0))
    return wishes
