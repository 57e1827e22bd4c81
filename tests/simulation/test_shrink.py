"""The shortest beginning of a course that still breaks the same promise is found."""

from __future__ import annotations

import pytest

from poseidon_reconciler.app.simulation.course import Course, course_of
from poseidon_reconciler.app.simulation.shrink import shrink
from poseidon_reconciler.app.simulation.simulation import Broken, Outcome

COURSE = course_of(0)


def outcome(mishaps: int, number: int | None) -> Outcome:
    broken = Broken(number, "it broke", 1.0) if number is not None else None
    return Outcome(0, mishaps, broken, "", 1.0, 0, {})


class Runs:
    """Runs of an artificial fault: it needs the first `enough` mishaps; `others` break another promise."""

    def __init__(self, enough: set[int], others: set[int]) -> None:
        self.enough = enough
        self.others = others
        self.tried: list[int] = []

    def __call__(self, course: Course, mishaps: int) -> Outcome:
        assert course is COURSE
        self.tried.append(mishaps)
        number = 3 if mishaps in self.enough else 4 if mishaps in self.others else None
        return outcome(mishaps, number)


@pytest.mark.parametrize(
    ("enough", "others", "shortest"),
    [
        ({5, 6, 7, 8}, set(), 5),
        ({2, 8}, set(), 2),  # the third mends what the second broke
        ({0, 8}, set(), 0),
        ({6, 8}, {3}, 6),
        ({8}, set(), 8),
    ],
)
def test_the_shortest_beginning(enough: set[int], others: set[int], shortest: int) -> None:
    runs = Runs(enough, others)
    found = shrink(COURSE, outcome(8, 3), runs)
    assert found.mishaps == shortest
    assert found.broken is not None
    assert found.broken.number == 3
    assert runs.tried == list(range(min(shortest + 1, 8)))
