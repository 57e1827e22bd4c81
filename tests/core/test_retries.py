"""When what failed is tried again: later each time, as it was or decided anew."""

from __future__ import annotations

from poseidon_reconciler.core.ledger import Action, ActionKind, ActionOutcome
from poseidon_reconciler.core.retries import Retries, Waiting
from tests.core.builders import bench_with_pool, job, lose, purge, runner

NOW = 1000.0


def action(job_id: str = "10-a", kind: ActionKind = "remove-job", environment_id: str = "10") -> Action:
    return Action(NOW, kind, environment_id, job_id, "a reason")


def waits_of(retries: Retries, failing: Action, times: int) -> list[float]:
    """How long an action waits each time that it fails."""
    found, now = [], NOW
    for _ in range(times):
        retries.failed(failing, "no leader", now)
        (at,) = [waiting.until for waiting in retries.waiting() if waiting.action == failing]
        found.append(at - now)
        list(retries.due(at))
        now = at
    return found


def test_the_waits_double_up_to_two_minutes() -> None:
    assert waits_of(Retries(), action(), 9) == [2, 4, 8, 16, 32, 64, 120, 120, 120]


def test_they_stay_there_however_often_it_fails() -> None:
    assert waits_of(Retries(), action(), 2000)[-1] == 120


def test_what_fails_together_fails_once() -> None:
    retries = Retries()
    for number in range(20):
        retries.failed(action(f"10-{number}"), "nothing was sent", NOW + number / 20)
    assert max(waiting.until - waiting.failed_at for waiting in retries.waiting()) == 2

    list(retries.due(NOW + 4))
    # However steadily failures come, they are another one in time.
    retries.failed(action("10-a"), "nothing was sent", NOW + 4)
    assert [waiting.until for waiting in retries.waiting()] == [NOW + 8]


def test_a_success_of_the_kind_in_the_environment_ends_them() -> None:
    retries = Retries()
    waits_of(retries, action(), 4)

    retries.succeeded(action("10-b"))

    assert waits_of(retries, action(), 1) == [2]


def test_kinds_and_environments_wait_for_themselves() -> None:
    retries = Retries()
    waits_of(retries, action(), 4)

    retries.succeeded(action("10-b", "create-runner"))
    retries.succeeded(action("1-b", environment_id="1"))

    assert waits_of(retries, action(environment_id="1"), 1) == [2]
    assert waits_of(retries, action(kind="protect-job"), 1) == [2]
    retries.failed(action(), "no leader", NOW + 30)
    assert [waiting.until for waiting in retries.waiting()] == [NOW + 30 + 32]


def test_what_is_due_is_taken_out_in_its_order_with_what_is_to_become_of_it() -> None:
    retries = Retries()
    retries.failed(action("10-a"), "x", NOW)
    retries.failed(action("10-b"), "y", NOW + 1)
    assert retries.next_at() == NOW + 2

    assert list(retries.due(NOW + 1.9)) == []
    assert list(retries.due(NOW + 2)) == [Waiting(NOW + 2, 0, action("10-a"), "x", NOW)]
    assert retries.waiting() == [Waiting(NOW + 3, 1, action("10-b"), "y", NOW + 1)]
    assert list(retries.due(NOW + 100)) == [Waiting(NOW + 3, 1, action("10-b"), "y", NOW + 1)]
    assert (retries.next_at(), retries.waiting()) == (None, [])


# --- what the plan makes of them ----------------------------------------------------------------------------------


def test_what_failed_for_certain_is_decided_anew() -> None:
    bench = bench_with_pool(2)
    lose(bench, 0, index=300)
    bench.wait(30)
    (created,) = [each for each in bench.actions if each.kind == "create-runner"]

    bench.core.planner.take_outcome(created, ActionOutcome("not-done", "no leader"), bench.now)
    # Poseidon clears the loss away and makes a runner of its own.
    purge(bench, runner(0), index=310)
    bench.feed(job(runner(7), index=312), index=312)
    bench.wait(60)

    assert bench.kinds().count("create-runner") == 1
    assert bench.core.planner.ledger.expected_total == 0


def test_what_may_have_been_done_is_repeated_as_it_was() -> None:
    bench = bench_with_pool(1)
    lose(bench, 0, index=300)
    bench.wait(30)
    (created,) = [each for each in bench.actions if each.kind == "create-runner"]

    bench.core.planner.take_outcome(created, ActionOutcome("unknown", "no answer"), bench.now)
    (repeated,) = bench.wait(2)

    assert (repeated.job_id, repeated.replaces, repeated.at) == (created.job_id, created.replaces, bench.now)
    assert bench.core.planner.ledger.expected_total == 1


def test_what_has_been_seen_meanwhile_is_not_repeated() -> None:
    bench = bench_with_pool(1)
    lose(bench, 0, index=300)
    bench.wait(30)
    (created,) = [each for each in bench.actions if each.kind == "create-runner"]
    bench.core.planner.take_outcome(created, ActionOutcome("unknown", "no answer"), bench.now)

    bench.feed(job(created.job_id, "pending", index=320))

    assert bench.wait(100) == []


def test_a_removal_that_failed_is_decided_again() -> None:
    bench = bench_with_pool(1)
    lose(bench, 0, index=300)
    bench.wait(30)
    (removed,) = [each for each in bench.actions if each.kind == "remove-job"]

    for wait_s in (2, 4, 8):
        bench.core.planner.take_outcome(removed, ActionOutcome("unknown", "no leader"), bench.now)
        assert [hold.until for hold in bench.core.holds(bench.now) if "no leader" in hold.reason] == [
            bench.now + wait_s
        ]
        (again,) = bench.wait(wait_s)
        assert (again.kind, again.job_id) == ("remove-job", runner(0))
