"""Verdicts and pool numbers stay right while the model changes and time passes."""

from __future__ import annotations

from tests.core.builders import Bench, allocation


def test_a_job_that_is_forgotten_is_not_at_risk_any_more() -> None:
    bench = Bench()
    bench.feed(allocation("old", client="lost", desired="stop", index=29))
    bench.feed(allocation("own", index=30))
    assert bench.verdict().at_risk

    # Only hearsay, and nothing of it lives: it is dropped.
    bench.feed(allocation("own", client="complete", desired="stop", index=31, created=30))

    assert bench.state() is None
    assert bench.core.diagnosis.at_risk == {}
