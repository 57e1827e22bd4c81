"""How a demo ended."""

from __future__ import annotations

from msgspec.structs import replace

from poseidon_reconciler.app.demo.outcome import Outcome
from poseidon_reconciler.core.status import EnvironmentRow

ROW = EnvironmentRow(
    state="active", cause=None, rule="running", target=4, idle=4, used=0, starting=0, recovering=0, blocked=0,
    disconnected=0, leaving=0, lost=0, deficit=0, surplus=0,
)  # fmt: skip
GOOD = Outcome(
    scenario="restart-together", reconciled=True, environments={"10": ROW}, lost=0, protected=5, created=3,
    removed=2, trimmed=4, revived=1, time_to_target_s=56.8, after_last_step_s=36.8, promises_broken=[], purged=3,
    ordered_by_alert=0, refused=0,
    peak_starting=2,
)  # fmt: skip
SHORT = replace(
    GOOD,
    environments={"10": replace(ROW, state="lost", cause="stuck-complete", idle=1)},
    time_to_target_s=None,
    after_last_step_s=None,
)


def text(outcome: Outcome) -> str:
    return "\n".join(outcome.sentences())


def test_the_document_has_the_keys_of_the_contract() -> None:
    document = GOOD.document()
    assert list(document) == [
        "scenario", "environments", "lost", "protected", "created", "removed", "revived", "time_to_target_s",
        "promises_broken",
    ]  # fmt: skip
    assert list(document["environments"]["10"]) == [
        "state", "cause", "rule", "target", "idle", "used", "starting", "recovering", "blocked", "disconnected",
        "leaving", "lost", "deficit", "surplus",
    ]  # fmt: skip


def test_it_is_good_if_the_pools_are_back_and_every_promise_was_kept() -> None:
    assert GOOD.is_good
    assert not SHORT.is_good
    assert not replace(GOOD, promises_broken=["one"]).is_good


def test_the_sentences_of_a_recovery() -> None:
    assert text(GOOD).splitlines() == [
        "The pools were full again 56.8s after the failure began, 36.8s after its last step.",
        "Dead for good: 0. Deleted by Poseidon with their allocation: 3.",
        "The reconciler protected 5, created 3, revived 1 and removed 2.",
        "It stopped 4 idle runners above the targets.",
        "At most 2 new runners, whoever ordered them, were starting on one node.",
    ]


def test_without_a_reconciler_nothing_is_said_of_it() -> None:
    assert "reconciler" not in text(replace(GOOD, reconciled=False))


def test_pools_that_were_never_short() -> None:
    assert text(replace(GOOD, time_to_target_s=0.0)).startswith("The pools were full all the time.")


def test_pools_that_are_not_back_are_told_one_by_one() -> None:
    assert text(SHORT).startswith(
        "The pools are not back: environment 10 is lost (stuck-complete) and has 1 of 4 idle runners."
    )


def test_what_the_flood_was() -> None:
    told = text(replace(SHORT, ordered_by_alert=36, refused=3, peak_starting=12, promises_broken=["a", "b"]))
    assert "Poseidon's alert ordered 36 runners at once." in told
    assert "Learners who found no idle runner while it failed: 3." in told
    assert "At most 12 new runners, whoever ordered them, were starting on one node." in told
    assert "Promises broken: a; b." in told
