"""Runners beyond the target: counted, explained, and stopped only where, when and as few as the policy says."""

from __future__ import annotations

import pytest

from poseidon_reconciler.core.explanation import explain_environment
from poseidon_reconciler.core.ledger import ActionOutcome
from tests.core.builders import (
    TEMPLATE,
    Bench,
    allocation,
    bench_with_pool,
    evaluation,
    job,
    node,
    node_id,
    pool_policy,
    runner,
)

TRIM = pool_policy(surplus="trim")


def stopped(bench: Bench) -> list[str]:
    return [action.job_id for action in bench.actions if action.kind == "stop-surplus"]


def lower(bench: Bench, target: int, *, index: int = 500) -> None:
    bench.feed(job(TEMPLATE, index=index, created=100, registered=index, version=1, target=target))


def end(bench: Bench, number: int, *, index: int) -> None:
    """A runner is stopped, as it was asked for."""
    created = 200 + 10 * number
    bench.feed(
        job(runner(number), "dead", index=index, created=created, Stop=True),
        allocation(f"a{number}", runner(number), "complete", "stop", index=index, created=created + 1),
    )


def test_a_surplus_is_reported_and_nothing_is_stopped_unless_the_policy_says_so() -> None:
    bench = bench_with_pool(5)

    lower(bench, 3)
    bench.wait(600)

    explained = explain_environment(bench.core, "10")
    assert explained is not None
    assert (explained.surplus, explained.surplus_story) == (2, "the target was lowered from 5 to 3")
    assert stopped(bench) == []


def test_the_youngest_idle_ones_go_a_few_at_a_time() -> None:
    bench = bench_with_pool(6, policy=TRIM)
    lower(bench, 2)

    bench.wait(9)
    assert stopped(bench) == []
    bench.wait(2)
    assert stopped(bench) == [runner(5), runner(4)]
    bench.wait(600)
    assert stopped(bench) == [runner(5), runner(4)], "the next only when these are gone"
    end(bench, 5, index=600)
    end(bench, 4, index=610)
    bench.wait(20)

    assert stopped(bench) == [runner(5), runner(4), runner(3), runner(2)]
    end(bench, 3, index=620)
    end(bench, 2, index=630)
    bench.wait(600)
    assert len(stopped(bench)) == 4


def test_a_claim_keeps_everybody_for_a_while() -> None:
    bench = bench_with_pool(5, policy=TRIM)
    lower(bench, 3)
    bench.wait(5)
    bench.feed(job(runner(0), index=510, created=200, registered=510, version=1, used=True))

    bench.wait(9)
    (hold,) = bench.core.holds(bench.now)
    assert (hold.rule, hold.until) == ("surplus-settling", bench.now + 1)
    assert stopped(bench) == []
    bench.wait(2)

    assert stopped(bench) == [runner(4)]


def test_a_claim_that_comes_too_late_for_its_runner_keeps_the_others_too() -> None:
    bench = bench_with_pool(7, policy=TRIM)
    lower(bench, 3)
    bench.wait(11)
    bench.feed(job(runner(6), index=510, created=260, registered=510, version=1, Stop=True))
    assert stopped(bench) == [runner(6), runner(5), runner(4)]
    bench.feed(job(runner(6), index=511, created=260, registered=511, version=2, Stop=True, used=True))
    end(bench, 5, index=520)

    bench.wait(9)
    assert stopped(bench) == [runner(6), runner(5), runner(4)]
    bench.wait(2)

    assert stopped(bench) == [runner(6), runner(5), runner(4), runner(3)]


def test_what_comes_again_and_again_is_stopped_after_longer_and_longer_waits() -> None:
    bench = bench_with_pool(2, policy=TRIM)
    waits = []
    for number in range(10, 15):
        index = 100 * number
        bench.feed(
            job(runner(number), index=index, created=index),
            allocation(f"a{number}", runner(number), index=index + 1, created=index + 1, node=node_id(1)),
        )
        came_at = bench.now
        while runner(number) not in stopped(bench):
            bench.wait(1)
            holds = bench.core.holds(bench.now)
            assert all(("come again" in hold.reason) == (number in (11, 12, 13)) for hold in holds)
        waits.append(bench.now - came_at)
        bench.feed(
            job(runner(number), "dead", index=index + 9, created=index, Stop=True),
            allocation(f"a{number}", runner(number), "complete", "stop", index=index + 9, created=index + 1),
        )
        if number == 13:
            bench.wait(301)

    assert waits == [10, 30, 60, 120, 10]


def test_what_waited_for_room_does_not_come_again() -> None:
    """Where one that goes makes room for the next, all were too much from the beginning."""
    bench = bench_with_pool(2, policy=TRIM)
    for number in (10, 11, 12, 13):
        blocked = evaluation(f"e{number}", runner(number), "blocked", index=100 * number)
        bench.feed(job(runner(number), "pending", index=100 * number, created=100 * number), blocked)
    waits = []
    for number in (10, 11, 12, 13):
        index = 2000 + 100 * number
        bench.feed(
            evaluation(f"e{number}", runner(number), index=index, created=100 * number),
            allocation(f"a{number}", runner(number), index=index, node=node_id(1)),
        )
        came_at = bench.now
        while runner(number) not in stopped(bench):
            bench.wait(1)
        waits.append(bench.now - came_at)
        bench.feed(
            job(runner(number), "dead", index=index + 9, created=100 * number, Stop=True),
            allocation(f"a{number}", runner(number), "complete", "stop", index=index + 9, created=index),
        )
    assert waits == [10, 10, 10, 10]

    bench.feed(job(runner(14), index=4000), allocation("a14", runner(14), index=4001, created=4001, node=node_id(1)))
    bench.wait(29)
    assert runner(14) not in stopped(bench), "this one was ordered although the pool was full"
    bench.wait(1)
    assert runner(14) in stopped(bench)


def test_one_that_could_not_be_stopped_is_tried_again_later() -> None:
    bench = bench_with_pool(2, policy=TRIM)
    lower(bench, 1)
    bench.wait(11)
    (action,) = [action for action in bench.actions if action.kind == "stop-surplus"]

    bench.core.planner.take_outcome(action, ActionOutcome("not-done", "no leader"), bench.now)
    bench.wait(3)

    assert stopped(bench) == [runner(1), runner(1)]


def test_one_that_was_stopped_and_is_there_again_is_stopped_again() -> None:
    bench = bench_with_pool(2, policy=TRIM)
    lower(bench, 1)
    bench.wait(11)
    end(bench, 1, index=600)
    # Servers that were restored have it as it was; nothing else tells of that.
    bench.feed(job(runner(1), index=700, created=210), allocation("a1", runner(1), index=701, created=211))
    bench.wait(120)

    assert stopped(bench) == [runner(1), runner(1)]


def test_what_comes_back_from_a_lost_node_is_told_to_have_come_back() -> None:
    bench = bench_with_pool(3)
    bench.feed(node(node_id(1), "down", index=300))
    bench.feed(allocation("a0", runner(0), "unknown", index=301, created=201, node=node_id(1)))
    bench.wait(60)
    (create,) = [action for action in bench.actions if action.kind == "create-runner"]
    bench.feed(
        job(create.job_id, index=402, created=400),
        allocation("x", create.job_id, index=402, created=401, node=node_id(2)),
    )
    bench.feed(node(node_id(1), index=500))
    bench.feed(allocation("a0", runner(0), index=501, created=201, node=node_id(1)))

    explained = explain_environment(bench.core, "10")
    assert explained is not None
    assert explained.surplus == 1
    assert "1 came back from nodes out of reach" in explained.surplus_story


def test_only_idle_runners_beyond_the_target_go() -> None:
    bench = bench_with_pool(3, policy=TRIM)
    bench.feed(
        job(runner(7), "pending", index=510, created=510),
        allocation("a7", runner(7), "pending", index=511, created=511),
    )
    bench.wait(60)

    assert stopped(bench) == []


@pytest.mark.parametrize("surge", [0, 1, 2])
def test_a_surge_lets_so_many_be_ordered_while_nomad_is_bringing_others_back(surge: int) -> None:
    bench = bench_with_pool(4, policy=pool_policy(surge=surge))
    for number in (0, 1, 2):
        created = 200 + 10 * number
        state = {"default-task": {"State": "pending", "Restarts": 1}}
        bench.feed(allocation(f"a{number}", runner(number), index=300 + number, created=created + 1, TaskStates=state))
    assert bench.state(runner(0)) == "recovering"
    bench.wait(60)

    assert bench.kinds() == ["create-runner"] * surge


def test_a_used_runner_that_nomad_is_bringing_back_makes_no_room_for_an_unused_one() -> None:
    """It will be no runner of the pool: one more would be too many, and stopped, and ordered again."""
    bench = bench_with_pool(3, target=2, policy=pool_policy(surge=1))
    bench.feed(job(runner(0), index=510, created=200, registered=510, version=1, used=True))
    bench.feed(
        allocation("a0", runner(0), "failed", index=520, created=201),
        evaluation("e0", runner(0), "pending", index=521, WaitUntil="2030-01-01T00:00:00Z"),
    )
    bench.wait(60)

    assert bench.judged(runner(0)) == ("recovering", None, "reschedule-delayed")
    assert bench.kinds() == []


def test_used_runners_that_are_lost_take_no_room_of_unused_ones() -> None:
    bench = bench_with_pool(4, target=2, policy=pool_policy(max_jobs=2))
    claimed = [
        job(runner(n), index=510, created=200 + 10 * n, registered=510, version=1, used=True) for n in (0, 1, 2, 3)
    ]
    bench.feed(*claimed)
    bench.feed(*[node(node_id(n), "down", index=520 + n) for n in (2, 3)])
    bench.wait(600)

    assert bench.core.diagnosis.pools["10"].count("lost") == 2
    assert bench.kinds().count("create-runner") == 2


def test_no_more_than_max_jobs_exist_whatever_happens() -> None:
    bench = bench_with_pool(2, target=5, policy=pool_policy(max_jobs=4))
    bench.wait(60)
    assert bench.kinds() == ["create-runner"] * 2

    (hold,) = bench.core.holds(bench.now)
    assert (hold.rule, hold.until) == ("job-ceiling", None)


def test_a_creation_of_which_nobody_knows_is_not_repeated_beyond_max_jobs() -> None:
    bench = bench_with_pool(2, target=3, policy=pool_policy(max_jobs=3))
    bench.wait(60)
    (created,) = [action for action in bench.actions if action.kind == "create-runner"]
    bench.core.planner.take_outcome(created, ActionOutcome("unknown", "no answer"), bench.now)
    # Another one is there by now, which is no use to the pool.
    bench.feed(node(node_id(7), index=499), node(node_id(8), index=500, draining=True))
    bench.feed(job(runner(8), index=501, created=501))
    bench.feed(allocation("a8", runner(8), index=502, created=502, node=node_id(8)))
    assert bench.state(runner(8)) == "leaving"
    bench.wait(60)

    assert bench.kinds().count("create-runner") == 1


def test_the_usual_bound_is_three_times_the_target_and_ten() -> None:
    policy = pool_policy(surge=1).pool
    assert (policy.most_jobs(0), policy.most_jobs(20)) == (13, 73)
