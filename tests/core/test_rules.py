"""One example for each rule, and that nothing but a job's own facts decides which of them it is."""

from __future__ import annotations

from collections.abc import Hashable
from random import Random

import pytest

from poseidon_reconciler.core.facts import Facts
from poseidon_reconciler.core.ids import Kind
from poseidon_reconciler.core.rules import Judge, table_for
from tests.core.builders import Bench, allocation, bench_with_pool, job, node, node_id, pool_policy, runner
from tests.core.random_facts import any_facts
from tests.core.recount import plain_rule


def test_another_job_that_was_judged_before_changes_no_verdict() -> None:
    bench = Bench()
    bench.feed(node(index=1))
    bench.feed(job(runner(0), index=10))
    bench.feed(allocation("x", runner(0), index=11))
    bench.feed(allocation("x", runner(0), "pending", index=12, created=11))
    bench.feed(job(runner(1), index=20))

    bench.feed(allocation("y", runner(1), "pending", index=21, restarts=1))

    facts = bench.core.diagnosis.facts(bench.job(runner(1)), bench.now)
    rule = next(rule for rule in table_for("runner") if rule.first_false(facts) is None)
    assert bench.verdict(runner(1)).rule == rule.name


def test_a_runner_that_is_left_alone_is_so_until_its_returned_agent_has_spoken() -> None:
    bench = bench_with_pool(1, policy=pool_policy(disconnect_policy="leave-alone"))
    bench.feed(node(node_id(1), "disconnected", index=300))
    bench.feed(allocation("a0", runner(0), "unknown", index=301, created=201, node=node_id(1)))
    bench.wait(1000)
    assert bench.state(runner(0)) == "disconnected"

    bench.feed(node(node_id(1), "ready", index=310))

    assert bench.state(runner(0)) == "disconnected"


def test_remembered_keys_never_change_the_rule_that_matches() -> None:
    judge = Judge()
    learned: dict[Hashable, Facts] = {}
    chance = Random(2)
    for _ in range(30_000):
        facts = any_facts(chance)
        first = learned.setdefault(facts.key, facts)
        assert judge.rule(facts).name == plain_rule(facts).name, f"after {first}"


@pytest.mark.parametrize("kind", ["runner", "environment"])
def test_every_rule_is_the_first_that_matches_for_some_job(kind: Kind) -> None:
    chance = Random(1)
    matched = {plain_rule(facts).name for _ in range(8_000) if (facts := any_facts(chance)).job.kind == kind}

    assert matched == {rule.name for rule in table_for(kind)}
