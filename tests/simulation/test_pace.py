"""Reconcilers that create too much at a time, or run in circles, are noticed."""

from __future__ import annotations

import pytest

from poseidon_reconciler.app.simulation.course import course_of
from poseidon_reconciler.app.simulation.life import Deed, Life
from poseidon_reconciler.app.simulation.pace import PaceWatch, TooFastError
from poseidon_reconciler.app.simulation.scene import cluster_of
from poseidon_reconciler.core.ledger import Action, ActionKind
from poseidon_reconciler.policy import PacePolicy, Policy

SLOW = Policy(pace=PacePolicy(max_creates_per_second=1.0))


class _Life:
    name = "R1.1"


LIFE: Life = _Life()  # type: ignore[assignment]
OTHER: Life = _Life()  # type: ignore[assignment]


def deed(at: float, kind: ActionKind = "create-runner", policy: Policy = SLOW) -> Deed:
    return Deed(Action(at, kind, "10", "10-a", ""), LIFE, at, 1, 0, policy)


def test_creations_within_the_rate() -> None:
    watch = PaceWatch(cluster_of(course_of(0)))
    for second in range(60):
        watch.decided(LIFE, [deed(float(second))])


def test_more_creations_than_the_rate_allows() -> None:
    watch = PaceWatch(cluster_of(course_of(0)))
    watch.decided(LIFE, [deed(100.0)] * 6 + [deed(100.0, "remove-job")] * 20)
    with pytest.raises(TooFastError, match=r"R1\.1 decided on 7 creations within 5 s"):
        watch.decided(LIFE, [deed(101.0)])


def test_stops_have_the_same_rate_of_their_own() -> None:
    watch = PaceWatch(cluster_of(course_of(0)))
    watch.decided(LIFE, [deed(100.0)] * 6 + [deed(100.0, "stop-surplus")] * 6)
    with pytest.raises(TooFastError, match=r"R1\.1 decided on 7 stops within 5 s"):
        watch.decided(LIFE, [deed(101.0, "stop-surplus")])


def test_a_rate_that_was_lowered_holds_from_then_on() -> None:
    watch = PaceWatch(cluster_of(course_of(0)))
    watch.decided(LIFE, [deed(100.0, policy=Policy())] * 20 + [deed(104.0)])
    with pytest.raises(TooFastError, match="within 5 s"):
        watch.decided(LIFE, [deed(110.0)] * 7)


def test_the_same_thing_again_and_again() -> None:
    cluster = cluster_of(course_of(0))
    watch = PaceWatch(cluster)
    for number in range(6):
        watch.written(deed(0.0), "10-a")
        watch.written(deed(0.0), f"10-{number}")
        watch.written(Deed(deed(0.0).action, OTHER, 0.0, 1, 0, SLOW), "10-a")
    with pytest.raises(TooFastError, match="create-runner 10-a was done 7 times within 30 s"):
        watch.written(deed(0.0), "10-a")
    cluster.advance(cluster.now + 31)
    watch.written(deed(0.0), "10-a")


def test_creations_that_waited_and_are_begun_together() -> None:
    cluster = cluster_of(course_of(0))
    watch = PaceWatch(cluster)
    for second in range(20):
        watch.decided(LIFE, [deed(float(second))])
    for _ in range(6):
        watch.begun(LIFE, deed(0.0))
        watch.begun(LIFE, deed(0.0, "stop-surplus"))
    with pytest.raises(TooFastError, match=r"R1\.1 began 7 creations within 5 s"):
        watch.begun(LIFE, deed(0.0))
