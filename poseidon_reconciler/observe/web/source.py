"""What the page and the API look at, and the one thing that they may ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from poseidon_reconciler.core.pauses import Pause
from poseidon_reconciler.core.reconciler import Reconciler
from poseidon_reconciler.core.shadow import Shadow
from poseidon_reconciler.observe.drift import PoseidonView


class Pausing(Protocol):
    """Changes what is left alone. Each answer: whether that is kept over a restart."""

    def pause(self, pause: Pause) -> bool:
        """Has something left alone from now on."""
        ...

    def resume(self, environment_id: str | None) -> bool:
        """Ends a pause that was set while running."""
        ...


@dataclass(frozen=True, slots=True)
class Source:
    """A reconciler, to be read from its own event loop and never across a wait.

    Attributes:
        core: what it knows.
        clock: its time, in seconds since the epoch.
        is_synced: whether its model is complete and fresh.
        trouble: what keeps its loop from turning; None if it turns.
        shadow: the score of a dry run; None where things are really done.
        poseidon: what the Poseidon beside it believes; None where nobody asks that.
    """

    core: Reconciler
    clock: Callable[[], float]
    is_synced: Callable[[], bool]
    trouble: Callable[[], str | None]
    shadow: Shadow | None = None
    poseidon: Callable[[], PoseidonView | None] = lambda: None
