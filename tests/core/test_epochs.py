"""A cluster that was restored from a snapshot is another one, however its indexes look by now."""

from __future__ import annotations

import pytest

from poseidon_reconciler.core.ledger import Action, ActionOutcome
from tests.core.builders import RUNNER, TEMPLATE, Bench, Wire, allocation, event, job, node


def running() -> Bench:
    bench = Bench()
    bench.feed(job(TEMPLATE, index=10, target=1), job(RUNNER, index=20), allocation("a", index=21))
    return bench


def test_a_list_that_shows_a_job_older_than_it_was_is_of_another_history() -> None:
    bench = running()
    bench.feed(job(RUNNER, "dead", index=50, created=20))

    # The restored cluster has done a lot since, but this job is as it was in the snapshot.
    step = bench.read(900, Jobs=[job(TEMPLATE, index=10, target=1), job(RUNNER, index=20)])

    assert step.new_epoch
    assert bench.state() == "starting"


def test_a_list_that_shows_an_allocation_older_than_it_was_is_of_another_history() -> None:
    bench = running()
    bench.feed(allocation("a", status="failed", index=50, created=21))

    assert bench.read(900, Allocations=[allocation("a", index=21)]).new_epoch


def test_a_list_that_shows_another_allocation_of_the_same_index_is_of_another_history() -> None:
    bench = running()

    assert bench.read(900, Allocations=[allocation("a", client="failed", index=21)]).new_epoch


@pytest.mark.parametrize("index", [30, 50])
def test_a_node_whose_drain_was_undone_by_a_restore_does_not_drain(index: int) -> None:
    bench = running()
    bench.feed(node(index=30))
    bench.feed(node(index=50, draining=True))
    assert bench.state() == "leaving"

    jobs = [job(TEMPLATE, index=10, target=1), job(RUNNER, index=20)]
    step = bench.read(900, Jobs=jobs, Allocations=[allocation("a", index=21)], Nodes=[node(index=index)])

    assert step.new_epoch
    assert bench.state() == "idle"


def test_a_list_of_nodes_that_is_as_told_or_older_is_no_other_history() -> None:
    bench = running()
    bench.feed(node(index=50, draining=True))

    assert not bench.read({"Nodes": 50}, Nodes=[node(index=50, draining=True)]).new_epoch
    bench.feed(node(index=60))
    assert not bench.read({"Nodes": 55}, Nodes=[node(index=50, draining=True)]).new_epoch


def test_a_job_that_was_purged_and_is_back_as_it_was_is_of_another_history() -> None:
    bench = running()
    bench.feed(event(job(RUNNER, index=20), "JobDeregistered"), index=60)
    assert bench.state() == "gone"

    assert bench.read(900, Jobs=[job(TEMPLATE, index=10, target=1), job(RUNNER, index=20)]).new_epoch


def test_an_older_list_is_no_other_history() -> None:
    bench = running()
    bench.feed(job(RUNNER, "dead", index=50, created=20))

    assert not bench.read(40, Jobs=[job(TEMPLATE, index=10, target=1), job(RUNNER, index=20)]).new_epoch


def test_a_purge_before_the_new_stream_makes_an_index_that_lists_must_have_passed() -> None:
    bench = running()
    bench.feed(event(job(RUNNER, index=20), "JobDeregistered"), index=60)
    bench.core.connection_opened()

    assert bench.read(55, Jobs=[job(TEMPLATE, index=10, target=1), job(RUNNER, index=20)]).new_epoch


def wanting_two() -> Wire:
    return job(TEMPLATE, index=30, created=10, registered=30, target=2)


def one_short() -> tuple[Bench, Action]:
    """A pool that lacks a runner, and the creation of that."""
    bench = running()
    bench.feed(wanting_two())
    (creation,) = bench.wait(60)
    return bench, creation


def test_a_list_that_has_not_reached_what_the_servers_confirmed_to_us_is_of_another_history() -> None:
    # The stream was silent: it told neither of our own write nor of the return to a snapshot.
    bench, creation = one_short()
    bench.core.planner.take_outcome(creation, ActionOutcome("done", "registered", index=60), bench.now)
    bench.core.connection_opened()

    jobs = [wanting_two(), job(RUNNER, index=20)]
    assert bench.read({"Jobs": 59, "Allocations": 90}, Jobs=jobs, Allocations=[allocation("a", index=21)]).new_epoch
    assert [action.job_id for action in bench.wait(60)] == [creation.job_id]
    assert not bench.read(59, Jobs=jobs).new_epoch


def test_a_write_that_was_confirmed_after_the_lists_were_asked_for_says_nothing_about_them() -> None:
    bench, creation = one_short()
    bench.core.connection_opened()
    bench.core.planner.take_outcome(creation, ActionOutcome("done", "registered", index=60), bench.now)

    assert not bench.read(59, Jobs=[wanting_two(), job(RUNNER, index=20)]).new_epoch
