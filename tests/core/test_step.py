"""What a step tells besides verdicts and actions: the nodes that changed, and the beginning and end of a storm."""

from __future__ import annotations

from poseidon_reconciler.core.reconciler import Step
from tests.core.builders import TEMPLATE, bench_with_pool, job, node, node_id


def nodes(step: Step) -> list[tuple[str, str, str]]:
    return [(change.name, change.status_before, change.status) for change in step.nodes]


def test_a_node_that_changes_is_told_with_what_it_was() -> None:
    bench = bench_with_pool(1)

    assert nodes(bench.feed(node(node_id(1), "down", index=300))) == [("agent-a0", "ready", "down")]
    assert nodes(bench.feed(node(node_id(1), "down", index=301))) == []
    assert nodes(bench.feed(node(node_id(1), "ready", index=302))) == [("agent-a0", "down", "ready")]


def test_what_a_node_was_is_what_the_step_before_told() -> None:
    bench = bench_with_pool(1)

    step = bench.feed(node(node_id(1), "down", index=300), node(node_id(1), "initializing", index=301))

    assert nodes(step) == [("agent-a0", "ready", "initializing")]
    assert nodes(bench.feed(node(node_id(1), "ready", index=302, draining=True))) == [
        ("agent-a0", "initializing", "ready")
    ]
    (over,) = bench.feed(node(node_id(1), "ready", index=303)).nodes
    assert (over.draining_before, over.draining) == (True, False)


def test_the_beginning_and_the_end_of_a_storm_are_told_with_numbers_although_nothing_is_wanted() -> None:
    bench = bench_with_pool(6)

    began = bench.feed(node(node_id(1), "down", index=300)).storm

    assert began is not None
    assert began.reason == "1 of 3 nodes lost within 1m"
    assert (began.since, began.until) == (bench.now, bench.now + 30)
    bench.wait(120)
    (over,) = [step.storm for step in bench.steps[-10:] if step.storm is not None and step.storm != began]
    assert over == began._replace(until=None)


def test_a_storm_of_an_epoch_that_is_past_is_over() -> None:
    bench = bench_with_pool(1)
    assert bench.feed(node(node_id(1), "down", index=300)).storm is not None

    step = bench.read(900, Jobs=[job(TEMPLATE, index=99, target=1)])

    assert step.new_epoch
    assert step.storm is not None
    assert step.storm.until is None
