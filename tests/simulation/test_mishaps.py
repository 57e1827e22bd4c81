"""Each kind of mishap by itself: it can be drawn, it happens, and what it breaks is mended."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from poseidon_reconciler.app.simulation.course import course_of
from poseidon_reconciler.app.simulation.mishaps import MISHAPS, Surroundings
from poseidon_reconciler.app.simulation.simulation import simulate
from poseidon_reconciler.app.simulation.stage import Mishap

COURSE = course_of(9)
SURROUNDINGS = Surroundings(
    agents=COURSE.agents,
    servers=COURSE.cluster.servers,
    places=len(COURSE.places),
    environments=tuple(pool.number for pool in COURSE.pools),
)


def drawn(kind: str) -> Mishap:
    mishap = MISHAPS[kind].draw(SURROUNDINGS, Random(kind))
    return replace(mishap, at=COURSE.calm_at / 2, kind=kind, for_s=min(mishap.for_s, COURSE.calm_at / 3))


@pytest.mark.parametrize("kind", MISHAPS)
def test_a_mishap_happens_and_is_mended(kind: str) -> None:
    told: list[str] = []
    mishap = drawn(kind)
    outcome = simulate(replace(COURSE, mishaps=(mishap,)), tell=lambda _, text: told.append(text))
    assert outcome.broken is None, outcome.broken
    assert f"# {mishap}" in told


def test_a_mishap_is_told_in_one_line() -> None:
    assert str(Mishap(16.5, "crash", "1", 33.51, 0.0)) == "16.5 s: crash 1 for 33.5 s (0)"
    assert str(Mishap(2.0, "resize", "10", 0.0, 5.0)) == "2.0 s: resize 10 (5)"
