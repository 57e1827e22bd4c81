"""Many who want to know what goes on, told one after the other."""

from __future__ import annotations

from poseidon_reconciler.controller import Observer
from poseidon_reconciler.core.ledger import Action, ActionOutcome
from poseidon_reconciler.core.reconciler import Step


class Observers:
    """An observer that passes everything on."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = list(observers)

    def add(self, observer: Observer) -> None:
        """Tells one more, after the others."""
        self._observers.append(observer)

    def stepped(self, step: Step) -> None:
        for observer in self._observers:
            observer.stepped(step)

    def acted(self, action: Action, outcome: ActionOutcome) -> None:
        for observer in self._observers:
            observer.acted(action, outcome)

    def noted(self, event: str, detail: str) -> None:
        for observer in self._observers:
            observer.noted(event, detail)
