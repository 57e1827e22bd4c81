"""Why something is judged as it is: told so that nobody has to look into the code."""

from __future__ import annotations

import pytest

from poseidon_reconciler.core.explanation import JobExplanation, explain_environment, explain_job, explain_order
from poseidon_reconciler.core.ids import replacement_id
from poseidon_reconciler.core.ledger import ActionOutcome
from poseidon_reconciler.core.pauses import Pause
from poseidon_reconciler.core.rules import table_for
from tests.core.builders import (
    RUNNER,
    TEMPLATE,
    Bench,
    allocation,
    bench_with_pool,
    end_template,
    haunted,
    job,
    lose,
    node,
    node_id,
    pool_policy,
    purge,
    runner,
)


def explained(bench: Bench, job_id: str = RUNNER) -> JobExplanation:
    explanation = explain_job(bench.core, bench.job(job_id))
    assert explanation is not None
    return explanation


def dying() -> Bench:
    bench = bench_with_pool(2)
    lose(bench, 0, index=300)
    return bench


def test_the_rule_is_told_with_its_sentences_and_what_comes_next() -> None:
    bench = dying()

    told = explained(bench, runner(0))

    assert (told.job_id, told.kind, told.environment_id) == (runner(0), "runner", "10")
    assert told.verdict == bench.verdict(runner(0))
    assert told.conditions == [
        "no allocation of it is meant to run",
        "nothing has happened for less than the grace period",
    ]
    assert (told.next_rule, told.next_state) == ("stuck-complete", "lost")
    assert [each.topic for each in told.evidence] == ["Job", "Allocation"]


def test_what_is_told_to_come_next_comes() -> None:
    bench = dying()
    told = explained(bench, runner(0))
    assert told.verdict.due_at is not None

    bench.wait(told.verdict.due_at - bench.now)

    assert (bench.verdict(runner(0)).rule, bench.state(runner(0))) == (told.next_rule, told.next_state)


def test_a_verdict_that_time_does_not_change_has_nothing_next() -> None:
    told = explained(bench_with_pool(1), runner(0))

    assert (told.verdict.due_at, told.next_rule, told.next_state) == (None, None, None)


def test_each_rule_above_it_is_told_with_a_sentence_that_is_false() -> None:
    bench = dying()

    told = explained(bench, runner(0))

    names = [rule.name for rule in table_for("runner")]
    assert [each.rule for each in told.unmatched] == names[: names.index("looks-dead")]
    facts = bench.core.diagnosis.facts(bench.job(runner(0)), bench.now)
    for rule, each in zip(table_for("runner"), told.unmatched, strict=False):
        (condition,) = [found for found in rule.conditions if found.text == each.needs]
        assert not condition.holds(facts)
        assert each.state == rule.state


def test_hearsay_has_no_verdict_to_explain() -> None:
    bench = Bench()
    bench.feed(allocation("a", client="complete", desired="stop", index=20))

    assert explain_job(bench.core, bench.job()) is None


def test_an_environment_is_explained_with_its_pool_and_its_own_job() -> None:
    bench = dying()
    bench.wait(15)

    told = explain_environment(bench.core, "10")

    assert told is not None
    assert (told.state, told.rule, told.cause, told.target) == ("active", "running", None, 2)
    assert told.states == {"idle": 1, "lost": 1}
    assert told.causes == {"stuck-complete": 1}
    assert (told.deficit, told.expected) == (1, 0)
    (hold,) = told.holds
    assert hold.until is not None
    assert hold.until > bench.now
    assert told.template is not None
    assert told.template.job_id == TEMPLATE

    bench.wait(10)
    told = explain_environment(bench.core, "10")
    assert told is not None
    assert (told.deficit, told.expected, told.holds) == (0, 1, [])


def test_an_environment_without_a_job_of_its_own_is_missing() -> None:
    bench = bench_with_pool(1)
    purge(bench, TEMPLATE, index=300)

    told = explain_environment(bench.core, "10")

    assert told is not None
    assert (told.state, told.rule, told.cause) == ("missing", "runners-without-template", "purged")
    assert [hold.until for hold in told.holds] == [None]


def test_nothing_is_told_of_an_environment_of_which_nothing_is_known() -> None:
    assert explain_environment(bench_with_pool(1).core, "1") is None


@pytest.mark.parametrize("environment", ["10", "11"])
def test_only_holds_of_the_environment_or_of_all_are_told(environment: str) -> None:
    bench = bench_with_pool(8)
    bench.feed(job("template-11", index=250, target=5), allocation("t11", "template-11", index=251, node=node_id(3)))
    bench.feed(node(node_id(1), "down", index=300))

    told = explain_environment(bench.core, environment)

    assert told is not None
    assert {hold.environment_id for hold in told.holds} <= {None, environment}
    assert [hold for hold in told.holds if hold.environment_id is None]


# --- what is done about it --------------------------------------------------------------------------------------------


def rules_held(bench: Bench, job_id: str) -> list[str]:
    return [hold.rule for hold in explained(bench, job_id).holds]


def done(bench: Bench, job_id: str) -> list[tuple[str, str]]:
    return [(each.what(job_id), each.became("under way")) for each in explained(bench, job_id).decisions]


def test_a_lost_job_is_explained_with_what_keeps_it_from_being_replaced() -> None:
    bench = bench_with_pool(6)
    for number in range(3):
        lose(bench, number, index=300 + number)
    bench.wait(20)
    (hold,) = explained(bench, runner(0)).holds
    assert (hold.rule, hold.environment_id) == ("storm", None)
    assert hold.until is not None
    # Of a healthy one nothing is wanted.
    assert rules_held(bench, runner(3)) == []

    bench.wait(hold.until - bench.now)
    assert rules_held(bench, runner(0)) == []
    assert [name for name, _ in done(bench, runner(0))][1:] == ["remove-job"]


def test_a_job_is_explained_with_what_was_decided_about_it_and_what_became_of_that() -> None:
    bench = dying()
    bench.wait(30)
    new = replacement_id("10", runner(0), 200)
    assert done(bench, runner(0)) == [("remove-job", "under way"), (f"create-runner {new} in its place", "under way")]

    removal, creation = bench.actions
    bench.core.planner.take_outcome(creation, ActionOutcome("done", ""), bench.now)
    bench.core.planner.take_outcome(removal, ActionOutcome("not-done", "403 Permission denied"), bench.now)
    assert done(bench, runner(0)) == [
        ("remove-job", "not-done (403 Permission denied)"),
        (f"create-runner {new} in its place", "done"),
    ]
    (hold,) = explained(bench, runner(0)).holds
    assert hold.reason == f"remove-job {runner(0)}: 403 Permission denied"
    assert rules_held(bench, runner(1)) == []


def test_a_job_that_was_removed_still_tells_why_and_what_took_its_place() -> None:
    bench = dying()
    bench.wait(30)
    new = bench.actions[1].job_id
    bench.core.planner.take_outcome(bench.actions[0], ActionOutcome("done", ""), bench.now)
    bench.feed(job(new, index=400), allocation("x", new, index=401))
    purge(bench, runner(0), index=402)

    told = explained(bench, runner(0))
    assert (told.verdict.state, told.replaced_by, told.holds) == ("gone", new, [])
    assert told.decisions[0].reason == "lost for good: stuck-complete"
    assert done(bench, runner(0))[0] == ("remove-job", "done")
    assert explained(bench, new).replaces == runner(0)


def test_what_replaces_what_is_known_without_the_decision_too() -> None:
    """Another process, or another instance, has decided it."""
    bench = bench_with_pool(2, target=0)
    new = replacement_id("10", runner(0), 200)
    bench.feed(job(new, index=400), allocation("x", new, index=401))

    assert explained(bench, runner(0)).replaced_by == new
    assert explained(bench, new).replaces == runner(0)
    assert (explained(bench, runner(1)).replaced_by, explained(bench, runner(1)).replaces) == (None, None)


def test_a_runner_that_was_only_ordered_is_explained_with_what_it_replaces_and_why() -> None:
    bench = dying()
    bench.wait(30)
    creation = bench.actions[1]
    told = explain_order(bench.core, creation.job_id)
    assert told is not None
    assert (told.job_id, told.environment_id, told.replaces) == (creation.job_id, "10", runner(0))
    assert [each.reason for each in told.decisions] == ["replaces a runner that is lost: stuck-complete"]
    assert told.holds == []

    bench.core.planner.take_outcome(creation, ActionOutcome("not-done", "no leader"), bench.now)
    told = explain_order(bench.core, creation.job_id)
    assert told is not None
    assert [hold.rule for hold in told.holds] == ["action-failed"]
    assert explain_order(bench.core, runner(0)) is None


def test_protection_of_a_job_at_risk_is_held_by_a_pause_only() -> None:
    bench = bench_with_pool(6)
    bench.core.pause(Pause("10", "maintenance", bench.now, bench.now + 3600))
    bench.feed(haunted(bench, runner(5), index=290, node=node_id(1)))
    for number in range(3):
        lose(bench, number, index=300 + number)
    bench.wait(20)

    assert bench.verdict(runner(5)).at_risk
    assert rules_held(bench, runner(5)) == ["paused"]
    assert rules_held(bench, runner(0)) == ["storm", "paused"]


def test_an_idle_runner_of_a_pool_that_is_trimmed_tells_what_that_waits_for() -> None:
    bench = bench_with_pool(3, target=2, policy=pool_policy(surplus="trim"))

    assert rules_held(bench, runner(0)) == [hold.rule for hold in bench.core.holds(bench.now)]


def test_what_holds_an_environments_own_job_is_told_once() -> None:
    bench = bench_with_pool(6)
    end_template(bench, index=299)
    for number in range(3):
        lose(bench, number, index=300 + number)
    bench.wait(20)

    assert rules_held(bench, TEMPLATE) == ["storm"]
    told = explain_environment(bench.core, "10")
    assert told is not None
    assert [hold.rule for hold in told.holds] == ["storm"]
    assert told.template is not None
    assert told.template.holds == []


def test_a_job_tells_the_node_that_it_was_on_beside_the_one_that_its_loss_is_traced_to() -> None:
    bench = bench_with_pool(3, policy=pool_policy(protect=False))
    bench.feed(haunted(bench, runner(0), index=300, node=node_id(2)))
    bench.feed(
        haunted(bench, runner(0), index=310, node=node_id(2)) | {"ClientStatus": "complete"},
        allocation("a0", runner(0), "complete", "stop", index=310, created=201, node=node_id(1)),
        job(runner(0), "dead", index=310, created=200),
    )
    bench.wait(30)

    told = explained(bench, runner(0))
    assert told.blame is not None
    assert (told.node, told.blame.node_id) == ("agent-a0", node_id(2))
