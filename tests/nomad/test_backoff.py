"""Waits double up to a bound, are never nothing, and begin anew after a reset."""

from __future__ import annotations

import pytest

from poseidon_reconciler.nomad.backoff import Backoff


@pytest.mark.parametrize(("chance", "share"), [(0.0, 0.5), (0.5, 0.75), (0.999, 0.9995)])
def test_waits_double_up_to_the_cap(chance: float, share: float) -> None:
    backoff = Backoff(base_s=0.5, cap_s=30.0, chance=lambda: chance)

    waits = [backoff.next_s() for _ in range(9)]

    bounds = [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert waits == pytest.approx([bound * share for bound in bounds])


def test_a_thousand_failures_wait_no_longer_than_the_cap() -> None:
    backoff = Backoff(base_s=0.5, cap_s=30.0, chance=lambda: 0.999)

    assert max(backoff.next_s() for _ in range(1000)) < 30


def test_a_reset_begins_anew() -> None:
    backoff = Backoff(base_s=0.5, cap_s=30.0, chance=lambda: 0.0)
    first = backoff.next_s()
    for _ in range(5):
        backoff.next_s()

    backoff.reset()

    assert backoff.next_s() == first
