"""What the page and the API look at, and the one thing that they may ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from poseidon_reconciler.core.pauses import Pause
from poseidon_reconciler.core.reconciler import Reconciler


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
        is_alive: whether its loop is at work.
        dry_run: whether it writes nothing.
    """

    core: Reconciler
    clock: Callable[[], float]
    is_synced: Callable[[], bool]
    is_alive: Callable[[], bool]
    dry_run: bool = False
