"""What can become of a request, under each kind of trouble."""

from __future__ import annotations

from random import Random
from typing import get_args

import pytest

from poseidon_reconciler.app.simulation.course import course_of
from poseidon_reconciler.app.simulation.endpoint import Tables
from poseidon_reconciler.app.simulation.scene import cluster_of
from poseidon_reconciler.app.simulation.weather import Fate, Trouble, TroubleKind, Weather
from poseidon_reconciler.nomad.transport import Request

READ = Request("get", "jobs", ())
WRITE = Request("post", "jobs", ())


def weather(*troubles: Trouble) -> Weather:
    made = Weather(Random(1), "server-1")
    for trouble in troubles:
        made.begin(trouble)
    return made


def fate(kind: TroubleKind, request: Request = WRITE, **fields: float) -> Fate:
    return weather(Trouble(kind, **fields)).fate_of(request)  # type: ignore[arg-type]


def test_fair_weather() -> None:
    fair = weather().fate_of(WRITE)
    assert fair.reaches
    assert fair.answered
    assert not fair.refused
    assert fair.out_s + fair.back_s < 0.1


@pytest.mark.parametrize(
    ("kind", "reaches", "answered"),
    [
        ("refused", False, True),
        ("error", False, True),
        ("error-after", True, True),
        ("lost-before", False, False),
        ("lost-after", True, False),
        ("garbled", True, True),
        ("slow", True, True),
        ("lag", True, True),
    ],
)
def test_whether_it_is_done_and_whether_anybody_says_so(kind: TroubleKind, reaches: bool, answered: bool) -> None:
    struck = fate(kind, delay_s=8.0)
    assert (struck.reaches, struck.answered) == (reaches, answered)


def test_only_reads_are_answered_from_old_tables() -> None:
    tables = Tables(cluster_of(course_of(0)), admitted=True)
    assert "stale" in get_args(TroubleKind)
    assert weather(Trouble("stale", tables=tables)).fate_of(READ).tables is tables
    assert weather(Trouble("stale", tables=tables)).fate_of(WRITE).tables is None


def test_a_trouble_ends() -> None:
    trouble = Trouble("lag", delay_s=2.0)
    rough = weather(trouble)
    assert rough.lag_s > 2.0
    rough.end(trouble)
    assert rough.lag_s < 0.1


def test_a_chance_is_one() -> None:
    rough = weather(Trouble("refused", chance=0.5))
    refused = sum(rough.fate_of(READ).refused for _ in range(1000))
    assert 400 < refused < 600
    assert 400 < sum(rough.connects() for _ in range(1000)) < 600
