"""What the reconciler says of itself."""

from __future__ import annotations

from poseidon_reconciler.app.demo.feed import Feed
from poseidon_reconciler.app.demo.observer import DemoObserver
from poseidon_reconciler.core.ledger import Action, ActionOutcome
from poseidon_reconciler.core.reconciler import Step

ACTION = Action(1.0, "create-runner", "10", "10-a", "the pool is short")


def test_an_action_is_under_way_until_it_ends() -> None:
    feed = Feed(lambda: 1.0, 1.0)
    observer = DemoObserver(feed)
    observer.stepped(Step(1.0, [], [ACTION, ACTION], []))
    assert observer.under_way == 2
    observer.acted(ACTION, ActionOutcome("done", "registered"))
    observer.acted(ACTION, ActionOutcome("not-wanted", "it is gone"))
    assert observer.under_way == 0
    assert [(entry.kind, entry.line()) for entry in feed.entries] == [
        ("decided", "create-runner × 2: the pool is short"),
        ("done", "create-runner done 10-a: registered"),
        ("not-done", "create-runner not-wanted 10-a: it is gone"),
    ]


def test_what_happens_to_the_stream_is_told() -> None:
    feed = Feed(lambda: 1.0, 1.0)
    DemoObserver(feed).noted("stream-closed", "cut")
    assert [(entry.kind, entry.line()) for entry in feed.entries] == [("stream", "stream-closed: cut")]
