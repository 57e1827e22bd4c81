"""A policy that changes while everything goes on: as if it had been so all along."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poseidon_reconciler.core.pauses import Pause
from poseidon_reconciler.core.reconciler import Reconciler
from poseidon_reconciler.policy import PacePolicy, Policy, PoolPolicy
from tests.core.builders import (
    START,
    Bench,
    allocation,
    bench_with_pool,
    haunted,
    job,
    lose,
    pool_policy,
    runner,
)
from tests.core.histories import Input, Move, examples, hear, moves, record, settle, wait
from tests.core.recount import recounted, stored

EVERYTHING = Pause(None, "looked at", START)


def policies() -> st.SearchStrategy[Policy]:
    """Policies that differ in all that a verdict or a plan rests on; some have an exception for the one environment."""
    pools = st.builds(
        PoolPolicy,
        lost_grace_s=st.sampled_from((0.0, 5.0, 10.0, 600.0)),
        settle_s=st.sampled_from((0.0, 10.0, 60.0)),
        start_deadline_s=st.sampled_from((1.0, 300.0)),
        protect=st.booleans(),
        disconnect_policy=st.sampled_from(("at-least", "exactly", "leave-alone")),
        clock_margin_s=st.sampled_from((0.0, 10.0)),
    )
    return st.builds(
        Policy,
        pool=pools,
        pace=st.builds(PacePolicy, max_creates_per_second=st.sampled_from((0.01, 5.0))),
        environments=st.one_of(st.just({}), st.builds(lambda own: {"10": own}, pools)),
    )


def paused(policy: Policy) -> Reconciler:
    """A reconciler that judges everything and does nothing yet."""
    core = Reconciler(policy)
    core.pause(EVERYTHING)
    return core


def hear_all(core: Reconciler, inputs: list[Input]) -> None:
    for heard in inputs:
        hear(core, heard)


def decided(core: Reconciler) -> set[tuple[str, str, str | None]]:
    """What is decided from now on, until nothing is due."""
    core.resume(None)
    steps = [core.advance(core.now), *settle(core)]
    return {(action.kind, action.job_id, action.replaces) for step in steps for action in step.actions}


@examples(120)
@given(played=moves(), first=policies(), second=policies(), share=st.floats(0, 1))
def test_the_verdicts_are_those_of_a_policy_that_was_so_all_along(
    played: list[Move], first: Policy, second: Policy, share: float
) -> None:
    inputs = record(played).inputs
    cut = int(share * len(inputs))
    changed, always = paused(first), paused(second)
    hear_all(changed, inputs[:cut])
    hear_all(always, inputs[:cut])

    changed.change_policy(second)
    changed.advance(changed.now)
    always.advance(always.now)

    assert stored(changed) == stored(always)
    assert stored(changed) == recounted(changed)

    hear_all(changed, inputs[cut:])
    hear_all(always, inputs[cut:])
    settle(changed)
    settle(always)

    assert stored(changed) == stored(always)


@examples(80)
@given(played=moves(), first=policies(), second=policies())
def test_what_is_decided_an_hour_later_is_too(played: list[Move], first: Policy, second: Policy) -> None:
    """An hour, because how long a pool has been short, and what is a storm, is counted from when it is seen."""
    inputs = record(played).inputs
    changed, always = paused(first), paused(second)
    hear_all(changed, inputs)
    hear_all(always, inputs)

    changed.change_policy(second)
    for core in (changed, always):
        until = max(core.now, START) + 3600
        wait(core, until)
        core.advance(until)

    assert decided(changed) == decided(always)


@examples(50)
@given(played=moves(), policy=policies())
def test_the_same_policy_again_changes_nothing(played: list[Move], policy: Policy) -> None:
    core = Reconciler(policy)
    hear_all(core, record(played).inputs)
    core.advance(core.now)
    before = stored(core)

    core.change_policy(policy.model_copy(deep=True))
    step = core.advance(core.now)

    assert (step.changes, step.actions) == ([], [])
    assert stored(core) == before


# --- one thing after the other ----------------------------------------------------------------------------------------


def changed(bench: Bench, policy: Policy) -> list[tuple[str, str]]:
    """What is decided at once by another policy."""
    before = len(bench.actions)
    bench.core.change_policy(policy)
    bench._keep(bench.core.advance(bench.now))
    return [(action.kind, action.job_id) for action in bench.actions[before:]]


def test_a_shorter_settle_takes_effect_at_once() -> None:
    bench = bench_with_pool(2, policy=pool_policy(settle_s=3600, lost_grace_s=0))
    lose(bench, 0, index=300)
    bench.wait(60)
    assert bench.kinds() == ["remove-job"]

    assert [kind for kind, _ in changed(bench, pool_policy(settle_s=30))] == ["create-runner"]


def test_protection_that_is_allowed_later_is_given_to_what_has_been_at_risk_for_long() -> None:
    bench = bench_with_pool(2, policy=pool_policy(protect=False))
    bench.feed(haunted(bench, runner(0), index=300))
    assert bench.wait(600) == []

    assert changed(bench, pool_policy()) == [("protect-job", runner(0))]


def test_a_pause_of_the_configuration_ends_with_it() -> None:
    bench = bench_with_pool(2, policy=pool_policy(pause="agents are upgraded"))
    lose(bench, 0, index=300)
    assert bench.wait(600) == []

    assert {kind for kind, _ in changed(bench, pool_policy())} == {"create-runner", "remove-job"}


def test_what_is_lost_under_one_policy_is_not_under_another() -> None:
    bench = bench_with_pool(2, policy=pool_policy(lost_grace_s=10, settle_s=3600))
    lose(bench, 0, index=300)
    bench.wait(60)
    assert bench.state(runner(0)) == "lost"

    changed(bench, pool_policy(lost_grace_s=120, settle_s=0))

    assert bench.state(runner(0)) == "recovering"
    assert bench.core.planner.deficit("10") == 0


@pytest.mark.parametrize(("pace", "held_s"), [({"storm_max_hold": "0"}, 0), ({"storm_settle": "45s"}, 25)])
def test_a_storm_that_goes_on_is_held_for_as_long_as_the_new_pace_says(pace: dict[str, Any], held_s: float) -> None:
    bench = bench_with_pool(6)
    for number in range(3):
        lose(bench, number, index=300 + number)
    bench.wait(30)
    assert bench.core.holds(bench.now)

    changed(bench, Policy(pace=PacePolicy(**pace)))
    at = bench.now
    bench.wait(300)

    assert {round(action.at - at) for action in bench.actions} == {held_s}


def test_a_rate_that_was_slow_does_not_hold_back_what_a_faster_one_allows() -> None:
    bench = bench_with_pool(0, target=4, policy=Policy(pace=PacePolicy(max_creates_per_second=0.001)))
    bench.wait(60)
    assert len(bench.actions) == 1

    assert len(changed(bench, Policy(pace=PacePolicy(max_creates_per_second=5)))) == 3


def test_an_environment_can_get_a_policy_of_its_own() -> None:
    bench = bench_with_pool(2)
    bench.feed(job("template-11", index=400, target=1), allocation("t11", "template-11", index=401, node="n"))
    own = {"11": PoolPolicy(pause="not this one")}
    bench.core.change_policy(Policy(environments=own))

    assert bench.wait(600) == []
    assert [hold.reason for hold in bench.core.holds(bench.now)] == ["paused: not this one"]
