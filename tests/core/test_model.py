"""What events make of the model: who is there, who is gone and why, and what a late word must not change."""

from __future__ import annotations

from tests.core.builders import (
    NODE,
    RUNNER,
    TEMPLATE,
    Bench,
    allocation,
    bench_with_pool,
    evaluation,
    event,
    job,
    node,
    node_id,
    purge,
    runner,
)


def test_a_late_word_of_an_allocation_of_the_purged_job_says_nothing_of_the_one_registered_after_it() -> None:
    bench = bench_with_pool(1)
    purge(bench, runner(0), index=300)
    bench.feed(job(runner(0), "pending", index=310))

    bench.feed(allocation("a0", runner(0), index=202, created=201, node=node_id(1)), index=202)

    assert bench.state(runner(0)) == "starting"
    assert bench.job(runner(0)).allocations == {}


def test_a_stop_is_a_stop_even_if_its_evaluation_is_heard_first() -> None:
    bench = bench_with_pool(1)

    purge(bench, TEMPLATE, index=300)
    stopped = job(TEMPLATE, "dead", index=300, created=100, registered=300, target=1, Stop=True)
    bench.feed(event(stopped, "JobDeregistered"))

    assert bench.judged(TEMPLATE) == ("stopped", "stopped", "stopped-by-operator")


def test_a_node_is_removed_although_its_payload_is_as_old_as_its_last_change() -> None:
    bench = bench_with_pool(1)

    bench.feed(event(node(node_id(1), index=1), "NodeDeregistration"), index=300)

    assert bench.core.model.nodes[node_id(1)].status == "gone"
    assert bench.state(runner(0)) != "idle"


def test_a_node_that_is_gone_and_carries_nothing_is_forgotten_like_a_job() -> None:
    bench = Bench()
    bench.feed(node(NODE, index=1))
    bench.feed(event(node(NODE, "down", index=2), "NodeDeregistration"))

    bench.feed(node(node_id(2), index=3), after_s=2 * bench.core.model.retention_s)

    assert list(bench.core.model.nodes) == [node_id(2)]


def test_a_job_that_is_registered_again_has_its_whole_deadline_before_it() -> None:
    bench = bench_with_pool(1)
    purge(bench, runner(0), index=300)

    bench.feed(job(runner(0), "pending", index=310), after_s=1000)
    bench.feed(evaluation("e", runner(0), "pending", index=310))

    assert bench.judged(runner(0)) == ("starting", None, "awaiting-allocation")


def test_the_end_of_a_lost_allocation_is_bookkeeping_and_no_sign_of_life() -> None:
    bench = bench_with_pool(1)
    lost = allocation("a0", runner(0), "lost", "stop", index=300, created=201, node=node_id(1))
    bench.feed(lost, job(runner(0), "dead", index=300, created=200))
    bench.wait(60)
    assert bench.state(runner(0)) == "lost"
    heard = len(bench.changes)

    bench.feed(allocation("a0", runner(0), "complete", "stop", index=400, created=201, node=node_id(1)))
    bench.wait(60)

    assert {change.verdict.state for change in bench.changes[heard:] if change.job.id == runner(0)} <= {"lost"}


def test_a_drain_flag_on_a_node_that_is_down_does_not_prolong_the_grace_of_what_stood_there() -> None:
    bench = bench_with_pool(1)
    bench.feed(node(node_id(1), "down", index=300))
    due_at = bench.verdict(runner(0)).due_at
    assert due_at == bench.now + 10

    bench.feed(node(node_id(1), "down", index=301, draining=True), after_s=9)

    assert bench.verdict(runner(0)).due_at == due_at


def test_an_evaluation_older_than_the_word_that_the_job_is_dead_is_over() -> None:
    bench = Bench()
    bench.feed(job(RUNNER, index=10))
    bench.feed(allocation("a", index=11))
    bench.feed(allocation("a", client="complete", index=20, created=11), job(RUNNER, "dead", index=20, created=10))
    bench.feed(evaluation("e", status="pending", index=25))
    assert bench.judged() == ("recovering", None, "being-evaluated")

    bench.feed(job(RUNNER, "dead", index=30, created=10))
    bench.wait(60)

    assert bench.judged() == ("lost", "stuck-complete", "stuck-complete")


def test_what_stands_on_a_node_that_was_removed_long_ago_does_not_run_again() -> None:
    bench = bench_with_pool(1)
    home = node(node_id(1), "down", index=300)
    bench.feed(home)
    bench.feed(event(home, "NodeDeregistration"), index=301)
    bench.wait(30)
    assert bench.judged(runner(0)) == ("lost", "node-lost", "node-is-gone")

    bench.wait(2 * bench.core.model.retention_s)
    bench.feed(job(runner(0), index=400, created=200, registered=400, version=1, used=True))

    assert bench.state(runner(0)) == "lost"


# --- two lines of one index -------------------------------------------------------------------------------------------


def test_of_two_words_of_one_index_the_last_counts_and_a_repeat_of_the_first_is_no_third() -> None:
    bench = Bench()
    bench.feed(job(index=10), allocation("a", index=11))
    dead, pending = job(RUNNER, "dead", index=20, created=10), job(RUNNER, "pending", index=20, created=10)

    bench.feed(dead)
    bench.feed(pending)
    assert bench.job().status == "pending"
    bench.feed(dead)
    bench.feed(pending)

    assert bench.job().status == "pending"


def test_what_is_older_than_what_is_known_is_ignored() -> None:
    bench = Bench()
    bench.feed(job(index=20, used=True), allocation("a", index=21))

    step = bench.feed(job(RUNNER, "dead", index=19, created=19), allocation("a", RUNNER, "failed", index=20), index=22)

    assert step.changes == []
    assert bench.state() == "used"


# --- the end of a job -------------------------------------------------------------------------------------------------


def test_a_tombstone_is_not_raised_by_what_comes_late() -> None:
    bench = bench_with_pool(1)
    purge(bench, runner(0), index=300)

    for late in (
        job(runner(0), index=299, created=200),
        allocation("a0", runner(0), index=300, created=201),
        allocation("late", runner(0), index=299),
        evaluation("e", runner(0), "pending", index=299),
        evaluation("purge-300", runner(0), index=305, created=300),
    ):
        bench.feed(late)

    assert bench.judged(runner(0)) == ("gone", "purged", "deregistered")


def test_a_deregistration_older_than_the_job_is_of_an_earlier_one() -> None:
    bench = Bench()
    bench.feed(job(index=50), allocation("a", index=51))

    purge(bench, RUNNER, index=40)

    assert bench.state() == "idle"


def test_the_deregistration_of_a_job_that_never_was_makes_none() -> None:
    bench = Bench()

    bench.feed(event(evaluation("x", runner(7), "pending", index=40), "JobDeregistered"))
    bench.wait(1000)

    assert bench.state(runner(7)) != "gone"
    assert bench.actions == []


def test_newer_servers_tell_of_a_purge_with_the_job() -> None:
    for deleted in (False, True):
        bench = bench_with_pool(1)
        told = job(runner(0), index=202, created=200)
        bench.feed(event(told, "JobDeregistered", Deleted=deleted), index=300)
        assert bench.judged(runner(0)) == ("gone", "purged", "deregistered")


def test_a_stopped_job_that_is_purged_later_was_stopped() -> None:
    bench = bench_with_pool(1)
    stopped = job(runner(0), "dead", index=300, created=200, registered=300, version=1, Stop=True)
    bench.feed(event(stopped, "JobDeregistered"))
    assert bench.judged(runner(0)) == ("gone", "stopped", "deregistered")

    purge(bench, runner(0), index=310)

    assert bench.judged(runner(0)) == ("gone", "stopped", "deregistered")


def test_a_job_that_has_been_gone_for_long_is_forgotten_with_all_that_hangs_on_it() -> None:
    bench = bench_with_pool(1)
    purge(bench, runner(0), index=300)
    bench.wait(bench.core.model.retention_s - 1)
    bench.feed(node(node_id(9), index=310))
    assert runner(0) in bench.core.model.jobs

    step = bench.feed(node(node_id(9), "down", index=320), after_s=2)

    assert [forgotten.id for forgotten in step.forgotten] == [runner(0)]
    assert runner(0) not in bench.core.model.environments["10"].runners
    assert all(runner(0) not in each.jobs for each in bench.core.model.nodes.values())


# --- hearsay ----------------------------------------------------------------------------------------------------------


def test_an_allocation_may_come_before_its_job() -> None:
    bench = Bench()

    bench.feed(allocation("a", index=11))
    assert bench.state() == "idle"
    bench.feed(job(index=12, created=10, used=True))

    assert bench.state() == "used"


def test_hearsay_that_nothing_confirms_is_forgotten() -> None:
    bench = Bench()
    bench.feed(evaluation("e", status="pending", index=11))
    assert (bench.state(), list(bench.core.model.jobs)) == (None, [RUNNER])

    bench.feed(node(index=20), after_s=bench.core.model.retention_s)

    assert bench.core.model.jobs == {}
    assert bench.core.model.environments == {}


def test_the_configuration_group_has_no_allocations_that_count() -> None:
    bench = Bench()
    bench.feed(job(index=10))

    bench.feed({**allocation("a", index=11), "TaskGroup": "config"})

    assert bench.job().allocations == {}


# --- bounds -----------------------------------------------------------------------------------------------------------


def test_a_job_that_fails_for_days_does_not_fill_the_memory() -> None:
    bench = Bench()
    bench.feed(job(index=10))
    for number in range(500):
        index = 20 + 10 * number
        bench.feed(evaluation(f"e{number}", status="pending", index=index))
        bench.feed(allocation(f"a{number}", index=index + 1))
        bench.feed(evaluation(f"e{number}", index=index + 2, created=index))
        bench.feed(allocation(f"a{number}", RUNNER, "failed", "stop", index=index + 3, created=index + 1))

    record = bench.job()
    assert len(record.allocations) <= 32
    assert len(record.evaluations) <= 16
    assert record.current is not None
    assert record.current.data.id == "a499"
    # What made room does not come back.
    bench.feed(allocation("a0", RUNNER, "lost", "stop", index=9000, created=21))
    assert "a0" not in record.allocations


def test_an_allocation_that_runs_is_never_dropped_for_room() -> None:
    bench = Bench()
    bench.feed(job(index=10), allocation("a", index=11))
    for number in range(100):
        bench.feed(allocation(f"b{number}", RUNNER, "failed", "stop", index=20 + number))

    assert bench.state() == "idle"
    assert bench.job().current is bench.job().allocations["a"]
