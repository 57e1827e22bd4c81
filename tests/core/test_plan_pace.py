"""How much is done at once, in which order, and what a storm holds back."""

from __future__ import annotations

from itertools import pairwise

from poseidon_reconciler.core.ids import parse_job_id
from poseidon_reconciler.policy import PacePolicy, Policy, PoolPolicy
from tests.core.builders import (
    Bench,
    allocation,
    bench_with_pool,
    end_template,
    frame_of,
    haunted,
    job,
    lose,
    node,
    node_id,
    runner,
)


def test_what_prevents_comes_before_what_repairs_and_what_repairs_before_what_clears_away() -> None:
    policy = Policy(pool=PoolPolicy(settle_s=0.0), pace=PacePolicy(storm_share=1.0))
    bench = bench_with_pool(3, policy=policy)
    lost = allocation("a0", runner(0), "failed", index=300, created=201, node=node_id(1))
    bench.feed(lost, job(runner(0), "dead", index=300, created=200))
    end_template(bench, index=301)
    bench.wait(9.9)
    assert bench.actions == []

    # All of it is wanted in one step, because nothing was heard or done for a moment.
    step = bench.core.feed_frame(frame_of(310, [haunted(bench, runner(1), index=310)]), bench.now + 0.2)

    assert [action.kind for action in step.actions] == [
        "protect-job",
        "revive-environment",
        "create-runner",
        "remove-job",
    ]


def test_the_emptiest_pool_comes_first_and_none_waits_until_another_is_full() -> None:
    bench = Bench(Policy(pool=PoolPolicy(settle_s=0.0), pace=PacePolicy(max_creates_per_second=1.0)))
    objects = [node(node_id(number), index=number) for number in range(1, 10)]
    for environment_id, idle in (("1", 3), ("2", 0), ("3", 2)):
        template = f"template-{environment_id}"
        objects += [job(template, index=20, target=4), allocation(f"t{environment_id}", template, index=21)]
        for number in range(idle):
            name = runner(number, environment_id)
            objects += [job(name, index=30), allocation(f"{environment_id}-{number}", name, index=31)]
    bench.feed(*objects)
    bench.wait(10)

    assert [action.environment_id for action in bench.actions] == ["2", "2", "2", "3", "1", "2", "3"]


def test_creations_keep_to_their_rate_and_not_to_a_beat() -> None:
    bench = bench_with_pool(0, target=20, nodes=10)
    times = [action.at for action in bench.actions]
    at_once = times.count(times[0])
    gaps = [later - earlier for earlier, later in pairwise(times[at_once:])]

    assert len(times) == 20
    # A second's worth is there at the beginning, less what jitter takes off.
    assert at_once in (4, 5)
    assert all(0.2 - 1e-6 <= gap <= 0.25 + 1e-6 for gap in gaps)
    assert len({round(gap, 4) for gap in gaps}) > 10


def test_no_more_are_started_than_the_ready_nodes_can_bear() -> None:
    bench = bench_with_pool(0, target=20, nodes=2)
    bench.wait(1000)
    assert len(bench.actions) == 8
    assert [hold.reason for hold in bench.core.holds(bench.now)] == [
        "12 runners short, enough are starting on the ready nodes"
    ]

    # Three of them run; then a node is emptied.
    for number, action in enumerate(bench.actions[:3]):
        bench.feed(job(action.job_id, index=300 + number), allocation(f"x{number}", action.job_id, index=300 + number))
    bench.wait(1000)
    assert len(bench.actions) == 11

    bench.feed(node(node_id(1), index=400, draining=True))
    for number, action in enumerate(bench.actions[3:7]):
        bench.feed(job(action.job_id, index=410 + number), allocation(f"y{number}", action.job_id, index=410 + number))
    bench.wait(1000)

    assert len(bench.actions) == 11


def test_a_storm_is_waited_out_before_anything_is_repaired() -> None:
    bench = bench_with_pool(6)
    for number in range(3):
        lose(bench, number, index=300 + number)
    began = bench.now
    bench.wait(39)
    assert bench.actions == []
    (hold,) = [hold for hold in bench.core.holds(bench.now) if hold.environment_id is None]
    assert (hold.reason, hold.until) == ("storm: many runners or nodes were lost together", began + 40)

    bench.wait(2)

    assert sorted(bench.kinds()) == ["create-runner"] * 3 + ["remove-job"] * 3
    assert {action.at for action in bench.actions} == {began + 40}


def test_what_comes_back_during_a_storm_is_not_replaced() -> None:
    bench = bench_with_pool(6)
    for number in range(3):
        lose(bench, number, index=300 + number)
    bench.wait(20)
    for number in range(3):
        bench.feed(job(runner(number), index=400 + number, created=200 + 10 * number, registered=400, version=1))
        bench.feed(allocation(f"b{number}", runner(number), index=410 + number, node=node_id(1)))

    assert bench.wait(1000) == []


def test_pools_and_names_of_other_environments_are_never_mixed_up() -> None:
    bench = bench_with_pool(2, environment="1")
    bench.feed(job("template-11", index=250, target=1), allocation("t11", "template-11", index=251, node=node_id(3)))
    bench.wait(20)

    (created,) = bench.actions

    assert parse_job_id(created.job_id) == ("runner", "11")
