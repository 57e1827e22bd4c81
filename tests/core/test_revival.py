"""An environment's own job is revived when that helps, and not for ever in a hurry."""

from __future__ import annotations

from tests.core.builders import RUNNER, TEMPLATE, Bench, allocation, bench_with_pool, job


def test_one_that_hangs_while_it_starts_is_placed_anew_once_for_each_allocation() -> None:
    bench = Bench()
    bench.feed(job(TEMPLATE, index=10, target=0), allocation("t", TEMPLATE, "pending", index=11))
    bench.wait(1000)
    assert bench.judged(TEMPLATE) == ("lost", "never-started", "start-deadline-passed")
    assert bench.kinds() == ["revive-environment"]

    bench.feed(
        allocation("t", TEMPLATE, "complete", "stop", index=20, created=11, NextAllocation="u"),
        allocation("u", TEMPLATE, "pending", index=20, PreviousAllocation="t"),
    )
    bench.wait(1000)

    assert bench.kinds() == ["revive-environment"] * 2


def test_one_that_is_not_placed_anew_after_all_is_registered_anew() -> None:
    """As soon as the one that hangs is stopped, one that ended in an outage before passes for the job's success."""
    bench = Bench()
    bench.feed(job(TEMPLATE, index=10, target=0), allocation("t", TEMPLATE, "pending", index=11))
    bench.wait(1000)
    assert bench.kinds() == ["revive-environment"]

    bench.feed(
        allocation("t", TEMPLATE, "pending", "stop", index=20, created=11),
        job(TEMPLATE, "dead", index=20, created=10, target=0),
    )
    bench.wait(100)

    assert bench.kinds() == ["revive-environment"] * 2


def test_one_that_dies_again_and_again_is_revived_after_longer_and_longer_waits() -> None:
    bench = bench_with_pool(0, target=0)
    waits, version = [], 100
    for index in range(300, 350, 10):
        bench.feed(
            allocation("t", TEMPLATE, "complete", index=index, created=101),
            job(TEMPLATE, "dead", index=index, created=100, registered=version, target=0),
        )
        ended_at = bench.now
        while not bench.wait(1):
            assert bench.now < ended_at + 2000
        waits.append(round(bench.now - ended_at))
        version = index + 1
        bench.feed(
            job(TEMPLATE, index=version, created=100, registered=version, target=0),
            allocation("t", TEMPLATE, index=version, created=101),
        )

    assert set(bench.kinds()) == {"revive-environment"}
    assert waits == sorted(waits)
    assert waits[0] == 10
    assert waits[-1] > 200


def test_a_copy_in_sight_stands_for_the_job_and_not_its_successor_that_was_lost_sight_of() -> None:
    bench = Bench()
    bench.feed(job(RUNNER, index=20), allocation("a", index=21))
    bench.feed(allocation("b", status="unknown", index=30, PreviousAllocation="a"))

    assert bench.state() == "idle"
