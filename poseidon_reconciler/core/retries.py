"""Actions that did not come about, and when each may be decided on again.

What fails once mostly fails again at once: a token without rights, a server without a leader. The waits double for each
kind of action of an environment, so that one that cannot succeed costs little, and end with the first success. What
fails together fails once: jobs that are to be protected before the agents return must not wait for each other.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from typing import Final, NamedTuple, get_args

from poseidon_reconciler.core.ledger import Action, ActionKind

_FIRST_WAIT_S: Final = 2.0
_LONGEST_WAIT_S: Final = 120.0
_FIRST_PATIENCE_S: Final = 30.0
_LONGEST_PATIENCE_S: Final = 900.0
_LASTED_S: Final = 300.0


class Patience:
    """How long to wait before something that does not last is tried again: longer each time, until it has lasted."""

    def __init__(self) -> None:
        self._tries: dict[str, int] = {}
        self._tried_at: dict[str, float] = {}
        self._ready_at: dict[str, float] = {}

    def tried(self, key: str, now: float) -> None:
        """It is tried now; the next try waits for what this one's failure costs."""
        self._tried_at[key] = now
        tries = self._tries[key] = self._tries.get(key, 0) + 1
        self._ready_at[key] = now + min(_FIRST_PATIENCE_S * 2 ** min(tries - 1, 30), _LONGEST_PATIENCE_S)

    def ready_at(self, key: str) -> float:
        """From when on it may be tried."""
        return self._ready_at.get(key, 0.0)

    def tried_at(self, key: str) -> float | None:
        """When it was tried last; None if it never was."""
        return self._tried_at.get(key)

    def ended(self, key: str, since: float, now: float) -> None:
        """What had been tried lasted from `since` until now; long enough, and the next failure is a first one again."""
        if now - since >= _LASTED_S:
            self.forget(key)

    def forget(self, key: str) -> None:
        """The next try is a first one."""
        self._tries.pop(key, None)
        self._tried_at.pop(key, None)
        self._ready_at.pop(key, None)


class Waiting(NamedTuple):
    """A failed action that may be decided on again at `until`."""

    until: float
    order: int
    action: Action
    detail: str
    failed_at: float


class Retries:
    """The failed actions that wait."""

    def __init__(self) -> None:
        self._waiting: list[Waiting] = []
        # How often it failed, and until when another failure counts as the same one.
        self._failures: dict[tuple[str, ActionKind], tuple[int, float]] = {}
        self._order = itertools.count()

    def failed(self, action: Action, detail: str, now: float) -> None:
        """Lets an action wait before it may be decided on again."""
        key = (action.environment_id, action.kind)
        failures, same_until = self._failures.get(key, (0, now))
        is_another = now >= same_until
        failures += is_another
        wait_s = min(_FIRST_WAIT_S * 2 ** min(failures - 1, 30), _LONGEST_WAIT_S)
        if is_another:
            self._failures[key] = (failures, now + wait_s)
        heapq.heappush(self._waiting, Waiting(now + wait_s, next(self._order), action, detail, now))

    def succeeded(self, action: Action) -> None:
        """The next failure of this kind in this environment is a first one again."""
        self._failures.pop((action.environment_id, action.kind), None)

    def forget_environment(self, environment_id: str) -> None:
        """The environment is no longer remembered; what waits there still comes due."""
        for kind in get_args(ActionKind):
            self._failures.pop((environment_id, kind), None)

    def due(self, now: float) -> Iterator[Waiting]:
        """Takes out the actions that have waited long enough."""
        while self._waiting and self._waiting[0].until <= now:
            yield heapq.heappop(self._waiting)

    def next_at(self) -> float | None:
        """When the next will have waited long enough."""
        return self._waiting[0].until if self._waiting else None

    def waiting(self) -> list[Waiting]:
        """What waits, the next first."""
        return sorted(self._waiting)
