"""One example for each rule, and that nothing but a job's own facts decides which of them it is."""

from __future__ import annotations

from poseidon_reconciler.core.rules import table_for
from tests.core.builders import Bench, allocation, job, node, runner


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
