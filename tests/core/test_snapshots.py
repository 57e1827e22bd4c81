"""What lists prove, correct and leave open, by the index that each is true at."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.builders import (
    RUNNER,
    TEMPLATE,
    Bench,
    allocation,
    bench_with_pool,
    evaluation,
    event,
    job,
    node,
    node_id,
    purge,
    runner,
    stub,
)


def test_a_list_knows_the_last_of_two_words_of_one_index() -> None:
    bench = bench_with_pool(1)
    failed = allocation("a0", runner(0), "failed", index=300, created=201, node=node_id(1))
    bench.feed(failed, job(runner(0), "dead", index=300, created=200))

    # The line that said `pending`, of the same index, was cut off with the connection.
    template = job(TEMPLATE, index=102, created=100, target=1)
    bench.read(310, Jobs=[job(runner(0), "pending", index=300, created=200), template])
    bench.wait(60)

    assert bench.job(runner(0)).status == "pending"
    assert bench.state(runner(0)) == "recovering"


def test_a_job_known_by_its_allocation_alone_is_gone_if_a_newer_list_of_jobs_lacks_it() -> None:
    bench = Bench()
    bench.feed(allocation("a", index=30))
    assert bench.state() == "idle"

    bench.read({"Jobs": 50}, Jobs=[])

    assert bench.state() in ("gone", None)


def test_a_listed_allocation_that_is_older_than_its_job_puts_nothing_at_risk() -> None:
    bench = Bench()
    of_the_purged_job = allocation("old", client="complete", desired="stop", index=40, JobVersion=0)
    own = allocation("own", index=51, JobVersion=0)

    bench.read(60, Jobs=[job(RUNNER, index=51, created=50)], Allocations=[of_the_purged_job, own])

    assert not bench.verdict().at_risk
    assert bench.actions == []


def test_the_mark_of_a_claim_that_only_stubs_told_of_is_read_from_the_next_whole_job() -> None:
    bench = bench_with_pool(1)
    claimed = job(runner(0), index=300, created=200, registered=300, version=1, used=True)
    template = job(TEMPLATE, index=102, created=100, target=1)

    bench.read(310, Jobs=[stub(claimed), stub(template)])
    bench.read(310, Jobs=[claimed, template])

    assert bench.state(runner(0)) == "used"


def test_what_a_list_knew_of_a_job_before_the_job_itself_was_heard_of_is_not_forgotten() -> None:
    bench = bench_with_pool(1)
    purge(bench, TEMPLATE, index=300)
    # The environment was deleted and made anew; the lists are read one after the other, that of the jobs first.
    own = allocation("t2", TEMPLATE, index=320, node=node_id(1))
    bench.read({"Jobs": 305, "Allocations": 325}, Jobs=[job(runner(0), index=202, created=200)], Allocations=[own])
    bench.feed(job(TEMPLATE, index=320, created=310, target=1))

    bench.read(330, Jobs=[job(TEMPLATE, index=320, created=310, target=1)], Allocations=[own])

    assert bench.state(TEMPLATE) == "active"


def test_an_allocation_of_a_job_that_the_lists_do_not_have_is_no_runner() -> None:
    bench = Bench()

    bench.read(60, Jobs=[job(TEMPLATE, index=10, target=1)], Allocations=[allocation("a", index=31)])

    assert bench.state() is None


def test_a_job_that_the_lists_do_not_have_is_not_raised_by_an_old_line() -> None:
    bench = Bench()
    purged = evaluation("e", status="complete", index=41, created=40)
    bench.read(60, Jobs=[job(TEMPLATE, index=10, target=1)], Evaluations=[purged])

    # A server that was restarted replays its log.
    bench.feed(job(RUNNER, index=20))

    assert bench.state() is None


def test_a_node_that_the_list_of_nodes_does_not_have_is_gone() -> None:
    bench = Bench()

    other = node(node_id(2), index=1)
    bench.read(60, Jobs=[job(RUNNER, index=20)], Allocations=[allocation("a", index=31)], Nodes=[other])
    bench.wait(60)

    assert bench.judged() == ("lost", "node-lost", "node-is-gone")


# --- what a list says -----------------------------------------------------------------------------------------------


def known() -> Bench:
    """A runner that runs, and its environment, as the stream told of them."""
    bench = Bench()
    bench.feed(node(node_id(1), index=1))
    bench.feed(job(TEMPLATE, index=10, target=1), allocation("t", TEMPLATE, index=11, node=node_id(1)))
    bench.feed(job(index=20), allocation("a", index=21, node=node_id(1)))
    return bench


def test_a_newer_list_without_a_job_says_that_it_is_gone() -> None:
    bench = known()

    bench.read(30, Jobs=[job(TEMPLATE, index=10, target=1)])

    assert bench.judged() == ("gone", "vanished", "deregistered")
    assert bench.job().gone_index == 30


@pytest.mark.parametrize("index", [20, 21])
def test_a_list_is_newer_from_the_index_of_the_object_on(index: int) -> None:
    bench = known()

    bench.read({"Jobs": index}, Jobs=[])

    assert bench.state() == "gone"


def test_an_older_list_without_a_job_says_nothing_of_it() -> None:
    bench = known()

    bench.read({"Jobs": 19}, Jobs=[job(TEMPLATE, index=10, target=1)])

    assert bench.state() == "idle"


def test_a_list_that_was_not_read_says_nothing() -> None:
    bench = known()

    step = bench.read({"Nodes": 30}, Nodes=[node(node_id(1), index=1)])

    assert step.changes == []
    assert bench.state() == "idle"


def test_a_list_without_its_index_takes_nobody_away() -> None:
    bench = known()

    bench.read({}, Jobs=[], Allocations=[], Evaluations=[], Nodes=[])

    assert bench.state() == "idle"


def test_a_list_knows_what_no_event_told() -> None:
    bench = known()
    dead = job(RUNNER, "dead", index=25, created=20)
    ended = allocation("a", RUNNER, "complete", index=25, created=21, node=node_id(1))

    bench.read(30, Jobs=[dead, job(TEMPLATE, index=10, target=1)], Allocations=[ended])

    assert bench.judged() == ("recovering", None, "looks-dead")


def test_a_list_is_true_at_its_index_and_what_the_stream_told_later_holds() -> None:
    bench = known()
    bench.feed(job(runner(5), "pending", index=40))
    bench.feed(job(RUNNER, "dead", index=41, created=20), allocation("a", RUNNER, "failed", index=41, created=21))

    bench.read(30, Jobs=[job(index=20), job(TEMPLATE, index=10, target=1)], Allocations=[allocation("a", index=21)])

    assert bench.state(runner(5)) == "starting"
    assert bench.judged() == ("recovering", None, "looks-dead")


def test_a_stub_changes_only_what_it_has() -> None:
    bench = Bench()
    bench.feed(job(index=20, used=True, version=3), allocation("a", index=21))

    bench.read(30, Jobs=[{"ID": RUNNER, "Status": "pending", "ModifyIndex": 25}])

    assert (bench.job().status, bench.job().used, bench.job().version) == ("pending", True, 3)
    assert bench.state() == "used"


def test_a_stub_of_an_allocation_takes_nothing_back() -> None:
    bench = known()
    moved: dict[str, Any] = {"DesiredTransition": {"Migrate": True}, "PreviousAllocation": "z"}
    bench.feed(allocation("a", RUNNER, "running", "stop", index=30, created=21, **moved))

    ended = allocation("a", RUNNER, "complete", "stop", index=40, created=21, JobVersion=0)
    bench.read(50, Jobs=[job(RUNNER, "dead", index=40, created=20)], Allocations=[ended])
    bench.wait(10)

    assert bench.judged() == ("lost", "drained", "drained")
    assert bench.job().allocations["a"].data.previous_allocation == "z"


def test_an_allocation_that_a_newer_list_lacks_was_collected() -> None:
    bench = known()
    old = allocation("old", RUNNER, "lost", "stop", index=23, created=22)
    bench.feed(old)
    assert bench.verdict().at_risk

    bench.read({"Allocations": 30}, Allocations=[allocation("a", index=21, node=node_id(1))])

    assert not bench.verdict().at_risk
    assert list(bench.job().allocations) == ["a"]


def test_the_last_allocation_of_a_dead_job_tells_why_it_died_though_it_was_collected() -> None:
    bench = known()
    failed = allocation("a", RUNNER, "failed", index=30, created=21, node=node_id(1))
    bench.feed(failed, job(RUNNER, "dead", index=30, created=20))

    bench.read({"Allocations": 40}, Allocations=[])
    bench.wait(10)

    assert bench.judged() == ("lost", "exhausted", "attempts-used-up")


def test_an_evaluation_that_a_newer_list_lacks_is_over() -> None:
    bench = known()
    bench.feed(allocation("a", RUNNER, "failed", index=30, created=21), job(RUNNER, "pending", index=30, created=20))
    bench.feed(evaluation("e", status="blocked", index=31))
    assert bench.state() == "blocked"

    bench.read({"Evaluations": 40}, Evaluations=[])

    assert bench.judged() == ("recovering", None, "not-dead-yet")
    assert bench.verdict().due_at == bench.now + 300


def test_a_late_event_of_what_a_list_had_counted_out_changes_nothing() -> None:
    bench = known()
    bench.read(30, Jobs=[job(TEMPLATE, index=10, target=1)], Allocations=[], Evaluations=[])

    step = bench.feed(job(index=20), allocation("a", index=21), evaluation("e", status="pending", index=22))
    other = bench.feed(job(runner(9), index=25))

    assert (step.changes, other.changes) == ([], [])
    assert bench.state() == "gone"


def test_what_was_registered_after_a_list_is_new_whatever_the_list_lacked() -> None:
    bench = known()
    bench.read(30, Jobs=[job(TEMPLATE, index=10, target=1)])

    bench.feed(job(index=31), allocation("b", index=32))

    assert bench.judged() == ("idle", None, "running")


# --- epochs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "index", "epochs"),
    [
        ("Jobs", 19, 1),
        ("Jobs", 20, 0),
        ("Allocations", 20, 1),
        ("Allocations", 21, 0),
        ("Nodes", 0, 1),
        ("Nodes", 1, 0),
    ],
)
def test_a_list_older_than_what_was_seen_before_the_connection_is_of_another_history(
    table: str, index: int, epochs: int
) -> None:
    bench = known()
    bench.core.connection_opened()

    lists: dict[str, Any] = {table: []}
    step = bench.read({table: index}, **lists)

    assert bench.core.snapshots.epoch == epochs
    assert step.new_epoch == bool(epochs)
    assert (bench.core.model.jobs == {}) == bool(epochs)


def test_lists_that_were_read_while_the_stream_goes_on_may_be_older_than_it() -> None:
    bench = known()
    bench.core.connection_opened()
    bench.feed(job(index=50, created=20))

    bench.read(30, Jobs=[job(index=20), job(TEMPLATE, index=10, target=1)])

    assert bench.core.snapshots.epoch == 0


def test_a_list_older_than_the_one_before_begins_a_new_epoch_and_nothing_old_is_acted_upon() -> None:
    bench = known()
    bench.read(100, Jobs=[job(index=20), job(TEMPLATE, index=90, created=10, registered=90, target=5)])
    assert bench.core.planner.deficit("10") == 4

    own = allocation("t2", TEMPLATE, index=41)
    bench.read(50, Jobs=[job(TEMPLATE, index=40, target=0)], Allocations=[own], Evaluations=[])

    assert bench.core.snapshots.epoch == 1
    assert bench.state() is None
    assert bench.core.planner.deficit("10") == 0
    assert bench.wait(1000) == []


def test_drift_counts_what_lists_knew_better_but_not_the_first_of_an_epoch() -> None:
    bench = Bench()
    first = [job(TEMPLATE, index=10, target=1), job(index=20)]
    bench.read(30, Jobs=first)
    assert bench.core.snapshots.drift == 0

    bench.read(40, Jobs=first)
    assert bench.core.snapshots.drift == 0

    bench.read(50, Jobs=[job(TEMPLATE, index=45, created=10, target=1)])
    assert bench.core.snapshots.drift == 2


def test_a_job_of_another_type_or_of_another_namespace_is_none_of_ours() -> None:
    bench = Bench()

    bench.read(30, Jobs=[job(index=20, Type="service")])
    bench.feed(event(job(runner(1), index=40), namespace="other"))

    assert bench.core.model.jobs == {}
