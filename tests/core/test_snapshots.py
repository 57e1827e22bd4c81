"""What lists prove, correct and leave open, by the index that each is true at."""

from __future__ import annotations

from tests.core.builders import RUNNER, TEMPLATE, Bench, allocation, bench_with_pool, job, node_id, runner


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
