"""The cluster as a whole: it repeats itself exactly, it survives its servers, and it is fast."""

from __future__ import annotations

import time

import pytest

from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.events import Cut
from poseidon_reconciler.twin.player import Player, cluster_for
from poseidon_reconciler.twin.poseidon_jobs import Work
from poseidon_reconciler.twin.records import NodeSpec
from poseidon_reconciler.twin.scenarios import SCENARIOS
from tests.twin.labs import job_of, lab, newest, statuses, with_runner
from tests.twin.recordings import sent


@pytest.mark.parametrize("name", ["restart-together-20s", "exhausted", "drain"])
def test_the_same_seed_gives_the_same_history(name: str) -> None:
    histories = [
        sent(Player(cluster_for(SCENARIOS[name], seed=seed), SCENARIOS[name]).play().cluster) for seed in (3, 3, 4)
    ]
    assert histories[0] == histories[1]
    assert histories[0] != histories[2]


def test_how_often_the_clock_is_looked_at_changes_nothing() -> None:
    def history(step_s: float) -> list[dict[str, object]]:
        cluster = Cluster(3, seed=5)
        player = Player(cluster, SCENARIOS["restart-together-20s"])
        player.begin()
        end = cluster.now + 120
        while cluster.now < end:
            cluster.advance(min(end, cluster.now + step_s))
        return sent(cluster)

    assert history(0.05) == history(7.0) == history(120.0)


def test_time_never_goes_backwards() -> None:
    cluster = lab()
    before = cluster.now
    cluster.advance(before - 100)
    assert cluster.now == before


def test_a_thousand_runners_go_through_an_outage_in_seconds() -> None:
    scenario = SCENARIOS["restart-together-100-15s"].scaled(1000)
    started = time.process_time()
    player = Player(cluster_for(scenario, seed=1), scenario).play()
    assert time.process_time() - started < 15
    assert sum(job.status == "dead" for job in player.cluster.state.jobs.values()) > 600


def test_a_restarted_server_goes_on_with_its_indexes_and_replays_its_log() -> None:
    cluster = lab()
    key = with_runner(cluster)
    index, server = cluster.state.index, cluster.quorum.servers["server-1"]
    reader = server.buffer.subscribe()
    before = [batch.index for batch in cluster.log]
    cluster.restart_server(down_s=1.0)
    with pytest.raises(Cut):
        reader.read()
    cluster.run_for(3)
    replayed = [batch.index for batch in server.buffer.subscribe().read()]
    assert replayed[: len(before)] == before
    with_runner(cluster, name="10-b")
    assert cluster.state.index > index
    assert job_of(cluster, key).status == "running"


def test_a_saved_snapshot_shortens_what_is_replayed() -> None:
    cluster = lab()
    with_runner(cluster)
    cluster.save_snapshot()
    with_runner(cluster, name="10-b")
    cluster.restart_server()
    keys = {event.key for batch in cluster.quorum.servers["server-1"].buffer.batches for event in batch.events}
    assert "10-b" in keys
    assert "10-a" not in keys


def test_a_restored_snapshot_takes_the_indexes_back_and_forgets_what_was_since() -> None:
    cluster = lab()
    old = with_runner(cluster)
    snapshot = cluster.save_snapshot()
    new = with_runner(cluster, name="10-b")
    reader = cluster.quorum.servers["server-1"].buffer.subscribe()
    (agent,) = [a for a in cluster.agents.values() if a.node_id == newest(cluster, new).node_id]
    cluster.restore_snapshot(snapshot)
    assert cluster.state.index == snapshot.index
    assert new not in cluster.state.jobs
    with pytest.raises(Cut, match="resubscribe"):
        reader.read()
    cluster.run_for(5)
    assert job_of(cluster, old).status == "running"
    assert all(local.allocation.job.key != new for local in agent.local.values())


def test_without_a_leader_nothing_is_decided() -> None:
    cluster = lab(servers=3)
    key = with_runner(cluster)
    cluster.stop_server("server-1")
    cluster.stop_server("server-2")
    assert not cluster.has_leader
    agent = cluster.agent_of(newest(cluster, key).node_id)
    assert agent is not None
    agent.stop()
    cluster.run_for(60)
    assert statuses(cluster, key) == ["running/run"]
    cluster.start_server("server-2")
    cluster.run_for(60)
    assert statuses(cluster, key) == ["lost/stop", "running/run"]


def test_a_server_that_is_cut_off_hears_nothing_until_it_is_back() -> None:
    cluster = lab(servers=3)
    cluster.cut_off_server("server-2")
    with_runner(cluster)
    one, two = (cluster.quorum.servers[name].buffer for name in ("server-1", "server-2"))
    assert two.newest_index != one.newest_index
    cluster.cut_off_server("server-3")
    assert cluster.quorum.leader is None
    cluster.rejoin_server("server-2")
    cluster.run_for(1)
    assert cluster.has_leader
    assert two.newest_index == one.newest_index


def test_groups_that_ask_for_it_stop_when_the_servers_are_away() -> None:
    cluster = lab()
    stopping = with_runner(cluster, Work(stop_after_s=5.0))
    staying = with_runner(cluster, name="10-b")
    cluster.stop_server()
    cluster.run_for(20)
    cluster.start_server()
    cluster.run_for(1)
    assert newest(cluster, stopping).client_status == "complete"
    assert newest(cluster, staying).client_status == "running"


def test_a_cluster_has_the_machines_that_it_was_given() -> None:
    cluster = Cluster([NodeSpec("big", cpu_mhz=9000), NodeSpec("small", cpu_mhz=100)])
    cluster.run_for(20)
    assert {node.spec.name: node.spec.cpu_mhz for node in cluster.state.nodes.values()} == {"big": 9000, "small": 100}
