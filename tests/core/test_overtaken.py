"""What was decided on and not carried out yet is given up as soon as it would not be decided on any more."""

from __future__ import annotations

import pytest

from poseidon_reconciler.core.ledger import Action
from poseidon_reconciler.core.overtaken import is_overtaken
from tests.core.builders import (
    TEMPLATE,
    Bench,
    allocation,
    bench_with_pool,
    end_template,
    job,
    lose,
    node_id,
    pool_policy,
    purge,
    runner,
)


def decided(bench: Bench, kind: str) -> Action:
    return next(action for action in bench.actions if action.kind == kind)


def holds(bench: Bench, action: Action) -> bool:
    return not is_overtaken(bench.core.planner, action, bench.now)


def runs(bench: Bench, job_id: str, *, index: int) -> None:
    """An allocation of a job runs, a new one."""
    bench.feed(job(job_id, index=index), allocation(f"new-{index}", job_id, index=index, node=node_id(1)))


def test_a_creation_holds_until_others_have_filled_the_pool() -> None:
    bench = bench_with_pool(1, target=3)
    creations = [action for action in bench.actions if action.kind == "create-runner"]
    assert len(creations) == 2
    assert all(holds(bench, creation) for creation in creations)

    runs(bench, runner(7), index=400)

    assert not any(holds(bench, creation) for creation in creations)


def test_a_creation_that_is_seen_holds() -> None:
    bench = bench_with_pool(1, target=2)
    creation = decided(bench, "create-runner")
    runs(bench, creation.job_id, index=400)
    assert holds(bench, creation)


def test_a_creation_beyond_the_ceiling_holds_no_longer() -> None:
    bench = bench_with_pool(2, target=3, policy=pool_policy(max_jobs=3))
    creation = decided(bench, "create-runner")
    assert holds(bench, creation)

    bench.feed(job(runner(7), "dead", index=400), allocation("a7", runner(7), "failed", index=400, node=node_id(1)))
    bench.wait(20)

    assert not holds(bench, creation)


def test_a_removal_holds_until_the_runner_runs() -> None:
    bench = bench_with_pool(1)
    lose(bench, 0, index=300)
    bench.wait(30)
    removal = decided(bench, "remove-job")
    assert holds(bench, removal)

    bench.feed(job(runner(0), index=310, created=200), allocation("b", runner(0), index=310, node=node_id(1)))

    assert not holds(bench, removal)


@pytest.mark.parametrize("is_purged", [False, True])
def test_a_removal_that_has_begun_holds(is_purged: bool) -> None:
    bench = bench_with_pool(1)
    lose(bench, 0, index=300)
    bench.wait(30)
    removal = decided(bench, "remove-job")

    if is_purged:
        purge(bench, runner(0), index=310)
    else:
        bench.feed(job(runner(0), "dead", index=310, created=200, Stop=True))

    assert holds(bench, removal)


def test_a_revival_holds_until_the_environment_runs() -> None:
    bench = bench_with_pool(1)
    end_template(bench, index=300)
    bench.wait(30)
    revival = decided(bench, "revive-environment")
    assert holds(bench, revival)

    bench.feed(job(TEMPLATE, index=310, created=100), allocation("b", TEMPLATE, index=310, node=node_id(1)))

    assert not holds(bench, revival)


def surplus_of_one() -> tuple[Bench, Action]:
    bench = bench_with_pool(3, policy=pool_policy(surplus="trim"))
    bench.feed(job(TEMPLATE, index=500, created=100, registered=500, version=1, target=2))
    bench.wait(30)
    trimming = decided(bench, "stop-surplus")
    assert holds(bench, trimming)
    return bench, trimming


def test_a_surplus_is_left_alone_once_another_runner_was_claimed() -> None:
    bench, trimming = surplus_of_one()
    bench.feed(job(runner(0), index=510, created=200, registered=510, version=1, used=True))
    assert not holds(bench, trimming)


def test_a_surplus_is_left_alone_once_the_target_is_as_it_was() -> None:
    bench, trimming = surplus_of_one()
    bench.feed(job(TEMPLATE, index=510, created=100, registered=510, version=2, target=3))
    assert not holds(bench, trimming)


def test_a_surplus_is_left_alone_once_it_is_not_idle() -> None:
    bench, trimming = surplus_of_one()
    created = 221
    bench.feed(allocation("a2", runner(2), "pending", index=510, created=created, node=node_id(3)))
    assert not holds(bench, trimming)
