"""What was decided about a job is told for as long as the job is remembered, and never grows without end."""

from __future__ import annotations

import pytest

from poseidon_reconciler.core import decisions as module
from poseidon_reconciler.core.decisions import Decisions, Ending
from poseidon_reconciler.core.ledger import Action, ActionOutcome

LOST, NEW = "10-lost", "10-new"
REMOVAL = Action(5.0, "remove-job", "10", LOST, "lost for good: stuck-complete")
CREATION = Action(4.0, "create-runner", "10", NEW, "replaces a runner that is lost", LOST)


def told(decisions: Decisions, job_id: str) -> list[tuple[str, str, str]]:
    return [(each.what(job_id), each.reason, each.became("under way")) for each in decisions.about(job_id)]


def test_what_is_done_about_a_job_is_told_in_order_with_what_takes_its_place() -> None:
    decisions = Decisions()
    decisions.note([REMOVAL, CREATION])
    decisions.ended(REMOVAL, ActionOutcome("not-done", "403"), 6.0)

    assert told(decisions, LOST) == [
        (f"create-runner {NEW} in its place", CREATION.reason, "under way"),
        ("remove-job", REMOVAL.reason, "not-done (403)"),
    ]
    assert told(decisions, NEW) == [("create-runner", CREATION.reason, "under way")]
    assert told(decisions, "10-other") == []
    assert list(decisions.ordered()) == [NEW]


def test_of_each_kind_the_last_decision_counts_and_an_answer_to_an_earlier_one_is_none_to_it() -> None:
    decisions = Decisions()
    again = Action(9.0, "remove-job", "10", LOST, REMOVAL.reason)
    decisions.note([REMOVAL])
    decisions.note([again])
    decisions.ended(REMOVAL, ActionOutcome("unknown", "no answer"), 10.0)
    (decision,) = decisions.about(LOST)
    assert (decision.at, decision.times, decision.outcome) == (9.0, 2, None)

    decisions.ended(again, ActionOutcome("done", ""), 11.0)
    (decision,) = decisions.about(LOST)
    assert decision.outcome == Ending(11.0, "done", "")
    assert told(decisions, LOST) == [("remove-job, 2 times", REMOVAL.reason, "done")]


def test_a_job_that_is_forgotten_leaves_nothing() -> None:
    decisions = Decisions()
    decisions.note([REMOVAL, CREATION])
    decisions.forget(LOST)
    decisions.forget(NEW)

    assert (decisions.about(LOST), decisions.about(NEW), decisions.order_of(NEW)) == ([], [], None)
    assert not any(map(len, vars(decisions).values()))


def test_what_is_ordered_and_never_seen_does_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DECISIONS", 3)
    decisions = Decisions()
    for number in range(10):
        decisions.note([Action(number, "create-runner", "10", f"10-{number}", "", f"10-lost-{number}")])

    assert list(decisions.ordered()) == ["10-7", "10-8", "10-9"]
    assert [len(kept) for kept in vars(decisions).values()] == [3, 3]
