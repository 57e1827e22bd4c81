"""How long pools are short: what is lacking summed over time, and the time until a pool is full again.

A shortage begins with the first deficit. It does not end when the missing runners are ordered, which is nothing to a
learner yet, but when as many stand ready as the environment asks for, whoever created them.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from poseidon_reconciler.core.reconciler import Reconciler


class Pool(Struct):
    """One environment's account: what it lacks since `counted_at`, what it has lacked up to then, and since when."""

    deficit: int
    counted_at: float
    runner_seconds: float = 0.0
    short_since: float | None = None

    def lacked(self, now: float) -> float:
        """Runner-seconds lacked up to now."""
        return self.runner_seconds + self.deficit * max(0.0, now - self.counted_at)

    def age_s(self, now: float) -> float:
        """How long the present shortage has lasted."""
        return max(0.0, now - self.short_since) if self.short_since is not None else 0.0


class Shortages:
    """The accounts of all environments that there are.

    Attributes:
        pools: by environment id.
    """

    def __init__(self, refilled: Callable[[float], None]) -> None:
        """`refilled` is told how long a shortage lasted, in seconds, when it ends."""
        self.pools: dict[str, Pool] = {}
        self._refilled = refilled

    def look(self, core: Reconciler, environment_id: str, now: float) -> None:
        """Takes note of how a pool stands now."""
        standing = core.diagnosis.pools.get(environment_id)
        if standing is None:
            self.pools.pop(environment_id, None)
            return
        target = core.planner.desk.target(environment_id)
        deficit = core.planner.deficit(environment_id)
        self._note(environment_id, deficit, full=standing.count("idle") >= (target or 0), now=now)

    def look_at_all(self, core: Reconciler, now: float) -> None:
        """Takes note of all pools, and forgets those that are no more."""
        for environment_id in {*self.pools, *core.diagnosis.pools}:
            self.look(core, environment_id, now)

    def _note(self, environment_id: str, deficit: int, *, full: bool, now: float) -> None:
        pool = self.pools.get(environment_id)
        if pool is None:
            pool = self.pools[environment_id] = Pool(0, now)
        pool.runner_seconds = pool.lacked(now)
        pool.counted_at = max(now, pool.counted_at)
        pool.deficit = deficit
        if deficit and pool.short_since is None:
            pool.short_since = now
        elif full and not deficit and pool.short_since is not None:
            self._refilled(pool.age_s(now))
            pool.short_since = None
