"""What is decided, in which order, how much of it at once, and what is held back."""

from __future__ import annotations

from tests.core.builders import (
    TEMPLATE,
    Bench,
    Wire,
    allocation,
    bench_with_pool,
    evaluation,
    job,
    lose,
    node,
    node_id,
    pool_policy,
    purge,
    runner,
)


def test_a_larger_target_is_filled_without_waiting_for_another_event() -> None:
    bench = bench_with_pool(1)

    bench.feed(job(TEMPLATE, index=300, created=100, registered=300, version=1, target=3))
    bench.wait(30)

    assert bench.kinds() == ["create-runner"] * 2


def test_a_pool_that_had_no_room_is_filled_when_a_node_becomes_ready() -> None:
    bench = Bench()
    bench.feed(node(node_id(1), index=1, draining=True))
    bench.feed(job(TEMPLATE, index=11, created=10, target=2))
    bench.feed(allocation("t", TEMPLATE, index=12, node=node_id(1)))
    bench.wait(100)
    assert bench.actions == []

    bench.feed(node(node_id(2), index=200))
    bench.wait(600)

    assert bench.kinds() == ["create-runner"] * 2


def test_a_hold_never_ends_in_the_past() -> None:
    bench = Bench()
    bench.feed(node(node_id(1), index=1, draining=True))
    bench.feed(job(TEMPLATE, index=11, created=10, target=2))
    bench.feed(allocation("t", TEMPLATE, index=12, node=node_id(1)))
    bench.wait(100)

    bench.feed(node(node_id(2), index=200))

    for hold in bench.core.planner.holds(bench.now):
        assert hold.until is None or hold.until >= bench.now


def test_what_is_created_for_an_old_gap_does_not_shorten_the_settle_time_of_a_new_one() -> None:
    bench = bench_with_pool(5)
    began = bench.now
    purge(bench, runner(0), index=300)
    bench.wait(9)
    for number in (1, 2, 3, 4):
        purge(bench, runner(number), index=300 + number)
    bench.wait(1)
    (first,) = bench.actions

    # The new runner is heard of, and nothing else happens.
    bench.feed(job(first.job_id, "pending", index=320), after_s=0.5)
    bench.wait(20)

    assert [action.at - began for action in bench.actions] == [10, 19, 19, 19, 19]


def test_a_runner_is_lost_once_for_the_storm_watch_whatever_is_heard_of_it_later() -> None:
    bench = bench_with_pool(8)
    for number in range(3):
        created = 200 + 10 * number
        index = 300 + number
        lost = allocation(
            f"a{number}", runner(number), "lost", "stop", index=index, created=created + 1, node=node_id(1 + number)
        )
        bench.feed(lost, job(runner(number), "dead", index=index, created=created))
        bench.wait(100)
    assert bench.kinds().count("create-runner") == 3

    for number in range(3):
        created = 201 + 10 * number
        home = node_id(1 + number)
        ended = allocation(
            f"a{number}", runner(number), "complete", "stop", index=400 + number, created=created, node=home
        )
        bench.feed(ended)
    bench.wait(11)
    lose(bench, 3, index=500)
    bench.wait(11)

    assert [hold.reason for hold in bench.core.planner.holds(bench.now) if hold.environment_id is None] == []


def test_an_exactly_pool_waits_for_the_returned_agents_word_on_the_old_copy() -> None:
    bench = bench_with_pool(1, policy=pool_policy(disconnect_policy="exactly"))
    bench.feed(node(node_id(1), "down", index=300))
    lost = allocation("a0", runner(0), "lost", "stop", index=301, created=201, node=node_id(1))
    bench.feed(lost, job(runner(0), "dead", index=301, created=200))
    bench.wait(1000)
    assert bench.actions == []

    bench.feed(node(node_id(1), "ready", index=400))
    bench.wait(30)
    assert bench.actions == []
    bench.feed(allocation("a0", runner(0), "complete", "stop", index=410, created=201, node=node_id(1)))
    bench.wait(60)

    assert sorted(bench.kinds()) == ["create-runner", "remove-job"]


def test_an_exactly_pool_counts_an_older_copy_beyond_reach_after_its_successor_failed() -> None:
    bench = bench_with_pool(1, policy=pool_policy(disconnect_policy="exactly"))
    bench.feed(node(node_id(1), "down", index=300))
    bench.feed(
        allocation("a0", runner(0), "lost", "stop", index=301, created=201, node=node_id(1), NextAllocation="b0"),
        allocation("b0", runner(0), "pending", index=301, node=node_id(2), PreviousAllocation="a0"),
    )
    bench.feed(
        allocation("b0", runner(0), "failed", index=302, created=301, node=node_id(2), PreviousAllocation="a0"),
        job(runner(0), "dead", index=302, created=200),
    )
    bench.wait(1000)

    assert "create-runner" not in bench.kinds()


def test_a_creation_without_an_answer_is_repeated_under_the_same_name_whatever_became_of_the_loss() -> None:
    bench = bench_with_pool(1)
    lose(bench, 0, index=300)
    bench.wait(30)
    (created,) = [action for action in bench.actions if action.kind == "create-runner"]
    bench.core.planner.failed(created, "no answer", bench.now, may_be_done=True)

    # Poseidon purges the lost runner meanwhile, and the stream lags behind: the new runner is there, but not heard of.
    purge(bench, runner(0), index=310)
    bench.wait(60)

    names = {action.job_id for action in bench.actions if action.kind == "create-runner"}
    assert names == {created.job_id}


def test_an_exactly_pool_waits_for_an_older_copy_that_is_still_being_stopped() -> None:
    bench = bench_with_pool(1, policy=pool_policy(disconnect_policy="exactly"))
    migrated: Wire = {"NextAllocation": "b0", "DesiredDescription": "alloc is being migrated"}
    bench.feed(
        allocation("a0", runner(0), "running", "stop", index=300, created=201, node=node_id(1), **migrated),
        allocation("b0", runner(0), index=300, node=node_id(2), PreviousAllocation="a0"),
    )
    bench.feed(
        allocation("b0", runner(0), "complete", index=310, created=300, node=node_id(2), PreviousAllocation="a0"),
        job(runner(0), "dead", index=310, created=200),
    )
    bench.wait(60)
    assert "create-runner" not in bench.kinds()

    bench.feed(allocation("a0", runner(0), "complete", "stop", index=320, created=201, node=node_id(1), **migrated))
    bench.wait(60)

    assert bench.kinds().count("create-runner") == 1


def test_an_exactly_pool_protects_no_job_that_would_be_placed_beside_its_old_copy() -> None:
    bench = bench_with_pool(1, policy=pool_policy(disconnect_policy="exactly"))
    bench.feed(node(node_id(1), "down", index=300))
    bench.feed(
        allocation("a0", runner(0), "lost", "stop", index=301, created=201, node=node_id(1)),
        evaluation("e0", runner(0), "blocked", index=301),
        job(runner(0), "pending", index=301, created=200),
    )
    bench.wait(1000)
    assert bench.core.diagnosis.verdicts[runner(0)].at_risk
    assert "protect-job" not in bench.kinds()

    bench.feed(node(node_id(1), "ready", index=400))
    bench.feed(
        allocation("b0", runner(0), index=401, node=node_id(1)),
        allocation("a0", runner(0), "complete", "stop", index=401, created=201, node=node_id(1)),
        evaluation("e0", runner(0), "complete", index=401, created=301),
        job(runner(0), index=401, created=200),
    )

    assert bench.kinds() == ["protect-job"]
