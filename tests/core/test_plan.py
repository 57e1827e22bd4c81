"""What is decided, in which order, how much of it at once, and what is held back."""

from __future__ import annotations

import pytest

from poseidon_reconciler.core.ids import refill_id, replacement_id
from poseidon_reconciler.core.ledger import ActionOutcome, Result
from tests.core.builders import (
    TEMPLATE,
    Bench,
    Wire,
    allocation,
    bench_with_pool,
    end_template,
    evaluation,
    event,
    haunted,
    job,
    lose,
    node,
    node_id,
    pool_policy,
    purge,
    runner,
)


def test_a_larger_target_is_filled_without_waiting_for_another_event() -> None:
    bench = bench_with_pool(1)

    bench.feed(job(TEMPLATE, index=300, created=100, registered=300, version=1, target=3))
    bench.wait(30)

    assert bench.kinds() == ["create-runner"] * 2


def test_a_pool_that_had_no_room_is_filled_when_a_node_becomes_ready() -> None:
    bench = Bench()
    bench.feed(node(node_id(1), index=1, draining=True))
    bench.feed(job(TEMPLATE, index=11, created=10, target=2))
    bench.feed(allocation("t", TEMPLATE, index=12, node=node_id(1)))
    bench.wait(100)
    assert bench.actions == []

    bench.feed(node(node_id(2), index=200))
    bench.wait(600)

    assert bench.kinds() == ["create-runner"] * 2


def test_a_hold_never_ends_in_the_past() -> None:
    bench = Bench()
    bench.feed(node(node_id(1), index=1, draining=True))
    bench.feed(job(TEMPLATE, index=11, created=10, target=2))
    bench.feed(allocation("t", TEMPLATE, index=12, node=node_id(1)))
    bench.wait(100)

    bench.feed(node(node_id(2), index=200))

    for hold in bench.core.holds(bench.now):
        assert hold.until is None or hold.until >= bench.now


def test_what_is_created_for_an_old_gap_does_not_shorten_the_settle_time_of_a_new_one() -> None:
    bench = bench_with_pool(5)
    began = bench.now
    purge(bench, runner(0), index=300)
    bench.wait(9)
    for number in (1, 2, 3, 4):
        purge(bench, runner(number), index=300 + number)
    bench.wait(1)
    (first,) = bench.actions

    # The new runner is heard of, and nothing else happens.
    bench.feed(job(first.job_id, "pending", index=320), after_s=0.5)
    bench.wait(20)

    assert [action.at - began for action in bench.actions] == [10, 19, 19, 19, 19]


def test_a_runner_is_lost_once_for_the_storm_watch_whatever_is_heard_of_it_later() -> None:
    bench = bench_with_pool(8)
    for number in range(3):
        created = 200 + 10 * number
        index = 300 + number
        lost = allocation(
            f"a{number}", runner(number), "lost", "stop", index=index, created=created + 1, node=node_id(1 + number)
        )
        bench.feed(lost, job(runner(number), "dead", index=index, created=created))
        bench.wait(100)
    assert bench.kinds().count("create-runner") == 3

    for number in range(3):
        created = 201 + 10 * number
        home = node_id(1 + number)
        ended = allocation(
            f"a{number}", runner(number), "complete", "stop", index=400 + number, created=created, node=home
        )
        bench.feed(ended)
    bench.wait(11)
    lose(bench, 3, index=500)
    bench.wait(11)

    assert [hold.reason for hold in bench.core.holds(bench.now) if hold.environment_id is None] == []


def test_a_lost_runner_that_was_cleared_away_and_is_there_again_is_cleared_away_again() -> None:
    bench = bench_with_pool(6)
    lose(bench, 0, index=300)
    bench.wait(60)
    bench.feed(job(runner(0), "dead", index=310, created=200, Stop=True))
    # Servers that were restored have it as it was; nothing else tells of that.
    bench.feed(job(runner(0), "dead", index=400, created=200))
    bench.wait(60)

    assert bench.core.diagnosis.verdicts[runner(0)].state == "lost"
    assert [action.job_id for action in bench.actions if action.kind == "remove-job"] == [runner(0)] * 2


def test_an_exactly_pool_waits_for_the_returned_agents_word_on_the_old_copy() -> None:
    bench = bench_with_pool(1, policy=pool_policy(disconnect_policy="exactly"))
    bench.feed(node(node_id(1), "down", index=300))
    lost = allocation("a0", runner(0), "lost", "stop", index=301, created=201, node=node_id(1))
    bench.feed(lost, job(runner(0), "dead", index=301, created=200))
    bench.wait(1000)
    assert bench.actions == []

    bench.feed(node(node_id(1), "ready", index=400))
    bench.wait(30)
    assert bench.actions == []
    bench.feed(allocation("a0", runner(0), "complete", "stop", index=410, created=201, node=node_id(1)))
    bench.wait(60)

    assert sorted(bench.kinds()) == ["create-runner", "remove-job"]


def test_an_exactly_pool_counts_an_older_copy_beyond_reach_after_its_successor_failed() -> None:
    bench = bench_with_pool(1, policy=pool_policy(disconnect_policy="exactly"))
    bench.feed(node(node_id(1), "down", index=300))
    bench.feed(
        allocation("a0", runner(0), "lost", "stop", index=301, created=201, node=node_id(1), NextAllocation="b0"),
        allocation("b0", runner(0), "pending", index=301, node=node_id(2), PreviousAllocation="a0"),
    )
    bench.feed(
        allocation("b0", runner(0), "failed", index=302, created=301, node=node_id(2), PreviousAllocation="a0"),
        job(runner(0), "dead", index=302, created=200),
    )
    bench.wait(1000)

    assert "create-runner" not in bench.kinds()


def test_a_creation_without_an_answer_is_repeated_under_the_same_name_whatever_became_of_the_loss() -> None:
    bench = bench_with_pool(1)
    lose(bench, 0, index=300)
    bench.wait(30)
    (created,) = [action for action in bench.actions if action.kind == "create-runner"]
    bench.core.planner.take_outcome(created, ActionOutcome("unknown", "no answer"), bench.now)

    # Poseidon purges the lost runner meanwhile, and the stream lags behind: the new runner is there, but not heard of.
    purge(bench, runner(0), index=310)
    bench.wait(60)

    names = {action.job_id for action in bench.actions if action.kind == "create-runner"}
    assert names == {created.job_id}


def test_a_creation_without_an_answer_is_not_repeated_once_others_have_filled_the_pool() -> None:
    bench = bench_with_pool(0, target=1)
    (created,) = bench.actions
    bench.core.planner.take_outcome(created, ActionOutcome("unknown", "no answer"), bench.now)

    bench.feed(job(runner(7), index=310), allocation("a7", runner(7), index=310, node=node_id(1)))
    bench.wait(60)

    assert bench.actions == [created]


@pytest.mark.parametrize("result", ["not-done", "not-wanted", "withdrawn"])
def test_a_creation_without_an_answer_keeps_its_name_when_its_repetition_fails(result: Result) -> None:
    bench = bench_with_pool(0, target=1)
    (created,) = [action for action in bench.actions if action.kind == "create-runner"]
    bench.core.planner.take_outcome(created, ActionOutcome("unknown", "no answer"), bench.now)
    bench.wait(5)
    again = bench.actions[-1]
    assert again.job_id == created.job_id

    # The template is another one meanwhile, so that a refill would have another name.
    bench.feed(job(TEMPLATE, index=310, created=100, registered=310, version=1, target=1))
    bench.core.planner.take_outcome(again, ActionOutcome(result, "no leader"), bench.now)
    bench._keep(bench.core.advance(bench.now))
    bench.wait(60)

    assert len(bench.actions) == 3
    assert {action.job_id for action in bench.actions} == {created.job_id}


def test_an_exactly_pool_waits_for_an_older_copy_that_is_still_being_stopped() -> None:
    bench = bench_with_pool(1, policy=pool_policy(disconnect_policy="exactly"))
    migrated: Wire = {"NextAllocation": "b0", "DesiredDescription": "alloc is being migrated"}
    bench.feed(
        allocation("a0", runner(0), "running", "stop", index=300, created=201, node=node_id(1), **migrated),
        allocation("b0", runner(0), index=300, node=node_id(2), PreviousAllocation="a0"),
    )
    bench.feed(
        allocation("b0", runner(0), "complete", index=310, created=300, node=node_id(2), PreviousAllocation="a0"),
        job(runner(0), "dead", index=310, created=200),
    )
    bench.wait(60)
    assert "create-runner" not in bench.kinds()

    bench.feed(allocation("a0", runner(0), "complete", "stop", index=320, created=201, node=node_id(1), **migrated))
    bench.wait(60)

    assert bench.kinds().count("create-runner") == 1


def test_what_an_exactly_pool_still_counts_is_not_replaced_even_if_it_is_lost_and_room_is_left() -> None:
    bench = bench_with_pool(2, policy=pool_policy(disconnect_policy="exactly", start_deadline_s=30.0))
    bench.feed(job(runner(2), index=300), allocation("p", runner(2), "pending", index=301, node=node_id(1)))
    bench.wait(60)

    bench.feed(job(TEMPLATE, index=310, created=100, registered=310, version=1, target=4))
    bench.wait(60)

    assert bench.core.diagnosis.verdicts[runner(2)].state == "lost"
    (created,) = [action for action in bench.actions if action.kind == "create-runner"]
    assert created.replaces is None


def test_an_exactly_pool_protects_no_job_that_would_be_placed_beside_its_old_copy() -> None:
    bench = bench_with_pool(1, policy=pool_policy(disconnect_policy="exactly"))
    bench.feed(node(node_id(1), "down", index=300))
    bench.feed(
        allocation("a0", runner(0), "lost", "stop", index=301, created=201, node=node_id(1)),
        evaluation("e0", runner(0), "blocked", index=301),
        job(runner(0), "pending", index=301, created=200),
    )
    bench.wait(1000)
    assert bench.core.diagnosis.verdicts[runner(0)].at_risk
    assert "protect-job" not in bench.kinds()

    bench.feed(node(node_id(1), "ready", index=400))
    bench.feed(
        allocation("b0", runner(0), index=401, node=node_id(1)),
        allocation("a0", runner(0), "complete", "stop", index=401, created=201, node=node_id(1)),
        evaluation("e0", runner(0), "complete", index=401, created=301),
        job(runner(0), index=401, created=200),
    )

    assert bench.kinds() == ["protect-job"]


# --- what is decided ------------------------------------------------------------------------------------------------


def test_a_pool_at_rest_needs_nothing() -> None:
    bench = bench_with_pool(5)

    assert bench.wait(1e6) == []
    assert bench.core.holds(bench.now) == []


def test_a_lost_runner_is_removed_and_replaced_under_a_name_that_says_for_what() -> None:
    bench = bench_with_pool(2)
    lose(bench, 0, index=300)

    removed, created = bench.wait(20)

    assert (removed.kind, removed.job_id, removed.at) == ("remove-job", runner(0), bench.now - 10)
    assert (created.kind, created.environment_id, created.replaces) == ("create-runner", "10", runner(0))
    assert created.job_id == replacement_id("10", runner(0), 200)
    assert created.reason == "replaces a runner that is lost: stuck-complete"


def test_a_runner_that_replaces_nothing_known_is_named_after_its_environments_version() -> None:
    bench = bench_with_pool(1, target=3)
    bench.wait(20)

    assert [action.job_id for action in bench.actions] == [refill_id("10", 100, 0), refill_id("10", 100, 1)]
    assert [action.replaces for action in bench.actions] == [None, None]


def test_a_used_runner_that_is_lost_is_removed_and_not_replaced() -> None:
    bench = bench_with_pool(2, target=1)
    bench.feed(job(runner(0), index=300, created=200, registered=300, version=1, used=True))
    lost = allocation("a0", runner(0), "failed", index=310, created=201, node=node_id(1))
    bench.feed(lost, job(runner(0), "dead", index=310, created=200, registered=300, version=1, used=True))
    bench.wait(1000)

    assert bench.kinds() == ["remove-job"]


def test_a_used_runner_out_of_reach_may_have_a_learner_at_work_and_is_let_be() -> None:
    bench = bench_with_pool(2, target=1)
    bench.feed(job(runner(0), index=300, created=200, registered=300, version=1, used=True))
    bench.feed(node(node_id(1), "down", index=310))
    bench.wait(1000)

    assert bench.state(runner(0)) == "lost"
    assert "remove-job" not in [action.kind for action in bench.actions if action.job_id == runner(0)]
    assert "1 used runner may still run on nodes out of reach" in {hold.reason for hold in bench.core.holds(bench.now)}


def test_a_purged_runner_is_somebodys_will_and_its_place_is_filled() -> None:
    bench = bench_with_pool(2)
    purge(bench, runner(0), index=300)
    bench.wait(9.9)
    assert bench.actions == []

    (created,) = bench.wait(0.1)

    assert (created.kind, created.replaces) == ("create-runner", None)


def test_poseidon_that_fills_the_gap_in_time_goes_first() -> None:
    bench = bench_with_pool(2)
    purge(bench, runner(0), index=300)

    bench.feed(job(runner(7), "pending", index=310), evaluation("e", runner(7), "pending", index=310), after_s=9)

    assert bench.wait(100) == []


@pytest.mark.parametrize("settle_s", [0.0, 60.0])
def test_how_long_a_gap_must_last_is_the_pools_policy(settle_s: float) -> None:
    bench = bench_with_pool(2, policy=pool_policy(settle_s=settle_s))
    began = bench.now
    purge(bench, runner(0), index=300)
    bench.wait(1000)

    assert [action.at - began for action in bench.actions] == [settle_s]


def test_a_target_of_zero_is_a_pool_of_zero() -> None:
    bench = bench_with_pool(1, target=0)
    purge(bench, runner(0), index=300)

    assert bench.wait(1000) == []


@pytest.mark.parametrize("text", [None, "many"])
def test_a_pool_whose_target_is_unknown_is_held_and_says_so(text: str | None) -> None:
    bench = bench_with_pool(1)
    wire = job(TEMPLATE, index=300, created=100, registered=300, version=1)
    if text is not None:
        wire["TaskGroups"][1]["Meta"]["prewarmingPoolSize"] = text
    bench.feed(wire)
    purge(bench, runner(0), index=310)

    assert bench.wait(1000) == []
    assert [hold.reason for hold in bench.core.holds(bench.now)] == ["prewarmingPoolSize is unknown or no number"]


# --- environments ---------------------------------------------------------------------------------------------------


def test_an_environment_that_is_lost_is_revived_once_for_each_version() -> None:
    bench = bench_with_pool(1)
    end_template(bench, index=300)
    bench.wait(1000)
    # Another look at the environment.
    bench.feed(job(runner(7), index=305), allocation("b", runner(7), index=306, node=node_id(2)))
    bench.wait(1)
    assert [(action.kind, action.job_id) for action in bench.actions] == [("revive-environment", TEMPLATE)]

    bench.feed(job(TEMPLATE, "pending", index=310, created=100, registered=310, version=1, target=1))
    bench.feed(job(TEMPLATE, "dead", index=320, created=100, registered=310, version=1, target=1))
    bench.wait(1000)

    assert bench.kinds() == ["revive-environment"] * 2


def test_an_environment_that_was_stopped_is_left_alone_with_all_its_runners() -> None:
    bench = bench_with_pool(2)
    bench.feed(job(TEMPLATE, "dead", index=300, created=100, registered=300, version=1, target=2, Stop=True))
    purge(bench, runner(0), index=310)

    assert bench.wait(1000) == []
    assert [hold.reason for hold in bench.core.holds(bench.now)] == [
        "the environment was stopped by somebody: hands off"
    ]


@pytest.mark.parametrize(
    ("type_", "kinds"), [("JobDeregistered", []), ("JobBatchDeregistered", ["restore-environment"])]
)
def test_only_an_environment_that_was_cleared_away_is_restored(type_: str, kinds: list[str]) -> None:
    bench = bench_with_pool(1)
    bench.feed(event(evaluation("x", TEMPLATE, index=300), type_))
    bench.wait(1000)

    assert bench.kinds() == kinds
    assert [hold.environment_id for hold in bench.core.holds(bench.now)] == ["10"]


# --- protection -----------------------------------------------------------------------------------------------------


def test_a_job_at_risk_is_protected_at_once_and_once_for_each_version() -> None:
    bench = bench_with_pool(1)
    bench.feed(haunted(bench, runner(0), index=300))
    assert [(action.kind, action.job_id, action.at) for action in bench.actions] == [
        ("protect-job", runner(0), bench.now)
    ]

    bench.feed(haunted(bench, runner(0), index=301))
    assert len(bench.actions) == 1

    # The new version is there, and so is another old allocation of it.
    bench.feed(job(runner(0), index=310, created=200, registered=310, version=1))
    assert not bench.verdict(runner(0)).at_risk
    bench.feed(allocation("older", runner(0), "lost", "stop", index=320, created=311))

    assert bench.kinds() == ["protect-job"] * 2


def test_used_runners_and_environments_are_protected_too() -> None:
    bench = bench_with_pool(1)
    bench.feed(job(runner(0), index=290, created=200, registered=290, version=1, used=True))

    bench.feed(haunted(bench, runner(0), index=300), haunted(bench, TEMPLATE, index=300))

    assert {action.job_id for action in bench.actions} == {runner(0), TEMPLATE}
    assert set(bench.kinds()) == {"protect-job"}


@pytest.mark.parametrize("switch", ["policy", "servers"])
def test_where_protection_is_off_nothing_is_protected(switch: str) -> None:
    bench = bench_with_pool(1, policy=pool_policy(protect=switch != "policy"))
    bench.core.planner.protection.wanted = switch != "servers"

    bench.feed(haunted(bench, runner(0), index=300))

    assert bench.verdict(runner(0)).at_risk
    assert bench.wait(100) == []


def test_no_storm_holds_protection_back_but_its_own_rate_does() -> None:
    bench = bench_with_pool(50)
    began = bench.now
    bench.feed(node(node_id(1), "down", index=500), node(node_id(2), "down", index=501))
    bench.feed(*(haunted(bench, runner(number), index=510) for number in range(2, 50, 3)), index=510)
    bench.feed(*(haunted(bench, runner(number), index=511) for number in range(0, 50, 3)), index=511)
    bench.wait(29)

    assert set(bench.kinds()) == {"protect-job"}
    assert sum(action.at == began for action in bench.actions) >= 19
    assert len(bench.actions) >= 32
