"""Why something is judged as it is: told so that nobody has to look into the code."""

from __future__ import annotations

import pytest

from poseidon_reconciler.core.explanation import JobExplanation, explain_environment, explain_job
from poseidon_reconciler.core.rules import table_for
from tests.core.builders import (
    RUNNER,
    TEMPLATE,
    Bench,
    allocation,
    bench_with_pool,
    job,
    lose,
    node,
    node_id,
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
