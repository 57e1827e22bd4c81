"""How full the pools were: thinned, bounded, with its gaps."""

from __future__ import annotations

from itertools import pairwise

from poseidon_reconciler.core.status import EnvironmentRow
from poseidon_reconciler.observe.web.history import POINTS, History


def row(idle: int = 5, *, target: int | None = 5, lost: int = 0) -> EnvironmentRow:
    numbers = dict.fromkeys(("used", "starting", "recovering", "blocked", "disconnected", "leaving"), 0)
    return EnvironmentRow("active", None, "running", target, idle, **numbers, lost=lost, deficit=0, surplus=0)


def take(history: History, at: float, rows: dict[str, EnvironmentRow]) -> None:
    """A sample in which nothing is on its way."""
    history.take(at, rows, dict.fromkeys(rows, 0))


def test_samples_are_told_as_they_were_taken() -> None:
    history = History()
    history.take(1_800_000_000.0, {"10": row(3)}, {"10": 2})
    take(history, 1_800_000_015.0, {"10": row(2, lost=3), "11": row(1, target=None)})
    assert history.document() == {
        "to": "2027-01-15T08:00:15.000Z",
        "step_s": 15.0,
        "environments": {
            "10": {"target": [5, 5], "idle": [3, 2], "coming": [2, 0], "lost": [0, 3]},
            "11": {"target": [None, None], "idle": [None, 1], "coming": [None, 0], "lost": [None, 0]},
        },
    }


def test_nothing_is_told_before_the_first() -> None:
    assert History().document() == {"to": None, "step_s": 15.0, "environments": {}}


def test_a_time_of_which_nothing_is_known_is_a_gap() -> None:
    history = History()
    for rows in ({"10": row()}, {}, {"10": row()}):
        take(history, 0.0, rows)
    assert history.document()["environments"]["10"]["idle"] == [5, None, 5]


def test_of_what_becomes_one_point_trouble_stays() -> None:
    history = History()
    for number in range(POINTS + 1):
        take(history, float(number), {"10": row(0 if number == 7 else 5, lost=4 if number == 7 else 0)})
    document = history.document()
    assert document["step_s"] == 30.0
    idle, lost = (document["environments"]["10"][name] for name in ("idle", "lost"))
    assert len(idle) == POINTS // 2 + 1
    assert [place for place, number in enumerate(idle) if number == 0] == [3]
    assert [place for place, number in enumerate(lost) if number == 4] == [3]


def test_it_spans_eight_hours_and_no_more() -> None:
    history = History()
    for number in range(40 * POINTS):
        take(history, float(number), {"10": row(number)})
    document = history.document()
    assert (len(document["environments"]["10"]["idle"]), document["step_s"]) == (POINTS, 240.0)
    # The least of each point, sixteen samples apart.
    idle = document["environments"]["10"]["idle"]
    assert {later - earlier for earlier, later in pairwise(idle)} == {16}
    assert idle[-1] >= 40 * POINTS - 16


def test_a_pool_that_is_gone_for_so_long_is_forgotten() -> None:
    history = History()
    take(history, 0.0, {"10": row(), "11": row()})
    for _ in range(20 * POINTS + 40 * 16):
        take(history, 1.0, {"11": row()})
    assert list(history.document()["environments"]) == ["11"]


def test_there_is_a_bound_on_pools() -> None:
    history = History()
    take(history, 0.0, {str(number): row() for number in range(3000)})
    take(history, 1.0, {str(number): row() for number in range(3000)})
    assert len(history.document()["environments"]) == 2000
