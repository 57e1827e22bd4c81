"""One example for each rule, and that nothing but a job's own facts decides which of them it is."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from random import Random
from typing import Any, Final, NamedTuple

import pytest

from poseidon_reconciler.core.facts import Facts
from poseidon_reconciler.core.ids import Kind
from poseidon_reconciler.core.rules import Judge, table_for
from tests.core.builders import (
    NODE,
    RUNNER,
    START,
    TEMPLATE,
    Bench,
    Wire,
    allocation,
    bench_with_pool,
    evaluation,
    event,
    job,
    node,
    node_id,
    pool_policy,
    purge,
    runner,
)
from tests.core.random_facts import any_facts
from tests.core.recount import plain_rule


class Stage:
    """One job on one node, to which things happen by name."""

    def __init__(self, job_id: str, disconnect_policy: str = "at-least") -> None:
        self.bench = Bench(pool_policy(disconnect_policy=disconnect_policy))
        self.job_id = job_id
        self._index = 100
        self.bench.feed(node(index=1))

    def next(self) -> int:
        self._index += 1
        return self._index

    def hear(self, wire: Wire) -> Stage:
        self.bench.feed(wire)
        return self

    def job(self, status: str = "running", **more: Any) -> Stage:
        """What Nomad says of the job itself; it was created at 10."""
        return self.hear(job(self.job_id, status, index=self.next(), created=10, target=1, **more))

    def allocation(self, client: str, desired: str = "run", id_: str = "a", **more: Any) -> Stage:
        """What becomes of an allocation; one that was never heard of is new."""
        known = self.bench.core.model.jobs[self.job_id].allocations.get(id_)
        index = self.next()
        created = index if known is None else known.data.create_index
        return self.hear(allocation(id_, self.job_id, client, desired, index=index, created=created, **more))

    def evaluation(self, status: str, **more: Any) -> Stage:
        return self.hear(evaluation("e", self.job_id, status, index=self.next(), **more))

    def node(self, status: str = "ready", *, draining: bool = False) -> Stage:
        return self.hear(node(NODE, status, index=self.next(), draining=draining))

    def purge(self) -> Stage:
        purge(self.bench, self.job_id, index=self.next())
        return self

    # --- what happens often -------------------------------------------------------------------------------------

    def runs(self) -> Stage:
        return self.job().allocation("running")

    def ended(self, client: str, desired: str = "run", status: str = "dead", **more: Any) -> Stage:
        """The job's only allocation ran, and then became this."""
        return self.runs().allocation(client, desired, **more).job(status)

    def followed(self, status: str, **more: Any) -> Stage:
        """The job's allocation failed, and an evaluation came of it."""
        return self.ended("failed", status="pending").evaluation(status, **more)


class Example(NamedTuple):
    """A way to come to a rule: what happens, then how much time passes, and under which policy."""

    happens: Callable[[Stage], Stage]
    wait_s: float = 0.0
    disconnect_policy: str = "at-least"


DELAYED: Final[Wire] = {"WaitUntil": "2027-01-15T08:05:00Z"}
EVICTED: Final[Wire] = {"DesiredTransition": {"MigrateDisablePlacement": True}}
# Of jobs of both kinds.
EXAMPLES: Final[dict[str, Example]] = {
    "out-of-reach": Example(lambda s: s.runs().node("down")),
    "awaiting-allocation": Example(lambda s: s.job("pending").evaluation("pending")),
    "first-allocation": Example(lambda s: s.job().allocation("pending")),
    "restarting": Example(lambda s: s.runs().allocation("pending", restarts=1), 299.0),
    "replacement-pending": Example(
        lambda s: (
            s.job()
            .allocation("lost", "stop", NextAllocation="b")
            .allocation("pending", id_="b", PreviousAllocation="a")
        )
    ),
    "reschedule-delayed": Example(lambda s: s.followed("pending", **DELAYED), 1000.0),
    "being-evaluated": Example(lambda s: s.followed("pending"), 1000.0),
    "waits-for-capacity": Example(lambda s: s.followed("blocked"), 100_000.0),
    "allocation-unseen": Example(lambda s: s.job("running"), 1000.0),
    "registered": Example(lambda s: s.job("pending")),
    "replacement-unseen": Example(lambda s: s.ended("lost", "stop", "running", NextAllocation="b"), 299.0),
    "not-dead-yet": Example(lambda s: s.ended("failed", status="pending"), 299.0),
    "looks-dead": Example(lambda s: s.ended("complete"), 9.0),
    "old-copy-may-run": Example(lambda s: s.ended("lost", "stop").node("down"), 100_000.0, "exactly"),
    "start-deadline-passed": Example(lambda s: s.job().allocation("pending"), 300.0),
    "node-is-gone": Example(lambda s: s.runs().node("down"), 10.0),
    "never-placed": Example(lambda s: s.job("pending"), 300.0),
    "attempts-used-up": Example(lambda s: s.ended("failed"), 10.0),
    "drained": Example(lambda s: s.ended("complete", "stop", **EVICTED), 10.0),
    "stuck-complete": Example(lambda s: s.ended("complete"), 10.0),
    "lost-with-its-node": Example(lambda s: s.ended("lost", "stop"), 10.0),
    "stopped-before-it-ran": Example(lambda s: s.job().allocation("pending", "stop").job("dead"), 10.0),
    "not-understood": Example(lambda s: s.ended("a new word"), 100_000.0),
}
OF_RUNNERS: Final[dict[str, Example]] = {
    "gone-copy-may-run": Example(lambda s: s.runs().node("down").purge(), 100_000.0, "exactly"),
    "deregistered": Example(lambda s: s.job().purge()),
    "claimed": Example(lambda s: s.job(used=True).allocation("running")),
    "running": Example(lambda s: s.runs(), 100_000.0),
    "node-draining": Example(lambda s: s.runs().node(draining=True), 100_000.0),
    "stop-ordered": Example(lambda s: s.runs().allocation("running", "stop")),
}
OF_ENVIRONMENTS: Final[dict[str, Example]] = {
    "stopped-by-operator": Example(lambda s: s.runs().job("dead", Stop=True), 100_000.0),
    "template-gone": Example(lambda s: s.job().purge()),
    "running": Example(lambda s: s.runs().node(draining=True), 100_000.0),
    "stop-ordered": OF_RUNNERS["stop-ordered"],
}
CASES: Final = [
    *(pytest.param(RUNNER, name, e, id=f"runner-{name}") for name, e in {**OF_RUNNERS, **EXAMPLES}.items()),
    *(pytest.param(TEMPLATE, name, e, id=f"environment-{name}") for name, e in {**OF_ENVIRONMENTS, **EXAMPLES}.items()),
]


def staged(job_id: str, example: Example) -> Bench:
    stage = Stage(job_id, example.disconnect_policy)
    example.happens(stage)
    stage.bench.wait(example.wait_s)
    return stage.bench


@pytest.mark.parametrize(("job_id", "rule", "example"), CASES)
def test_an_example_of_the_rule(job_id: str, rule: str, example: Example) -> None:
    bench = staged(job_id, example)

    found = bench.verdict(job_id)
    (row,) = [each for each in table_for(bench.job(job_id).kind) if each.name == rule]
    assert (found.rule, found.state) == (rule, row.state)
    assert found.cause == (row.cause if row.state not in ("gone", "stopped") else bench.job(job_id).gone or "stopped")


@pytest.mark.parametrize(("job_id", "rule", "example"), CASES)
def test_a_verdict_that_time_alone_changes_says_when(job_id: str, rule: str, example: Example) -> None:
    bench = staged(job_id, example)
    due_at = bench.verdict(job_id).due_at
    bench.wait((due_at or bench.now + 1e6) - bench.now - 1e-3)
    assert bench.verdict(job_id).rule == rule

    bench.wait(2e-3)

    assert (bench.verdict(job_id).rule != rule) == (due_at is not None)
    assert due_at is None or due_at > START


def test_there_is_an_example_of_every_rule() -> None:
    assert [rule.name for rule in table_for("runner") if rule.name not in {**OF_RUNNERS, **EXAMPLES}] == []
    assert [rule.name for rule in table_for("environment") if rule.name not in {**OF_ENVIRONMENTS, **EXAMPLES}] == []


@pytest.mark.parametrize("cause", ["purged", "collected", "vanished", "stopped"])
def test_a_job_that_is_gone_says_how(cause: str) -> None:
    stage = Stage(RUNNER)
    stage.job()
    bench, index = stage.bench, stage.next()
    if cause == "vanished":
        bench.read(index, Jobs=[])
    elif cause == "stopped":
        bench.feed(event(job(index=index, created=10, Stop=True), "JobDeregistered"))
    else:
        type_ = "JobDeregistered" if cause == "purged" else "JobBatchDeregistered"
        bench.feed(event(evaluation("gone", index=index), type_))

    assert bench.judged() == ("gone", cause, "deregistered")


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
