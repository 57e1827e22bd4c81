"""Who asks Nomad at this moment: the action or the reading of lists on whose behalf a request is made.

Requests are made deep below, by code that knows nothing of traces; who they belong to stands in the context of the task
that makes them, and in those of the tasks that it begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Protocol

from poseidon_reconciler.observe.telemetry.calls import Call


class Asker(Protocol):
    def asked(self, call: Call, at: float) -> None:
        """One of its requests ended."""
        ...


_ASKER: Final[ContextVar[Asker | None]] = ContextVar("asker", default=None)


@contextmanager
def asking(asker: Asker) -> Iterator[None]:
    """Whatever is asked in here is asked by `asker`."""
    token = _ASKER.set(asker)
    try:
        yield
    finally:
        _ASKER.reset(token)


def asked(call: Call, at: float) -> None:
    """A request of the present task ended."""
    if (asker := _ASKER.get()) is not None:
        asker.asked(call, at)
