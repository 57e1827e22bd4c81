"""What a demo's reconciler says of itself, as lines of the feed."""

from __future__ import annotations

from poseidon_reconciler.app.demo.feed import Feed, Kind
from poseidon_reconciler.core.ledger import Action, ActionOutcome
from poseidon_reconciler.core.reconciler import Step


class DemoObserver:
    """Listens to a reconciler.

    Attributes:
        under_way: how many actions were decided on and have not ended.
    """

    def __init__(self, feed: Feed) -> None:
        self.under_way = 0
        self._feed = feed

    def stepped(self, step: Step) -> None:
        """Tells what was decided; what was found lost is told by who judges the cluster itself."""
        for action in step.actions:
            self.under_way += 1
            self._feed.add("decided", action.kind, action.reason, action.job_id)

    def acted(self, action: Action, outcome: ActionOutcome) -> None:
        self.under_way -= 1
        kind: Kind = "done" if outcome.result == "done" else "not-done"
        self._feed.add(kind, f"{action.kind} {outcome.result}", outcome.detail, action.job_id)

    def noted(self, event: str, detail: str) -> None:
        self._feed.add("stream", event, detail)
