"""The shortest beginning of a course's mishaps after which the promise still breaks.

What happens up to a mishap does not depend on those after it; but a later one may mend what an earlier one broke. So
the beginnings are tried from the shortest on.
"""

from __future__ import annotations

from collections.abc import Callable

from poseidon_reconciler.app.simulation.course import Course
from poseidon_reconciler.app.simulation.simulation import Outcome, simulate

Run = Callable[[Course, int], Outcome]


def _run(course: Course, mishaps: int) -> Outcome:
    return simulate(course, mishaps=mishaps)


def shrink(course: Course, broken: Outcome, run: Run = _run) -> Outcome:
    """The outcome of the shortest beginning that breaks the same promise as `broken` did; `broken` if only all do."""
    assert broken.broken is not None
    for mishaps in range(broken.mishaps):
        outcome = run(course, mishaps)
        if outcome.broken is not None and outcome.broken.number == broken.broken.number:
            return outcome
    return broken
