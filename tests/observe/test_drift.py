"""Poseidon's numbers beside the truth: what is a lag, and what is not."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from poseidon_reconciler.core.status import EnvironmentRow
from poseidon_reconciler.observe.drift import PATIENCE, DriftWatch, Statistics, drift_of

ROW = EnvironmentRow(
    state="active", cause=None, rule="active", target=3, idle=3, used=0, starting=0, recovering=0, blocked=0,
    disconnected=0, leaving=0, lost=0, deficit=0, surplus=0,
)  # fmt: skip


def believes(idle: int, used: int = 0, size: int = 3, id_: int = 10) -> dict[str, Statistics]:
    return {str(id_): Statistics(id_, size, idle, used)}


def answers(watch: DriftWatch, *believed: int | None, true: int = 3, at: float = 0.0) -> list[str]:
    """What was told while Poseidon answered with these numbers of idle runners, one answer each 30 s."""
    told = []
    for number, idle in enumerate(believed):
        given = believes(idle) if idle is not None else {}
        rows = {"10": replace(ROW, idle=true)}
        told += [f"{note.event}: {note.detail}" for note in watch.answered(given, rows, at + 30 * number)]
    return told


@pytest.mark.parametrize(
    ("believed", "numbers", "drift"),
    [
        (3, {}, None),
        (5, {}, "too-many-idle"),
        (1, {}, "too-few-idle"),
        (None, {}, "unknown-environment"),
        (None, {"state": "lost", "idle": 0}, "unknown-environment"),
        (None, {"state": "stopped", "idle": 0}, None),
    ],
)
def test_in_what_they_differ(believed: int | None, numbers: dict[str, Any], drift: str | None) -> None:
    statistics = believes(believed)["10"] if believed is not None else None

    assert drift_of(statistics, replace(ROW, **numbers)) == drift


def test_a_difference_is_told_once_when_it_lasts_and_when_it_is_over() -> None:
    watch = DriftWatch()

    assert answers(watch, *[5] * PATIENCE) == []
    early = watch.view.environments["10"]
    assert answers(watch, 5, 5, 5) == [
        "poseidon-drift: environment 10: Poseidon believes in 5 idle runners, 3 are",
    ]
    late = watch.view.environments["10"]
    assert answers(watch, 3, 3) == ["poseidon-agrees: environment 10: 3 idle runners"]
    assert watch.view.environments["10"].drift is None
    assert (early.lasting, late.lasting) == (False, True)


def test_a_lag_is_not_told() -> None:
    watch = DriftWatch()

    assert answers(watch, *[5, 5, 5, 3, 1, 1, 1, 5, 5, 5, 3] * 3) == []


def test_since_when_they_differ_is_known_from_the_first_answer_on() -> None:
    watch = DriftWatch()
    answers(watch, 3, 1, 1, at=1000.0)

    view = watch.view.environments["10"]
    assert (view.drift, view.since, view.lasting) == ("too-few-idle", 1030.0, False)


def test_an_environment_that_poseidon_does_not_know_is_told() -> None:
    watch = DriftWatch()

    assert answers(watch, *[None] * 4) == [
        "poseidon-drift: environment 10: Poseidon does not know it; 3 of 3 runners are idle"
    ]
    assert watch.view.environments["10"].believed is None


def test_a_pool_of_which_nomad_has_nothing_is_told() -> None:
    watch = DriftWatch()
    told = [watch.answered(believes(2, id_=7), {"10": ROW}, at)[-1:] for at in (0.0, 1.0, 2.0, 3.0)]

    assert list(watch.view.environments) == ["7", "10"]
    assert [[note.detail for note in each] for each in told][-1] == [
        "environment 10: Poseidon does not know it; 3 of 3 runners are idle"
    ]
    assert watch.view.environments["7"].drift == "too-many-idle"


def test_an_environment_that_poseidon_has_elsewhere_is_none_of_ours() -> None:
    watch = DriftWatch()
    watch.answered({**believes(3), **believes(1, size=0, id_=11)}, {"10": ROW}, 0.0)

    assert list(watch.view.environments) == ["10"]


def test_a_failure_keeps_what_was_known() -> None:
    watch = DriftWatch()
    answers(watch, 3, at=5.0)
    watch.failed("answers 500")

    assert (watch.view.at, watch.view.problem) == (5.0, "answers 500")
    assert watch.view.environments["10"].believed == Statistics(10, 3, 3, 0)
    answers(watch, 3, at=9.0)
    assert (watch.view.at, watch.view.problem) == (9.0, None)


def test_what_is_gone_is_forgotten() -> None:
    watch = DriftWatch()
    watch.created("10", "10-a")
    answers(watch, 1, 1)
    watch.answered({}, {}, 100.0)

    assert watch.view.environments == {}
    assert not watch._seen
    assert not watch._adoptions


# --- adoption ---------------------------------------------------------------------------------------------------------


def test_a_runner_of_ours_that_poseidon_counts_is_adopted() -> None:
    watch = DriftWatch()
    watch.created("10", "10-a")

    assert answers(watch, 2, true=2) == []
    watch.changed("10", "10-a", "idle")
    assert answers(watch, 3) == ["poseidon-adopted: environment 10: 1 runner of ours"]
    view = watch.view.environments["10"]
    assert (view.waiting, view.adopted, view.not_adopted) == (0, 1, 0)


def test_a_runner_of_ours_that_is_used_is_adopted() -> None:
    watch = DriftWatch()
    watch.created("10", "10-a")
    watch.changed("10", "10-a", "used")

    assert answers(watch, 0)[:1] == ["poseidon-adopted: environment 10: 1 runner of ours"]


def test_a_runner_of_ours_that_poseidon_leaves_out_for_long_is_not_adopted() -> None:
    watch = DriftWatch()
    watch.created("10", "10-a")
    watch.changed("10", "10-a", "idle")

    assert answers(watch, 2, 2, 2) == []
    assert watch.view.environments["10"].waiting == 1
    assert "poseidon-not-adopted: environment 10: 1 runner of ours" in answers(watch, 2)
    assert watch.view.environments["10"].not_adopted == 1


def test_of_several_as_many_are_adopted_as_must_be() -> None:
    watch = DriftWatch()
    for name in "abc":
        watch.created("10", f"10-{name}")
        watch.changed("10", f"10-{name}", "idle")

    answers(watch, 2)
    view = watch.view.environments["10"]
    assert (view.waiting, view.adopted) == (1, 2)


def test_what_dies_before_is_neither() -> None:
    watch = DriftWatch()
    watch.created("10", "10-a")
    watch.changed("10", "10-a", "lost")
    answers(watch, 2, 2, 2, 2, 2)

    view = watch.view.environments["10"]
    assert (view.waiting, view.adopted, view.not_adopted) == (0, 0, 0)


def test_runners_of_others_are_of_no_interest() -> None:
    watch = DriftWatch()
    watch.created("10", "10-a")
    for number in range(100):
        watch.changed("10", f"10-{number}", "idle")
        watch.changed("11", f"11-{number}", "idle")
    answers(watch, 3)

    assert watch.view.environments["10"].waiting == 1
