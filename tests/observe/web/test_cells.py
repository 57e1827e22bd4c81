"""Values as cells: times that are read at night must not be taken for today's."""

from __future__ import annotations

import pytest

from poseidon_reconciler.observe.web.cells import Column, clock, table

NOW = "2026-12-01T08:00:00.000Z"


@pytest.mark.parametrize(
    ("time", "shown"),
    [("2026-12-01T07:59:58.123Z", "07:59:58"), ("2026-11-30T23:59:58.123Z", "2026-11-30 23:59")],
)
def test_a_time_of_another_day_has_its_date(time: str, shown: str) -> None:
    made = clock(time, NOW)
    assert (made.text, made.get("datetime")) == (shown, time)


@pytest.mark.parametrize(
    ("shown_as", "key", "row", "shown"),
    [
        ("node", "node", {"node": None}, "no node"),
        ("drift", "drift", {"drift": None}, "none"),
        ("drift", "drift", {"drift": "too-few-idle", "lasting": False}, "too-few-idle, may be a lag"),
        ("duration", "after_s", {"after_s": 12.6}, "13 s"),
        ("duration", "after_s", {"after_s": None}, None),
        ("others", "adopted not_adopted", {"adopted": 0, "not_adopted": 2}, "2 not adopted"),
        ("some", "on_their_way", {"on_their_way": {"starting": 2, "expected": 1}}, "2 starting, 1 expected"),
        ("some", "on_their_way", {"on_their_way": {}}, None),
        ("number", "believed_idle", {"believed_idle": None}, "?"),
    ],
)
def test_values_are_shown_in_words(shown_as: str, key: str, row: dict[str, object], shown: str | None) -> None:
    columns = [Column("environment", "id"), Column("value", key, shown_as)]
    cell = table("name", "caption", columns, [{"id": "10", **row}], NOW).find("tbody/tr/td")
    assert cell is not None
    assert (cell.text or None) == shown
