"""Whether surplus is stopped only where somebody wants it, only what nobody uses, and never below the target.

Poseidon claims a runner in memory and marks it a moment later; what was claimed so nobody can know. Whoever has been
told of a claim has to expect the next one.
"""

from __future__ import annotations

from typing import Final

from poseidon_reconciler.app.simulation.broken import BrokenError
from poseidon_reconciler.app.simulation.life import Deed, Life
from poseidon_reconciler.app.simulation.truth import NAMESPACE, Standing, Truth
from poseidon_reconciler.core.ledger import Action
from poseidon_reconciler.twin.cluster import Cluster

_AT_ONCE: Final = 2


class TrimWatch:
    """Watches what all reconcilers stop as surplus."""

    def __init__(self, cluster: Cluster, truth: Truth) -> None:
        self._cluster = cluster
        self._truth = truth
        self._under_way: dict[Action, Life] = {}
        # Who has stopped which runner.
        self._stopped: dict[str, str] = {}

    def decided(self, deed: Deed) -> None:
        """A reconciler wants to stop a runner. Raises `BrokenError`."""
        action = deed.action
        environment = action.environment_id
        if deed.policy.for_environment(environment).surplus != "trim":
            raise BrokenError(2, f"{action.job_id} is to be stopped although surplus is only to be reported")
        self._under_way[action] = deed.life
        running = [
            other.job_id
            for other, life in self._under_way.items()
            if life is deed.life and other.environment_id == environment and self._is_free(other.job_id)
        ]
        if len(running) > _AT_ONCE:
            raise BrokenError(6, f"{deed.life.name} stops {len(running)} runners of {environment} at once")

    def ended(self, action: Action) -> None:
        """An action has an outcome."""
        self._under_way.pop(action, None)

    def stopped(self, job_id: str, deed: Deed, before: Standing | None, epoch: int) -> None:
        """A runner was stopped as surplus, which had that standing. Raises `BrokenError`."""
        environment = deed.action.environment_id
        self._stopped[job_id] = deed.life.place.name
        if before is None or before.used:
            raise BrokenError(2, f"{job_id} was stopped as surplus while it was in use")
        if deed.epoch != epoch:
            return
        left = self._truth.history.free_until.get(environment, {})
        if not before.idle and left.get((NAMESPACE, job_id), 0) <= deed.seen_index:
            raise BrokenError(2, f"{job_id} was stopped as surplus although it was not idle")
        self._check_claims(job_id, deed)
        target = self._truth.lowest_target(environment, deed.seen_index)
        idle = 1 + self._idle_beside(job_id, deed)
        if idle <= target:
            raise BrokenError(3, f"{job_id} was stopped as surplus where {idle} were idle and {target} are wanted")

    def _check_claims(self, job_id: str, deed: Deed) -> None:
        environment = deed.action.environment_id
        settle_s = deed.policy.for_environment(environment).settle_s
        for index, at in self._truth.history.claims.get(environment, ()):
            told = index <= deed.seen_index and at > deed.life.place.clock_set_at
            if told and deed.at - at < settle_s:
                raise BrokenError(2, f"{job_id} was stopped as surplus {deed.at - at:.1f} s after a claim")

    def _idle_beside(self, job_id: str, deed: Deed) -> int:
        """How many others were idle, by all that could be known when it was decided."""
        environment = deed.action.environment_id
        known = {key[1] for key, standing in self._truth.runners(environment) if standing.free}
        for key, index in self._truth.history.free_until.get(environment, {}).items():
            if index > deed.seen_index and self._stopped.get(key[1]) != deed.life.place.name:
                known.add(key[1])
        return len(known - {job_id})

    def _is_free(self, job_id: str) -> bool:
        standing = self._truth.jobs.get((NAMESPACE, job_id))
        return standing is not None and standing.free
