"""The numbers of this moment beside those of the pools: nodes, risks, storms, pauses."""

from __future__ import annotations

from poseidon_reconciler.core.pauses import Pause
from poseidon_reconciler.core.status import at_risk_counts, node_of, node_rows
from poseidon_reconciler.policy import Policy, PoolPolicy
from tests.core.builders import START, Bench, bench_with_pool, haunted, lose, node, node_id, runner


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
