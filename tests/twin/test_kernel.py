"""The queue of what is due: in order, each at its own time."""

from __future__ import annotations

from random import Random

from poseidon_reconciler.twin.kernel import Kernel


def test_actions_happen_in_order_and_at_their_own_time() -> None:
    kernel, seen = Kernel(100.0, Random(1)), []
    kernel.after(2.0, lambda: seen.append(("b", kernel.now)))
    kernel.after(1.0, lambda: seen.append(("a", kernel.now)))
    kernel.after(2.0, lambda: seen.append(("c", kernel.now)))
    kernel.advance(102.5)
    assert seen == [("a", 101.0), ("b", 102.0), ("c", 102.0)]
    assert kernel.now == 102.5


def test_an_action_may_ask_for_another_that_is_due_at_once() -> None:
    kernel, seen = Kernel(0.0, Random(1)), []

    def ask_again() -> None:
        kernel.after(-5.0, lambda: seen.append(kernel.now))

    kernel.after(1.0, ask_again)
    kernel.advance(1.0)
    assert seen == [1.0]


def test_what_is_cancelled_does_not_happen() -> None:
    kernel, seen = Kernel(0.0, Random(1)), []
    timer = kernel.after(1.0, lambda: seen.append(1))
    later = kernel.after(3.0, lambda: seen.append(3))
    timer.cancel()
    assert (timer.waiting, later.waiting, kernel.next_due()) == (False, True, 3.0)
    kernel.advance(10.0)
    assert (seen, kernel.next_due()) == ([3], None)


def test_ids_and_durations_come_from_the_seed() -> None:
    first, second = Kernel(0.0, Random(7)), Kernel(0.0, Random(7))
    assert [first.new_id(), first.new_id()] == [second.new_id(), second.new_id()]
    assert len(first.new_id()) == 36
    assert all(0.5 <= first.spread(1.0) <= 1.5 for _ in range(100))
