"""The numbers of this moment beside those of the pools: nodes, risks, storms, pauses."""

from __future__ import annotations

from poseidon_reconciler.core.pauses import Pause
from poseidon_reconciler.core.status import (
    at_risk_counts,
    environment_rows,
    node_of,
    node_rows,
    not_counting,
    on_their_way,
)
from poseidon_reconciler.policy import Policy, PoolPolicy
from tests.core.builders import (
    START,
    Bench,
    Wire,
    allocation,
    bench_with_pool,
    evaluation,
    haunted,
    job,
    lose,
    node,
    node_id,
    pool_policy,
    runner,
)


def test_a_node_is_told_with_the_runners_that_stand_on_it() -> None:
    bench = bench_with_pool(4, nodes=2)
    lose(bench, 0, index=900)
    bench.wait(30)
    bench.feed(node(node_id(2), "down", index=901, Name="z", draining=True))
    first, second = node_rows(bench.core)
    assert (first.status, first.draining, first.runners) == ("ready", False, {"lost": 1, "idle": 1})
    assert (second.name, second.status, second.draining, second.since) == ("z", "down", True, bench.now)
    assert sum(second.runners.values()) == 2


def test_the_node_of_a_job_is_named() -> None:
    bench = bench_with_pool(1)
    assert node_of(bench.core, bench.job(runner(0))) == "agent-a0"


def test_jobs_at_risk_are_counted_by_environment() -> None:
    bench = bench_with_pool(3)
    bench.feed(haunted(bench, runner(0), index=900), haunted(bench, runner(1), index=900))
    assert at_risk_counts(bench.core) == {"10": 2}


def waits(number: int, *, index: int, used: bool = False) -> list[Wire]:
    """The runner was on a node that is gone, and there is no room for it elsewhere."""
    name, created = runner(number), 200 + 10 * number
    return [
        allocation(f"a{number}", name, "lost", "stop", index=index, created=created + 1, node=node_id(1 + number % 3)),
        job(name, "pending", index=index, created=created, registered=index if used else None, used=used),
        evaluation(f"blocked-{number}", name, "blocked", index=index),
    ]


def test_what_is_idle_on_its_way_and_lacking_make_up_the_target() -> None:
    """Used runners that wait are blocked like others, and do not count."""
    bench = bench_with_pool(5, target=6, policy=pool_policy(pause="so that nothing is ordered"))
    bench.feed(*waits(0, index=900, used=True), *waits(1, index=900), *waits(2, index=900))
    bench.feed(node(node_id(1), "disconnected", index=901), allocation(
        "a3", runner(3), "unknown", index=901, created=231, node=node_id(1)
    ))  # fmt: skip
    row, coming = environment_rows(bench.core)["10"], on_their_way(bench.core, "10")
    assert (row.blocked, row.used, coming) == (3, 0, {"blocked": 2})
    assert not_counting(bench.core, "10") == {"blocked": 1, "disconnected": 1}
    assert row.target == row.idle + sum(coming.values()) + row.deficit == 6
    assert (row.idle, row.deficit) == (1, 3)


def test_what_was_ordered_is_on_its_way() -> None:
    bench = bench_with_pool(2)
    lose(bench, 0, index=900)
    bench.wait(30)
    assert on_their_way(bench.core, "10") == {"expected": 1}
    assert not_counting(bench.core, "10") == {}


def test_a_storm_has_a_beginning_and_an_end() -> None:
    bench = bench_with_pool(4)
    told = [storm_of(bench)]
    bench.feed(node(node_id(1), "down", index=900), node(node_id(2), "down", index=900))
    told.append(storm_of(bench))
    began = bench.now
    bench.wait(120)
    told.append(storm_of(bench))
    assert told == [(None, None), (began, began + 30), (None, None)]


def storm_of(bench: Bench) -> tuple[float | None, float | None]:
    storm = bench.core.planner.storm
    return storm.since, storm.until


def test_pauses_of_the_configuration_are_told_once() -> None:
    pool = PoolPolicy(pause="exams", pause_until=START + 100)
    own = PoolPolicy(pause="broken image")
    policy = Policy(pool=pool, environments={"10": own, "11": pool})
    pauses = bench_with_pool(1, policy=policy).core.planner.pauses
    assert pauses.configured(START) == [Pause(None, "exams", 0.0, START + 100), Pause("10", "broken image", 0.0)]
    assert pauses.configured(START + 100) == [Pause("10", "broken image", 0.0)]
