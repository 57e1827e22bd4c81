"""Losses are told by the node that they came from, and by what had happened to it."""

from __future__ import annotations

from poseidon_reconciler.core.blame import NodeLosses, fatal_allocation
from poseidon_reconciler.core.explanation import explain_environment, explain_job
from tests.core.builders import (
    START,
    Bench,
    allocation,
    bench_with_pool,
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

FIRST, SECOND = node_id(1), node_id(2)


def rows(bench: Bench) -> list[NodeLosses]:
    return bench.core.blame.rows()


def restart(bench: Bench, number: int, *, index: int, away_s: float) -> None:
    bench.feed(node(node_id(number), "down", index=index))
    bench.feed(node(node_id(number), "initializing", index=index + 1), after_s=away_s)
    bench.feed(node(node_id(number), "ready", index=index + 2))


def test_losses_of_one_restart_stand_together() -> None:
    bench = bench_with_pool(6)
    restart(bench, 1, index=300, away_s=8)
    lose(bench, 0, index=310)
    lose(bench, 3, index=311)
    bench.wait(30)

    (row,) = rows(bench)
    assert (row.node, row.node_id) == ("agent-a0", FIRST)
    assert row.at == START + 60
    assert row.what == "went down, its agent restarted, ready again after 8s"
    assert (row.losses, row.causes) == (2, {"stuck-complete": 2})
    assert row.job_ids == [runner(0), runner(3)]


def test_losses_found_before_and_after_the_node_is_back_belong_to_the_same_outage() -> None:
    bench = bench_with_pool(6)
    bench.feed(node(node_id(1), "down", index=300))
    bench.wait(20)
    assert [(row.what, row.losses, row.causes) for row in rows(bench)] == [("went down", 3, {"node-lost": 3})]

    bench.feed(node(node_id(1), "ready", index=301))
    bench.feed(node(node_id(2), "down", index=302))
    bench.wait(20)
    assert [(row.node_id, row.what, row.losses) for row in rows(bench)] == [
        (FIRST, "went down, ready again after 20s", 3),
        (SECOND, "went down", 2),
    ]


def test_agents_that_were_away_together_are_told_to_have_been() -> None:
    bench = bench_with_pool(6)
    for number in (1, 2, 3):
        bench.feed(node(node_id(number), "down", index=299 + number), after_s=1)
    for number in (1, 2, 3):
        bench.feed(node(node_id(number), "ready", index=309 + number), after_s=1)
    lose(bench, 0, index=320)
    bench.wait(30)

    assert [row.what for row in rows(bench)] == ["went down, ready again after 3s, 2 other nodes too"]


def test_two_restarts_of_a_node_are_two() -> None:
    bench = bench_with_pool(6)
    restart(bench, 1, index=300, away_s=2)
    lose(bench, 0, index=310)
    bench.wait(60)
    restart(bench, 1, index=320, away_s=2)
    lose(bench, 3, index=330)
    bench.wait(60)

    assert [row.job_ids for row in rows(bench)] == [[runner(0)], [runner(3)]]
    assert [row.at for row in rows(bench)] == [START + 60, START + 122]


def test_a_restart_within_the_heartbeat_and_a_drain_are_told_by_their_names() -> None:
    bench = bench_with_pool(3)
    bench.feed(node(node_id(1), "initializing", index=300))
    bench.feed(node(node_id(1), "ready", index=301), after_s=3)
    bench.feed(node(node_id(2), index=302, draining=True))
    lose(bench, 0, index=310)
    lose(bench, 1, index=311)
    bench.wait(30)

    assert {row.what for row in rows(bench)} == {"its agent restarted, ready again after 3s", "was drained"}


def test_a_removed_node_is_told_with_how_it_ended() -> None:
    bench = bench_with_pool(3)
    bench.feed(node(node_id(1), "down", index=300))
    bench.feed(event(node(node_id(1), "down", index=301), "NodeDeregistration"))
    bench.wait(30)

    assert [row.what for row in rows(bench)] == ["went down, was removed"]


def test_without_a_disturbance_losses_within_a_minute_stand_together() -> None:
    bench = bench_with_pool(9)
    lose(bench, 0, index=310)
    bench.wait(50)
    lose(bench, 3, index=311)
    bench.wait(200)
    lose(bench, 6, index=312)
    bench.wait(30)

    assert [(row.losses, row.what) for row in rows(bench)] == [
        (2, "nothing had happened to the node"),
        (1, "nothing had happened to the node"),
    ]


def test_a_disturbance_long_ago_is_no_reason() -> None:
    bench = bench_with_pool(3)
    restart(bench, 1, index=300, away_s=2)
    bench.wait(3600)
    lose(bench, 0, index=310)
    bench.wait(30)

    assert [row.what for row in rows(bench)] == ["nothing had happened to the node"]


def test_restarts_of_tasks_are_a_disturbance_of_their_own_only_where_there_is_no_other() -> None:
    bench = bench_with_pool(6)
    for number, index in ((0, 300), (3, 301)):
        created = 201 + 10 * number
        again = allocation(
            f"a{number}", runner(number), "pending", index=index, created=created, node=node_id(1), restarts=1
        )
        bench.feed(again, after_s=5)
    lose(bench, 0, index=310)
    bench.wait(30)
    assert [(row.what, row.at) for row in rows(bench)] == [("tasks restarted", START + 65)]

    restart(bench, 2, index=320, away_s=2)
    bench.feed(allocation("a1", runner(1), "pending", index=330, created=211, node=node_id(2), restarts=1))
    lose(bench, 1, index=331)
    bench.wait(30)
    assert rows(bench)[-1].what == "went down, its agent restarted, ready again after 2s, tasks restarted"


def test_the_node_of_the_old_allocation_is_to_blame_and_not_that_of_the_healthy_one() -> None:
    bench = bench_with_pool(3, policy=pool_policy(protect=False))
    bench.feed(haunted(bench, runner(0), index=300, node=node_id(2)))
    bench.feed(
        haunted(bench, runner(0), index=310, node=node_id(2)) | {"ClientStatus": "complete"},
        allocation("a0", runner(0), "complete", "stop", index=310, created=201, node=node_id(1)),
        job(runner(0), "dead", index=310, created=200),
    )
    bench.wait(30)

    fatal = fatal_allocation(bench.job(runner(0)))
    assert fatal is not None
    assert fatal.data.id == f"old-{runner(0)}"
    assert [row.node_id for row in rows(bench)] == [SECOND]


def test_a_job_that_never_had_a_node_is_told_too() -> None:
    bench = bench_with_pool(3)
    bench.feed(job(runner(7), "dead", index=300))
    bench.wait(30)

    (row,) = rows(bench)
    assert (row.node, row.node_id, row.what, row.causes) == (None, None, "never had a node", {"never-placed": 1})


def test_who_lost_most_stands_first() -> None:
    bench = bench_with_pool(6)
    for number in (1, 0, 3):
        lose(bench, number, index=310 + number)
    bench.wait(30)

    assert [row.node_id for row in rows(bench)] == [FIRST, SECOND]


def test_a_loss_is_counted_once_however_often_nomad_looks_at_it_and_stays_when_it_is_dealt_with() -> None:
    bench = bench_with_pool(3)
    lose(bench, 0, index=310)
    bench.wait(30)
    bench.feed(job(runner(0), "pending", index=320, created=200))
    bench.feed(job(runner(0), "dead", index=321, created=200))
    bench.wait(30)
    purge(bench, runner(0), index=330)
    bench.wait(30)

    assert [(row.losses, row.job_ids) for row in rows(bench)] == [(1, [runner(0)])]
    assert bench.core.blame.of(runner(0)) is None


def test_what_was_long_ago_is_forgotten() -> None:
    bench = bench_with_pool(6)
    lose(bench, 0, index=310)
    bench.wait(86_000)
    lose(bench, 3, index=320)
    bench.wait(60)
    assert sum(row.losses for row in rows(bench)) == 2

    bench.wait(1_000)
    bench.feed(node(node_id(3), "initializing", index=330))
    assert [row.job_ids for row in rows(bench)] == [[runner(3)]]


def test_of_a_great_loss_only_the_first_ids_are_kept() -> None:
    bench = bench_with_pool(150, nodes=1)
    bench.feed(node(node_id(1), "down", index=5_000))
    bench.wait(30)

    (row,) = rows(bench)
    assert (row.losses, len(row.job_ids)) == (151, 20)


def test_an_environment_and_a_lost_job_are_explained_with_their_nodes() -> None:
    bench = bench_with_pool(2)
    bench.feed(
        job("template-11", index=250, target=1),
        allocation("t11", "template-11", index=251, node=node_id(2)),
        job(runner(0, "11"), index=252),
        allocation("a11", runner(0, "11"), "failed", index=260, created=253, node=node_id(1)),
        job(runner(0, "11"), "dead", index=260, created=252),
    )
    lose(bench, 0, index=310)
    bench.wait(30)

    told = explain_environment(bench.core, "11")
    assert told is not None
    assert [(row.node_id, row.losses, row.causes) for row in told.blame] == [(FIRST, 1, {"exhausted": 1})]
    lost = explain_job(bench.core, bench.job(runner(0)))
    assert lost is not None
    assert lost.blame is not None
    assert (lost.blame.node_id, lost.blame.losses) == (FIRST, 2)
    healthy = explain_job(bench.core, bench.job(runner(1)))
    assert healthy is not None
    assert healthy.blame is None


def test_another_history_of_the_cluster_keeps_what_was_lost() -> None:
    bench = bench_with_pool(3)
    lose(bench, 0, index=310)
    bench.wait(30)
    bench.core.connection_opened()
    bench.read(50, Jobs=[], Allocations=[], Evaluations=[], Nodes=[])
    assert bench.core.model.jobs == {}

    (row,) = rows(bench)
    assert (row.node, row.node_id, row.losses) == ("agent-a0", FIRST, 1)
