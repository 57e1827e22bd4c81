"""What is paused is judged and left alone, until the pause ends; everything else goes on."""

from __future__ import annotations

import pytest

from poseidon_reconciler.core.pauses import Pause
from poseidon_reconciler.policy import Policy, PoolPolicy
from tests.core.builders import START, Bench, bench_with_pool, haunted, lose, pool_policy, runner


def pause(bench: Bench, environment_id: str | None, for_s: float | None = None) -> None:
    until = bench.now + for_s if for_s is not None else None
    bench.core.pause(Pause(environment_id, "maintenance", bench.now, until))


@pytest.mark.parametrize("environment_id", [None, "10"])
def test_nothing_is_done_while_paused_and_everything_after_it(environment_id: str | None) -> None:
    bench = bench_with_pool(2)
    pause(bench, environment_id)
    lose(bench, 0, index=300)
    bench.feed(haunted(bench, runner(1), index=310))
    bench.wait(600)

    assert bench.actions == []
    assert [(hold.rule, hold.reason, hold.until) for hold in bench.core.holds(bench.now)] == [
        ("paused", "paused: maintenance", None)
    ]

    bench.core.resume(environment_id)
    bench.wait(1)
    assert sorted(bench.kinds()) == ["create-runner", "protect-job", "remove-job"]


def test_a_pause_expires_by_itself() -> None:
    bench = bench_with_pool(1)
    pause(bench, "10", for_s=100)
    lose(bench, 0, index=300)

    bench.wait(99)
    assert bench.actions == []
    bench.wait(2)

    assert sorted(bench.kinds()) == ["create-runner", "remove-job"]


def test_another_environment_is_not_paused() -> None:
    bench = bench_with_pool(1)
    pause(bench, "1")

    lose(bench, 0, index=300)
    bench.wait(60)

    assert sorted(bench.kinds()) == ["create-runner", "remove-job"]


def test_the_configuration_pauses_until_a_time() -> None:
    policy = pool_policy(pause="upgrade", pause_until=START + 200)
    bench = bench_with_pool(1, policy=policy)
    lose(bench, 0, index=300)

    bench.wait(START + 199 - bench.now)
    assert bench.actions == []
    bench.wait(2)

    assert sorted(bench.kinds()) == ["create-runner", "remove-job"]


def test_an_environment_can_be_excepted_from_a_pause_of_all() -> None:
    policy = Policy(pool=PoolPolicy(pause="upgrade"), environments={"10": PoolPolicy()})
    bench = bench_with_pool(1, policy=policy)

    lose(bench, 0, index=300)
    bench.wait(60)

    assert bench.kinds() != []


def test_the_longest_of_several_pauses_counts() -> None:
    bench = bench_with_pool(1)
    pause(bench, "10", for_s=50)
    pause(bench, None, for_s=100)
    lose(bench, 0, index=300)

    bench.wait(99)
    assert bench.actions == []
    bench.wait(2)
    assert bench.actions != []


def test_another_policy_takes_effect_without_another_event() -> None:
    bench = bench_with_pool(1, policy=pool_policy(pause="upgrade"))
    lose(bench, 0, index=300)
    bench.wait(600)

    bench.core.change_policy(Policy())
    bench.wait(1)

    assert sorted(bench.kinds()) == ["create-runner", "remove-job"]
