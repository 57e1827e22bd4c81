"""By when a copy that nobody sees can no longer run, under each disconnect policy."""

from __future__ import annotations

import pytest

from poseidon_reconciler.core import conditions
from poseidon_reconciler.core.conditions import Condition
from poseidon_reconciler.core.rules import table_for
from tests.core.builders import RUNNER, TEMPLATE, Bench, Wire, allocation, event, job, node, node_id, pool_policy, purge

FREEZE_S = {"Tasks": [{"Name": "default-task", "KillTimeout": 5 * 10**9}]}
STOP_AFTER: Wire = {**FREEZE_S, "StopAfterClientDisconnect": 60 * 10**9}
HOME, OTHER = node_id(1), node_id(2)


def bench_of(disconnect_policy: str, group: Wire | None = None) -> Bench:
    """A runner on a node, under a grace of 7 s and a clock margin of 11 s; a minute has passed."""
    bench = Bench(pool_policy(disconnect_policy=disconnect_policy, lost_grace_s=7.0, clock_margin_s=11.0))
    bench.feed(node(HOME, index=1), node(OTHER, index=2))
    bench.feed(job(index=10, group=group or FREEZE_S))
    bench.feed(allocation("a", index=11, node=HOME))
    bench.wait(60)
    return bench


def due_in(bench: Bench) -> float | None:
    """In how many seconds time alone changes the verdict."""
    due_at = bench.verdict().due_at
    return due_at - bench.now if due_at is not None else None


def lose(bench: Bench, *, index: int = 30) -> None:
    """Nomad gives the allocation up and has nowhere to go."""
    bench.feed(allocation("a", RUNNER, "lost", "stop", index=index, created=11, node=HOME))
    bench.feed(job(RUNNER, "dead", index=index + 1, created=10))


# --- a node that is down --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "group", "seconds"),
    [
        ("at-least", FREEZE_S, 7.0),
        ("at-least", STOP_AFTER, 7.0),
        ("exactly", FREEZE_S, None),
        ("exactly", STOP_AFTER, 60.0 + 5.0 + 11.0),
        ("exactly", {**STOP_AFTER, "Volumes": {"data": {"Type": "csi"}}}, None),
        ("at-least", {**STOP_AFTER, "Volumes": {"data": {"Type": "csi"}}}, 7.0),
        ("leave-alone", FREEZE_S, None),
        ("leave-alone", STOP_AFTER, None),
    ],
)
def test_how_long_a_runner_on_a_node_that_is_down_is_only_disconnected(
    policy: str, group: Wire, seconds: float | None
) -> None:
    bench = bench_of(policy, group)

    bench.feed(node(HOME, "down", index=20))

    assert bench.judged() == ("disconnected", None, "out-of-reach")
    assert due_in(bench) == seconds
    bench.wait(seconds if seconds is not None else 1e6)
    assert bench.state() == ("disconnected" if seconds is None else "lost")


@pytest.mark.parametrize(
    ("policy", "group", "seconds"),
    [("at-least", STOP_AFTER, None), ("exactly", STOP_AFTER, 76.0), ("leave-alone", STOP_AFTER, None)],
)
def test_how_long_a_runner_on_a_disconnected_node_is_so(policy: str, group: Wire, seconds: float | None) -> None:
    bench = bench_of(policy, group)

    bench.feed(node(HOME, "disconnected", index=20))
    bench.feed(allocation("a", RUNNER, "unknown", index=21, created=11, node=HOME))

    assert bench.judged() == ("disconnected", None, "out-of-reach")
    assert due_in(bench) == seconds


def test_a_disconnected_node_that_goes_down_has_its_grace_from_then_on() -> None:
    bench = bench_of("at-least")
    bench.feed(node(HOME, "disconnected", index=20))
    bench.feed(node(HOME, "down", index=21), after_s=500)

    assert due_in(bench) == 7.0


def test_a_disconnect_that_is_over_ends_the_wait() -> None:
    bench = bench_of("exactly", STOP_AFTER)
    bench.feed(node(HOME, "down", index=20))

    bench.feed(node(HOME, "ready", index=21), after_s=30)
    bench.wait(1000)

    assert bench.judged() == ("idle", None, "running")


@pytest.mark.parametrize("policy", ["at-least", "exactly", "leave-alone"])
def test_what_stood_on_a_node_that_was_removed_runs_nowhere(policy: str) -> None:
    bench = bench_of(policy)
    home = node(HOME, "down", index=20)
    bench.feed(home)

    bench.feed(event(home, "NodeDeregistration"), index=21)

    expected = "disconnected" if policy == "leave-alone" else "lost"
    assert bench.state() == expected


# --- an allocation that Nomad has given up --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "group", "seconds"),
    [
        ("at-least", FREEZE_S, 7.0),
        ("exactly", STOP_AFTER, 76.0),
        ("exactly", FREEZE_S, None),
        ("leave-alone", STOP_AFTER, None),
    ],
)
def test_how_long_a_lost_allocation_may_still_run(policy: str, group: Wire, seconds: float | None) -> None:
    bench = bench_of(policy, group)
    bench.feed(node(HOME, "down", index=20))
    began = bench.now
    lose(bench)

    bench.wait(1e5)

    steps = [step.at - began for step in bench.steps for change in step.changes if change.verdict.state == "lost"]
    assert steps == ([] if seconds is None else [seconds])


def test_a_copy_elsewhere_that_may_run_keeps_an_exactly_pool_waiting_for_it_alone() -> None:
    bench = bench_of("exactly", STOP_AFTER)
    bench.feed(node(HOME, "down", index=20))
    began = bench.now
    bench.feed(
        allocation("a", RUNNER, "lost", "stop", index=30, created=11, node=HOME, NextAllocation="b"),
        allocation("b", RUNNER, "pending", index=30, node=OTHER, PreviousAllocation="a"),
    )
    bench.feed(
        allocation("b", RUNNER, "failed", index=40, created=30, node=OTHER, PreviousAllocation="a"),
        job(RUNNER, "dead", index=40, created=10),
        after_s=20,
    )
    bench.wait(1e5)

    steps = [step.at - began for step in bench.steps for change in step.changes if change.verdict.state == "lost"]
    assert steps == [76.0]
    assert bench.judged() == ("lost", "exhausted", "attempts-used-up")


@pytest.mark.parametrize("job_id", [RUNNER, TEMPLATE])
@pytest.mark.parametrize("client", ["running", "pending"])
@pytest.mark.parametrize("status", ["down", "disconnected"])
@pytest.mark.parametrize(
    ("policy", "group", "seconds"),
    [
        ("exactly", STOP_AFTER, 76.0),
        ("exactly", FREEZE_S, None),
        ("at-least", FREEZE_S, 7.0),
        ("leave-alone", STOP_AFTER, None),
    ],
)
def test_an_order_to_stop_does_not_reach_a_node_that_is_away(
    policy: str, group: Wire, seconds: float | None, status: str, client: str, job_id: str
) -> None:
    bench = bench_of(policy, group)
    bench.feed(job(job_id, index=15, group=group), allocation("b", job_id, client, index=16, node=HOME))
    bench.feed(
        allocation("b", job_id, client, "stop", index=20, created=16, node=HOME),
        job(job_id, "dead", index=21, created=15, registered=15),
    )
    bench.feed(node(HOME, status, index=22))
    began = bench.now

    bench.wait(1e5)

    lost = [
        step.at - began
        for step in bench.steps
        for change in step.changes
        if change.job.id == job_id and change.verdict.state == "lost"
    ]
    assert lost == ([] if seconds is None else [seconds])


@pytest.mark.parametrize("client", ["running", "pending"])
@pytest.mark.parametrize(("group", "seconds"), [(FREEZE_S, None), (STOP_AFTER, 76.0)])
def test_what_was_drained_off_a_node_that_went_down_before_it_had_ended_may_still_run(
    client: str, group: Wire, seconds: float | None
) -> None:
    bench = bench_of("exactly", group)
    bench.feed(allocation("a", RUNNER, client, "stop", index=20, created=11, node=HOME))
    bench.feed(job(RUNNER, "dead", index=21, created=10))

    bench.feed(node(HOME, "down", index=22))
    began = bench.now
    bench.wait(1e5)

    steps = [step.at - began for step in bench.steps for change in step.changes if change.verdict.state == "lost"]
    assert steps == ([] if seconds is None else [seconds])


# --- a job that is gone, whose copy may run -------------------------------------------------------------------------


@pytest.mark.parametrize(("group", "seconds"), [(FREEZE_S, None), (STOP_AFTER, 76.0)])
def test_the_copy_of_a_purged_exactly_runner_on_a_node_that_is_down_counts_until_it_has_ended(
    group: Wire, seconds: float | None
) -> None:
    bench = bench_of("exactly", group)
    bench.feed(node(HOME, "down", index=20))

    purge(bench, RUNNER, index=30)

    assert bench.judged() == ("disconnected", None, "gone-copy-may-run")
    assert bench.verdict().counts
    assert due_in(bench) == seconds


@pytest.mark.parametrize("is_known_lost", [True, False])
def test_it_ends_soon_after_its_agent_is_back(is_known_lost: bool) -> None:
    bench = bench_of("exactly")
    bench.feed(node(HOME, "down", index=20))
    if is_known_lost:
        lose(bench, index=25)
    purge(bench, RUNNER, index=30)

    bench.feed(node(HOME, "ready", index=40), after_s=1000)

    assert due_in(bench) == 16.0
    bench.wait(16.0)
    assert bench.judged() == ("gone", "purged", "deregistered")


@pytest.mark.parametrize("client", ["running", "pending"])
def test_a_stopped_exactly_runner_counts_until_its_agent_says_that_it_has_ended(client: str) -> None:
    bench = bench_of("exactly")
    bench.feed(allocation("a", RUNNER, client, index=20, created=11, node=HOME))

    bench.feed(job(RUNNER, index=30, created=10, registered=30, group=FREEZE_S, Stop=True))
    assert bench.judged() == ("disconnected", None, "gone-copy-may-run")
    assert due_in(bench) == 16.0
    bench.feed(allocation("a", RUNNER, client, "stop", index=31, created=11, node=HOME))
    assert bench.judged() == ("disconnected", None, "gone-copy-may-run")
    assert bench.verdict().counts
    bench.feed(allocation("a", RUNNER, "complete", "stop", index=32, created=11, node=HOME))

    assert bench.judged() == ("gone", "stopped", "deregistered")


def test_a_stopped_exactly_runner_whose_agent_is_away_counts_until_somebody_tells() -> None:
    bench = bench_of("exactly")
    bench.feed(node(HOME, "down", index=20))

    bench.feed(job(RUNNER, index=30, created=10, registered=30, group=FREEZE_S, Stop=True))

    assert bench.judged() == ("disconnected", None, "gone-copy-may-run")
    assert due_in(bench) is None


@pytest.mark.parametrize("policy", ["at-least", "leave-alone"])
def test_other_pools_do_not_wait_for_the_copy_of_a_purged_runner(policy: str) -> None:
    bench = bench_of(policy)
    bench.feed(node(HOME, "down", index=20))

    purge(bench, RUNNER, index=30)

    assert bench.judged() == ("gone", "purged", "deregistered")


# --- the sentences --------------------------------------------------------------------------------------------------


def test_every_condition_has_a_sentence_of_its_own_and_is_asked() -> None:
    every = {name: each for name, each in vars(conditions).items() if isinstance(each, Condition)}
    asked = {each.text for kind in ("runner", "environment") for rule in table_for(kind) for each in rule.conditions}

    assert len({each.text for each in every.values()}) == len(every)
    assert {each.text for each in every.values()} == asked


def test_a_rule_says_when_it_is_due_exactly_if_it_asks_for_the_time() -> None:
    for kind in ("runner", "environment"):
        for rule in table_for(kind):
            assert (rule.due is not None) == any(each.timed for each in rule.conditions), rule.name
