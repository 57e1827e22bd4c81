"""How long a pool has been short, runner by runner."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from poseidon_reconciler.core.deficit import Deficit


def test_each_that_is_lacking_has_an_age_of_its_own() -> None:
    deficit = Deficit()
    deficit.set(1, 100.0)
    deficit.set(5, 108.0)

    assert [deficit.older_than(10, now) for now in (109.9, 110.0, 117.9, 118.0)] == [0, 1, 1, 5]
    assert [deficit.next_at(10, now) for now in (109.9, 110.0, 117.9, 118.0)] == [110.0, 118.0, 118.0, None]


def test_what_others_fill_was_lacking_for_the_shortest_time() -> None:
    deficit = Deficit()
    deficit.set(2, 100.0)
    deficit.set(5, 108.0)

    deficit.set(3, 109.0)

    assert (deficit.size, deficit.older_than(9, 109.0), deficit.older_than(1, 109.0)) == (3, 2, 3)


def test_what_we_fill_was_lacking_for_longest() -> None:
    deficit = Deficit()
    deficit.set(1, 100.0)
    deficit.set(3, 108.0)

    deficit.fill()

    assert (deficit.size, deficit.older_than(9, 109.0), deficit.older_than(1, 109.0)) == (2, 0, 2)


def test_what_is_lacking_again_is_so_since_then() -> None:
    deficit = Deficit()
    deficit.set(2, 100.0)
    deficit.set(0, 105.0)
    deficit.set(2, 106.0)

    assert deficit.next_at(10, 107.0) == 116.0


@given(sizes=st.lists(st.integers(0, 10**6), max_size=30), filled=st.integers(0, 3))
def test_it_is_one_queue_of_which_others_take_the_youngest_and_we_the_oldest(sizes: list[int], filled: int) -> None:
    deficit = Deficit()
    since: list[tuple[int, int]] = []
    for now, size in enumerate(sizes):
        deficit.set(size, float(now))
        total = sum(number for _, number in since)
        if size > total:
            since.append((now, size - total))
        while (excess := sum(number for _, number in since) - size) > 0:
            at, number = since.pop()
            if number > excess:
                since.append((at, number - excess))
        for _ in range(min(filled, deficit.size)):
            deficit.fill()
            at, number = since.pop(0)
            since[:0] = [(at, number - 1)] if number > 1 else []
    end = len(sizes)

    assert deficit.size == sum(number for _, number in since)
    for age in range(end + 1):
        assert deficit.older_than(age, end) == sum(number for at, number in since if end - at >= age)
