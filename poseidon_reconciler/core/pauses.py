"""What somebody has told us to leave alone: everything or one environment, why, and until when.

While a pause lasts everything is judged and nothing is done, protection included: whoever pauses a tool does not want
to guess which of its deeds are harmless.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from poseidon_reconciler.core.events import Seconds
from poseidon_reconciler.policy import Policy


class Pause(Struct, frozen=True, gc=False):
    """Nothing is done for one environment (None: for any), from `since` until `until` (None: until it is lifted)."""

    environment_id: str | None
    reason: str
    since: Seconds
    until: Seconds | None = None

    def lasts(self, now: float) -> bool:
        """Whether it has not expired."""
        return self.until is None or now < self.until


class Pauses:
    """The pauses of the configuration, and those that were set while running."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._set: dict[str | None, Pause] = {}

    def set(self, pause: Pause) -> None:
        """Begins a pause; it takes the place of an earlier one for the same."""
        self._set[pause.environment_id] = pause

    def lift(self, environment_id: str | None) -> None:
        """Ends a pause that was set while running; those of the configuration end there."""
        self._set.pop(environment_id, None)

    def current(self, now: float) -> list[Pause]:
        """Those that were set while running and last."""
        return [pause for pause in self._set.values() if pause.lasts(now)]

    def configured(self, now: float) -> list[Pause]:
        """Those of the configuration that last: that of every pool, and those of environments that differ from it."""
        pool = self.policy.pool
        found = [Pause(None, pool.pause, 0.0, pool.pause_until)] if pool.pause is not None else []
        for environment_id, policy in self.policy.environments.items():
            if policy.pause is not None and (policy.pause, policy.pause_until) != (pool.pause, pool.pause_until):
                found.append(Pause(environment_id, policy.pause, 0.0, policy.pause_until))
        return [pause for pause in found if pause.lasts(now)]

    def configured_for(self, environment_id: str | None, now: float) -> Pause | None:
        """That of the configuration which an environment is under (of None: every pool); it is of no environment where
        that of every pool applies.
        """
        pool = self.policy.pool
        policy = pool if environment_id is None else self.policy.for_environment(environment_id)
        if policy.pause is None:
            return None
        is_own = (policy.pause, policy.pause_until) != (pool.pause, pool.pause_until)
        pause = Pause(environment_id if is_own else None, policy.pause, 0.0, policy.pause_until)
        return pause if pause.lasts(now) else None

    def of(self, environment_id: str | None, now: float) -> Pause | None:
        """The pause that an environment is under, the longest of them; of None: one that holds for everything."""
        lasting = [pause for pause in self._candidates(environment_id) if pause.lasts(now)]
        return max(lasting, key=lambda pause: pause.until if pause.until is not None else float("inf"), default=None)

    def _candidates(self, environment_id: str | None) -> Iterable[Pause]:
        policy = self.policy.pool if environment_id is None else self.policy.for_environment(environment_id)
        if policy.pause is not None:
            yield Pause(environment_id, policy.pause, 0.0, policy.pause_until)
        for key in {None, environment_id}:
            if (pause := self._set.get(key)) is not None:
                yield pause
