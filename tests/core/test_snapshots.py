"""What lists prove, correct and leave open, by the index that each is true at."""

from __future__ import annotations

from tests.core.builders import (
    RUNNER,
    TEMPLATE,
    Bench,
    allocation,
    bench_with_pool,
    evaluation,
    job,
    node,
    node_id,
    purge,
    runner,
    stub,
)


def test_a_list_knows_the_last_of_two_words_of_one_index() -> None:
    bench = bench_with_pool(1)
    failed = allocation("a0", runner(0), "failed", index=300, created=201, node=node_id(1))
    bench.feed(failed, job(runner(0), "dead", index=300, created=200))

    # The line that said `pending`, of the same index, was cut off with the connection.
    template = job(TEMPLATE, index=102, created=100, target=1)
    bench.read(310, Jobs=[job(runner(0), "pending", index=300, created=200), template])
    bench.wait(60)

    assert bench.job(runner(0)).status == "pending"
    assert bench.state(runner(0)) == "recovering"


def test_a_job_known_by_its_allocation_alone_is_gone_if_a_newer_list_of_jobs_lacks_it() -> None:
    bench = Bench()
    bench.feed(allocation("a", index=30))
    assert bench.state() == "idle"

    bench.read({"Jobs": 50}, Jobs=[])

    assert bench.state() in ("gone", None)


def test_a_listed_allocation_that_is_older_than_its_job_puts_nothing_at_risk() -> None:
    bench = Bench()
    of_the_purged_job = allocation("old", client="complete", desired="stop", index=40, JobVersion=0)
    own = allocation("own", index=51, JobVersion=0)

    bench.read(60, Jobs=[job(RUNNER, index=51, created=50)], Allocations=[of_the_purged_job, own])

    assert not bench.verdict().at_risk
    assert bench.actions == []


def test_the_mark_of_a_claim_that_only_stubs_told_of_is_read_from_the_next_whole_job() -> None:
    bench = bench_with_pool(1)
    claimed = job(runner(0), index=300, created=200, registered=300, version=1, used=True)
    template = job(TEMPLATE, index=102, created=100, target=1)

    bench.read(310, Jobs=[stub(claimed), stub(template)])
    bench.read(310, Jobs=[claimed, template])

    assert bench.state(runner(0)) == "used"


def test_what_a_list_knew_of_a_job_before_the_job_itself_was_heard_of_is_not_forgotten() -> None:
    bench = bench_with_pool(1)
    purge(bench, TEMPLATE, index=300)
    # The environment was deleted and made anew; the lists are read one after the other, that of the jobs first.
    own = allocation("t2", TEMPLATE, index=320, node=node_id(1))
    bench.read({"Jobs": 305, "Allocations": 325}, Jobs=[job(runner(0), index=202, created=200)], Allocations=[own])
    bench.feed(job(TEMPLATE, index=320, created=310, target=1))

    bench.read(330, Jobs=[job(TEMPLATE, index=320, created=310, target=1)], Allocations=[own])

    assert bench.state(TEMPLATE) == "active"


def test_an_allocation_of_a_job_that_the_lists_do_not_have_is_no_runner() -> None:
    bench = Bench()

    bench.read(60, Jobs=[job(TEMPLATE, index=10, target=1)], Allocations=[allocation("a", index=31)])

    assert bench.state() is None


def test_a_job_that_the_lists_do_not_have_is_not_raised_by_an_old_line() -> None:
    bench = Bench()
    purged = evaluation("e", status="complete", index=41, created=40)
    bench.read(60, Jobs=[job(TEMPLATE, index=10, target=1)], Evaluations=[purged])

    # A server that was restarted replays its log.
    bench.feed(job(RUNNER, index=20))

    assert bench.state() is None


def test_a_node_that_the_list_of_nodes_does_not_have_is_gone() -> None:
    bench = Bench()

    other = node(node_id(2), index=1)
    bench.read(60, Jobs=[job(RUNNER, index=20)], Allocations=[allocation("a", index=31)], Nodes=[other])
    bench.wait(60)

    assert bench.judged() == ("lost", "node-lost", "node-is-gone")
