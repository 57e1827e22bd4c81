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
