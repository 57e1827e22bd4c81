"""What the edges tell of themselves to whoever traces them: what is read and done begins here, and ends here."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from poseidon_reconciler.core.ledger import Action, ActionOutcome
from poseidon_reconciler.nomad.transport import RequestReport


class Acting(Protocol):
    """An action that is being carried out."""

    @property
    def trace_id(self) -> str | None:
        """The trace in which it is told, to be stamped into what it registers; None: it is not traced."""
        ...

    def ended(self, outcome: ActionOutcome) -> None: ...


class Tracing(Protocol):
    """Must not block and must not raise."""

    def acting(self, action: Action) -> AbstractContextManager[Acting]:
        """Around an action; requests in between are its own."""
        ...

    def listing(self) -> AbstractContextManager[None]:
        """Around a reading of the lists."""
        ...

    def asked(self, report: RequestReport) -> None:
        """A request was answered, or given up."""
        ...


class Untraced:
    """Where nobody traces."""

    trace_id: str | None = None

    def acting(self, action: Action) -> AbstractContextManager[Acting]:
        del action
        return nullcontext(self)

    def listing(self) -> AbstractContextManager[None]:
        return nullcontext()

    def asked(self, report: RequestReport) -> None: ...

    def ended(self, outcome: ActionOutcome) -> None: ...
