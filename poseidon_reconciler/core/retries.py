"""Actions that did not come about, and when each may be decided on again.

What fails once mostly fails again at once: a token without rights, a server without a leader. The waits double for each
kind of action of an environment, so that one that cannot succeed costs little, and end with the first success.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from typing import Final

from poseidon_reconciler.core.ledger import Action, ActionKind

_FIRST_WAIT_S: Final = 2.0
_LONGEST_WAIT_S: Final = 120.0


class Retries:
    """The failed actions that wait."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, int, Action, str, bool]] = []
        self._failures: dict[tuple[str, ActionKind], int] = {}
        self._order = itertools.count()

    def failed(self, action: Action, detail: str, now: float, *, repeat: bool) -> None:
        """Lets an action wait before it may be decided on again, or is to be repeated as it was."""
        key = (action.environment_id, action.kind)
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        wait_s = min(_FIRST_WAIT_S * 2 ** min(failures - 1, 30), _LONGEST_WAIT_S)
        heapq.heappush(self._waiting, (now + wait_s, next(self._order), action, detail, repeat))

    def succeeded(self, action: Action) -> None:
        """The next failure of this kind in this environment is a first one again."""
        self._failures.pop((action.environment_id, action.kind), None)

    def due(self, now: float) -> Iterator[tuple[Action, bool]]:
        """Takes out the actions that have waited long enough, each with whether it is to be repeated as it was."""
        while self._waiting and self._waiting[0][0] <= now:
            _, _, action, _, repeat = heapq.heappop(self._waiting)
            yield action, repeat

    def next_at(self) -> float | None:
        """When the next will have waited long enough."""
        return self._waiting[0][0] if self._waiting else None

    def waiting(self) -> list[tuple[Action, str, float]]:
        """What waits, why, and until when."""
        return [(action, detail, until) for until, _, action, detail, _ in sorted(self._waiting)]
