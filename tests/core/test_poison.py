"""An environment whose new runners fail before they ran is tried less and less often, and fully again once one runs."""

from __future__ import annotations

import pytest

from poseidon_reconciler.core.ledger import ActionOutcome
from poseidon_reconciler.core.poison import LONGEST_WAIT_S, PROVEN_S
from tests.core.builders import (
    START,
    TEMPLATE,
    Bench,
    allocation,
    bench_with_pool,
    evaluation,
    job,
    lose,
    node_id,
    pool_policy,
    runner,
)

PATIENT = pool_policy(settle="0s", lost_grace="0s")


def created(bench: Bench, since: int = 0) -> list[str]:
    return [action.job_id for action in bench.actions[since:] if action.kind == "create-runner"]


def fails(bench: Bench, job_id: str, *, index: int, client: str = "failed") -> None:
    """A new runner is seen, is placed, and ends before it was of any use."""
    bench.feed(
        job(job_id, "dead", index=index, created=index - 2),
        allocation(f"x{index}", job_id, client, index=index, created=index - 1, node=node_id(1)),
    )


def runs(bench: Bench, job_id: str, *, index: int) -> None:
    bench.feed(
        job(job_id, index=index, created=index - 2),
        allocation(f"x{index}", job_id, index=index, created=index - 1, node=node_id(1)),
    )


def poisoned(rounds: int) -> tuple[Bench, list[float]]:
    """A pool in which each new runner fails, and how long was waited before each of the next ones."""
    bench = bench_with_pool(1, policy=PATIENT)
    lose(bench, 0, index=300)
    waits = []
    for number in range(rounds):
        index = 400 + 10 * number
        fails(bench, created(bench)[-1], index=index)
        failed_at = bench.now
        while len(created(bench)) < number + 2:
            bench.wait(1)
            assert bench.now < failed_at + 1000
        waits.append(bench.now - failed_at)
    return bench, waits


def test_the_first_loss_of_a_runner_of_poseidons_is_replaced_at_once() -> None:
    bench = bench_with_pool(1, policy=PATIENT)

    lose(bench, 0, index=300)

    assert len(created(bench)) == 1


def test_the_waits_double_with_each_failure_up_to_a_ceiling() -> None:
    _, waits = poisoned(8)

    assert waits == [10, 20, 40, 80, 160, LONGEST_WAIT_S, LONGEST_WAIT_S, LONGEST_WAIT_S]


def test_what_fails_together_is_one_round() -> None:
    bench = bench_with_pool(3, policy=PATIENT)
    for number in range(3):
        lose(bench, number, index=300 + number)
    bench.wait(60)
    ordered = created(bench)
    assert len(ordered) == 3

    for number, job_id in enumerate(ordered):
        fails(bench, job_id, index=400 + 10 * number)
    bench.wait(9)
    assert created(bench) == ordered
    bench.wait(2)

    assert len(created(bench)) == 4, "one alone is tried"


@pytest.mark.parametrize(("older_s", "replaced"), [(1, True), (-1, False)])
def test_what_was_on_its_way_before_another_succeeded_is_no_news(older_s: float, replaced: bool) -> None:
    bench = bench_with_pool(2, policy=PATIENT)
    for number in range(2):
        lose(bench, number, index=300 + number)
    hanging, other = created(bench)
    if older_s < 0:
        runs(bench, other, index=400)
        bench.wait(-older_s)
    bench.feed(job(hanging, index=410), allocation("h", hanging, "pending", index=411, node=node_id(2)))
    if older_s > 0:
        bench.wait(older_s)
        runs(bench, other, index=420)
    bench.wait(PROVEN_S + 1)

    bench.feed(
        job(hanging, "dead", index=500, created=410),
        allocation("h", hanging, "failed", index=500, created=411, node=node_id(2)),
    )
    bench.wait(1)

    assert (len(created(bench)) == 3) is replaced


def test_one_success_clears_it() -> None:
    bench, _ = poisoned(3)
    bench.feed(job("template-10", index=900, created=100, registered=900, version=1, target=4))
    bench.wait(120)
    before = created(bench)

    runs(bench, before[-1], index=950)
    bench.wait(PROVEN_S - 1)
    assert created(bench) == before, "it may yet end at once"
    bench.wait(2)

    assert len(created(bench)) == len(before) + 3
    assert bench.core.planner.refill.poison.of("10") is None


def test_a_used_runner_that_nomad_is_bringing_back_is_not_the_one_that_is_tried() -> None:
    bench = bench_with_pool(2, target=1, policy=PATIENT)
    bench.feed(job(runner(1), index=290, created=210, registered=290, version=1, used=True))
    bench.feed(
        allocation("a1", runner(1), "failed", index=295, created=211),
        evaluation("e1", runner(1), "pending", index=296, WaitUntil="2030-01-01T00:00:00Z"),
    )
    lose(bench, 0, index=300)

    fails(bench, created(bench)[-1], index=400)
    bench.wait(11)

    assert bench.state(runner(1)) == "recovering"
    assert len(created(bench)) == 2


def test_a_claim_is_a_success_too() -> None:
    bench, _ = poisoned(1)
    probe = created(bench)[-1]

    runs(bench, probe, index=950)
    bench.feed(job(probe, index=960, created=948, registered=960, version=1, used=True))
    bench.wait(1)

    assert bench.core.planner.refill.poison.of("10") is None
    assert len(created(bench)) == 3


def test_what_ends_at_once_has_not_succeeded() -> None:
    bench, _ = poisoned(1)
    probe = created(bench)[-1]
    runs(bench, probe, index=950)
    bench.wait(3)

    bench.feed(
        job(probe, "dead", index=960, created=948),
        allocation("x950", probe, "complete", index=960, created=949, node=node_id(1)),
    )
    bench.wait(19)
    assert len(created(bench)) == 2
    bench.wait(2)

    assert len(created(bench)) == 3


@pytest.mark.parametrize(("client", "desired"), [("lost", "stop"), ("complete", "stop")])
def test_what_nomad_or_a_node_has_ended_is_no_failure_of_the_runner(client: str, desired: str) -> None:
    bench = bench_with_pool(1, policy=PATIENT)
    lose(bench, 0, index=300)
    (replacement,) = created(bench)
    bench.feed(
        job(replacement, "dead", index=402, created=400),
        allocation("x", replacement, client, desired, index=402, created=401, node=node_id(1)),
    )
    bench.wait(1)

    assert len(created(bench)) == 2


def test_one_that_has_proven_itself_fails_no_environment() -> None:
    bench = bench_with_pool(1, policy=PATIENT)
    lose(bench, 0, index=300)
    (replacement,) = created(bench)
    runs(bench, replacement, index=402)
    bench.wait(PROVEN_S + 1)
    fails(bench, replacement, index=500)
    bench.wait(1)

    assert len(created(bench)) == 2


def test_it_is_explained_with_what_was_read_of_a_failure_and_with_its_end() -> None:
    bench = bench_with_pool(1, policy=PATIENT)
    lose(bench, 0, index=300)
    fails(bench, created(bench)[-1], index=400)
    removal = next(action for action in reversed(bench.actions) if action.kind == "remove-job")
    outcome = ActionOutcome("done", "stopped and purged", 410, "Failed to pull image: not found")
    bench.core.planner.take_outcome(removal, outcome, bench.now)

    (hold,) = bench.core.holds(bench.now)

    assert (hold.environment_id, hold.rule, hold.until) == ("10", "poisoned", bench.now + 10)
    assert hold.since == bench.now > START
    assert "failed before they ran, once: Failed to pull image: not found" in hold.reason
    assert "one that is tried has run" in hold.ends


def test_other_environments_go_on_and_their_storms_are_others() -> None:
    bench, _ = poisoned(4)
    bench.feed(
        job("template-11", index=900, target=2),
        allocation("u", "template-11", index=901, node=node_id(1)),
    )
    bench.wait(1)

    assert sum(action.environment_id == "11" for action in bench.actions) == 2


def test_an_instance_that_begins_while_all_has_failed_waits_as_well() -> None:
    bench, _ = poisoned(1)
    probe = created(bench)[-1]
    fresh = bench_with_pool(0, target=1, policy=PATIENT)
    before = len(fresh.actions)
    fails(fresh, probe, index=950)
    fresh.wait(5)

    assert created(fresh, before) == []


def test_the_hold_says_that_the_one_on_trial_waits_for_room() -> None:
    bench, _ = poisoned(1)
    tried = created(bench)[-1]
    bench.feed(job(tried, "pending", index=500), evaluation("b", tried, "blocked", index=501))
    bench.feed(job(TEMPLATE, index=510, created=100, registered=510, version=1, target=2))
    bench.wait(1)

    (hold,) = [hold for hold in bench.core.holds(bench.now) if hold.rule == "poisoned"]

    assert hold.until is None
    assert hold.ends.startswith("the one that is tried finds room and has run for 10s")
