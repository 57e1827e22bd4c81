"""How fast, and when not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poseidon_reconciler.core.pace import RateLimit, StormWatch, jitter
from poseidon_reconciler.policy import PacePolicy

START = 1_800_000_000.0


# --- rate -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rate", "burst"), [(0.5, 1), (1, 1), (5, 5), (20, 20)])
def test_at_most_a_seconds_worth_is_taken_at_once(rate: float, burst: int) -> None:
    limit = RateLimit(rate)

    # A microsecond apart: so far from zero, a clock cannot be divided any finer.
    assert sum(limit.take(START + number * 1e-6) for number in range(100)) == burst


@given(
    rate=st.floats(0.01, 1000),
    waits=st.lists(st.floats(0, 3), min_size=1, max_size=200),
    start=st.floats(0, 2**33),
)
def test_it_never_takes_more_than_the_rate_and_the_burst(rate: float, waits: list[float], start: float) -> None:
    limit = RateLimit(rate)
    now, taken = start, []
    for wait_s in waits:
        now += wait_s
        if limit.take(now):
            taken.append(now)

    for first in range(len(taken)):
        number, seconds = len(taken) - first, taken[-1] - taken[first]
        assert number <= seconds * rate + max(1.0, rate) + 1e-2


@given(rate=st.floats(0.01, 1000), start=st.floats(0, 2**33), number=st.integers(1, 60))
def test_whoever_waits_until_the_next_need_not_wait_again(rate: float, start: float, number: int) -> None:
    limit = RateLimit(rate)
    now = start
    for _ in range(number):
        if not limit.take(now):
            now = limit.next_at()
            assert limit.take(now)


@given(before=st.floats(0.01, 1000), after=st.floats(0.01, 1000), tries=st.integers(1, 30), start=st.floats(0, 1e6))
def test_under_another_rate_what_was_taken_before_weighs_as_if_taken_at_that_one(
    before: float, after: float, tries: int, start: float
) -> None:
    limit = RateLimit(before)
    taken = sum(limit.take(start) for _ in range(tries))

    limit.change(after)

    assert limit.next_at() == pytest.approx(start + taken / after - max(0.0, 1 - 1 / after), abs=1e-3)


@given(names=st.lists(st.text(), min_size=1, max_size=60), rate=st.floats(0.01, 1000), start=st.floats(0, 2**33))
def test_jitter_makes_the_next_wait_longer_by_a_quarter_at_most_and_never_shorter(
    names: list[str], rate: float, start: float
) -> None:
    even, uneven = RateLimit(rate), RateLimit(rate)
    for name in names:
        for limit in (even, uneven):
            assert limit.take(max(start, limit.next_at()))
        uneven.put_off(jitter(name))

    assert even.next_at() <= uneven.next_at() <= even.next_at() + 0.25 * len(names) / rate + 1e-5


def test_jitter_follows_from_the_name_and_covers_its_range() -> None:
    shares = [jitter(f"10-{number}") for number in range(1000)]

    assert shares == [jitter(f"10-{number}") for number in range(1000)]
    assert 0 <= min(shares) < 0.01
    assert 0.24 < max(shares) < 0.25


# --- storm ----------------------------------------------------------------------------------------------------------

PACE = PacePolicy(storm_share=0.2, storm_window_s=60, storm_settle_s=30, storm_max_hold_s=300)


def watch(runners: int = 0, nodes: int = 0, *, at: float = START, of: int = 100, among: int = 100) -> StormWatch:
    """A storm watch that has heard of so many losses at once."""
    found = StormWatch(PACE)
    for number in range(runners):
        found.runner_lost(f"r{number}", at)
    for number in range(nodes):
        found.node_changed(f"n{number}", lost=True, now=at)
    if found.needs_update(at):
        found.update(of, among, at)
    return found


@pytest.mark.parametrize(
    ("lost", "known", "storm"),
    [(19, 100, False), (20, 100, True), (2, 3, False), (3, 3, True), (3, 16, False), (3, 15, True), (0, 0, False)],
)
def test_many_runners_lost_together_are_a_storm(lost: int, known: int, storm: bool) -> None:
    assert (watch(runners=lost, of=known).since is not None) == storm


@pytest.mark.parametrize(
    ("lost", "known", "storm"), [(1, 3, True), (1, 5, True), (1, 6, False), (2, 10, True), (0, 3, False)]
)
def test_many_nodes_lost_together_are_a_storm(lost: int, known: int, storm: bool) -> None:
    assert (watch(nodes=lost, among=known).since is not None) == storm


def test_losses_count_for_the_window_and_each_runner_once() -> None:
    storm = watch(runners=2, of=10)
    storm.runner_lost("r0", START + 61)
    storm.update(10, 100, START + 61)
    storm.runner_lost("r5", START + 61)
    storm.update(10, 100, START + 61)
    assert storm.since is None

    storm.runner_lost("r6", START + 121)
    storm.update(10, 100, START + 121)

    assert storm.since == START + 121


def test_it_is_over_once_it_has_been_quiet_for_long_enough() -> None:
    storm = watch(runners=3, of=10)
    assert (storm.since, storm.until) == (START, START + 30)

    storm.runner_lost("r9", START + 20)
    storm.update(10, 100, START + 20)
    assert (storm.since, storm.until) == (START, START + 50)

    assert not storm.needs_update(START + 49)
    assert storm.needs_update(START + 50)
    storm.update(10, 100, START + 50)

    assert (storm.since, storm.until) == (None, None)


def test_a_node_that_returns_is_no_quiet_either() -> None:
    storm = watch(nodes=1, among=3)

    storm.node_changed("n0", lost=False, now=START + 25)
    storm.update(0, 3, START + 25)

    assert storm.until == START + 55


def test_it_is_over_at_the_latest_when_it_has_held_for_long_enough() -> None:
    storm = watch(runners=3, of=10)
    for seconds in range(10, 300, 10):
        storm.runner_lost(f"s{seconds}", START + seconds)
        storm.update(10, 100, START + seconds)
        assert storm.since == START

    storm.update(10, 100, START + 300)

    assert storm.since is None


def test_what_was_lost_in_one_storm_begins_no_other() -> None:
    storm = watch(runners=3, of=10)
    storm.update(10, 100, START + 30)

    storm.runner_lost("r7", START + 31)
    storm.update(10, 100, START + 31)

    assert storm.since is None
