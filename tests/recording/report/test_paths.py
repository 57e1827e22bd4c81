"""Steps as paths: a value holds until the next one, and is never slanted."""

from __future__ import annotations

import pytest

from poseidon_reconciler.recording.report.paths import Place, area, line, percent, share


def test_an_area_lies_below_its_steps() -> None:
    places = [Place(0.1, 0.5, 0.25), Place(0.5, 0.75, 0.25), Place(0.75, 1, 0)]
    assert area(places) == "M.1 1V.25H.75V0H1V1Z"


def test_a_line_follows_its_steps_and_has_gaps() -> None:
    places = [Place(0, 0.2, 0.5), Place(0.2, 0.4, 0.25), Place(0.4, 0.6, None), Place(0.6, 1, 0.25)]
    assert line(places) == "M0 .5H.2V.25H.4M.6 .25H1"


def test_nothing_is_no_path() -> None:
    assert area([]) == ""
    assert line([Place(0, 1, None)]) == ""


@pytest.mark.parametrize(
    ("number", "as_share", "as_percent"),
    [(0, "0", "0%"), (1, "1", "100%"), (0.5, ".5", "50%"), (0.12344, ".1234", "12.34%"), (1e-9, "0", "0%")],
)
def test_numbers_are_short(number: float, as_share: str, as_percent: str) -> None:
    assert share(number) == as_share
    assert percent(number) == as_percent
