"""How long to wait before the next attempt to connect: longer after each failure, never nothing, never for long.

Many instances lose the same server at the same moment; without chance in it they would all return at the same
moment too. The chance is handed in, so that a test or a simulation gets the same waits each time.
"""

from __future__ import annotations

from collections.abc import Callable


class Backoff:
    """Doubling waits, each between half and the whole of its bound.

    Args:
        base_s: the bound of the first wait.
        cap_s: what no wait exceeds.
        chance: gives numbers from 0 up to 1.
    """

    def __init__(self, *, base_s: float, cap_s: float, chance: Callable[[], float]) -> None:
        self._base_s = base_s
        self._cap_s = cap_s
        self._chance = chance
        self._bound_s = base_s

    def next_s(self) -> float:
        """The wait after one more failure, in seconds."""
        bound_s = self._bound_s
        self._bound_s = min(self._cap_s, 2 * bound_s)
        return bound_s * (0.5 + 0.5 * self._chance())

    def reset(self) -> None:
        """What was tried has worked for a good while: the next failure is a first one."""
        self._bound_s = self._base_s
