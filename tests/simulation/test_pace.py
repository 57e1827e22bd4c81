"""Reconcilers that create too much at a time, or run in circles, are noticed."""

from __future__ import annotations

import pytest

from poseidon_reconciler.app.simulation.course import course_of
from poseidon_reconciler.app.simulation.life import Deed, Life
from poseidon_reconciler.app.simulation.pace import PaceWatch, TooFastError
from poseidon_reconciler.app.simulation.scene import cluster_of
from poseidon_reconciler.config import Settings
from poseidon_reconciler.core.ledger import Action, ActionKind
from poseidon_reconciler.policy import PacePolicy

SETTINGS = Settings(pace=PacePolicy(max_creates_per_second=1.0))


class _Place:
    settings = SETTINGS


class _Life:
    name = "R1.1"
    place = _Place()


def deed(at: float, kind: ActionKind = "create-runner") -> Deed:
    life: Life = _Life()  # type: ignore[assignment]
    return Deed(Action(at, kind, "10", "10-a", ""), life, at, 1, 0)


def test_creations_within_the_rate() -> None:
    watch = PaceWatch(cluster_of(course_of(0)))
    one = deed(0.0)
    for second in range(60):
        watch.decided(one.life, [deed(float(second))])


def test_more_creations_than_the_rate_allows() -> None:
    watch = PaceWatch(cluster_of(course_of(0)))
    one = deed(100.0)
    watch.decided(one.life, [deed(100.0)] * 6 + [deed(100.0, "remove-job")] * 20)
    with pytest.raises(TooFastError, match=r"R1\.1 decided on 7 creations within 5 s"):
        watch.decided(one.life, [deed(101.0)])


def test_the_same_thing_again_and_again() -> None:
    cluster = cluster_of(course_of(0))
    watch = PaceWatch(cluster)
    for number in range(6):
        watch.written(deed(0.0), "10-a")
        watch.written(deed(0.0), f"10-{number}")
    with pytest.raises(TooFastError, match="create-runner 10-a was done 7 times within 30 s"):
        watch.written(deed(0.0), "10-a")
    cluster.advance(cluster.now + 31)
    watch.written(deed(0.0), "10-a")
