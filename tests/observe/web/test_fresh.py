"""What is made once for all who ask within a while."""

from __future__ import annotations

import threading

import pytest

from poseidon_reconciler.observe.web import fresh
from poseidon_reconciler.observe.web.fresh import Fresh, FreshAside


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


def made_by(clock: Clock, takes_s: float) -> Fresh[int]:
    made = [0]

    def make() -> int:
        clock.now += takes_s
        made[0] += 1
        return made[0]

    return Fresh(make)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(fresh, "time", clock)
    return clock


def test_it_is_made_anew_after_a_quarter_of_a_second(clock: Clock) -> None:
    thing = made_by(clock, 0.001)
    assert (thing.get(), thing.get()) == (1, 1)
    clock.now += 0.25
    assert thing.get() == 2


def test_what_takes_long_to_make_may_be_older(clock: Clock) -> None:
    thing = made_by(clock, 0.1)
    assert thing.get() == 1
    clock.now += 1.8
    assert thing.get() == 1
    clock.now += 0.2
    assert thing.get() == 2


def test_what_expired_is_made_anew_at_once(clock: Clock) -> None:
    thing = made_by(clock, 0.0)
    thing.get()
    thing.expire()
    assert thing.get() == 2


async def test_what_is_made_aside_is_made_on_another_thread_once_in_a_second(clock: Clock) -> None:
    made_by_threads: list[int] = []

    def make() -> int:
        made_by_threads.append(threading.get_ident())
        return len(made_by_threads)

    thing = FreshAside(make)
    assert (await thing.get(), await thing.get()) == (1, 1)
    clock.now += 1
    assert await thing.get() == 2
    thing.expire()
    assert await thing.get() == 3
    assert threading.get_ident() not in made_by_threads


async def test_what_fails_aside_fails_for_who_asks_and_is_tried_again(clock: Clock) -> None:
    answers = iter([0, 1])
    thing = FreshAside(lambda: 1 // next(answers))
    with pytest.raises(ZeroDivisionError):
        await thing.get()
    clock.now += 1
    assert await thing.get() == 1
