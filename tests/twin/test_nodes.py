"""Heartbeats, drains and eligibility, and what each makes the servers look at."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.nodes import computed_class
from poseidon_reconciler.twin.poseidon_jobs import Work
from poseidon_reconciler.twin.records import Node, NodeSpec
from tests.twin.labs import job_of, lab, newest, statuses, with_runner


def node_of(cluster: Cluster, name: str) -> Node:
    return cluster.state.nodes[cluster.agents[name].node_id]


def messages(node: Node) -> list[str]:
    return [event.message for event in node.events]


def test_an_agent_that_is_not_heard_of_is_given_up_and_taken_back() -> None:
    cluster = lab()
    agent = cluster.agents["agent-1"]
    agent.stop()
    cluster.run_for(0.9)
    assert node_of(cluster, "agent-1").status == "ready"
    cluster.run_for(5)
    assert node_of(cluster, "agent-1").status == "down"
    agent.start()
    cluster.run_for(3)
    assert messages(node_of(cluster, "agent-1")) == ["Node registered", "Node heartbeat missed", "Node re-registered"]
    assert node_of(cluster, "agent-1").status == "ready"


def test_a_restart_within_the_heartbeat_is_seen_as_initializing_only() -> None:
    cluster = lab()
    key = with_runner(cluster)
    agent = cluster.agent_of(newest(cluster, key).node_id)
    assert agent is not None
    agent.stop()
    agent.start()
    cluster.run_for(3)
    kinds = [
        (event.type, event.payload.status)
        for batch in cluster.log
        for event in batch.events
        if isinstance(event.payload, Node) and event.key == agent.node_id
    ]
    assert kinds[-2:] == [("NodeRegistration", "initializing"), ("NodeStreamEvent", "ready")]
    assert statuses(cluster, key) == ["running/run"]


def test_a_return_is_evaluated_once_for_each_job_that_was_ever_there() -> None:
    cluster = lab(1)
    keys = [with_runner(cluster, name=f"10-{name}") for name in "abc"]
    agent = cluster.agents["agent-1"]
    agent.stop()
    agent.start()
    before = cluster.state.index
    cluster.run_for(3)
    made = [e for e in cluster.state.evaluations.values() if e.create_index > before]
    assert sorted(e.job_key for e in made) == sorted(keys)
    assert {(e.triggered_by, e.node_id) for e in made} == {("node-update", agent.node_id)}


def test_a_closed_node_takes_nothing_new() -> None:
    cluster = lab(2)
    node = node_of(cluster, "agent-1")
    cluster.nodes.set_eligible(node.id, eligible=False)
    keys = [with_runner(cluster, name=f"10-{name}") for name in "abc"]
    assert {newest(cluster, key).node_name for key in keys} == {"agent-2"}
    cluster.nodes.set_eligible(node.id, eligible=True)
    assert newest(cluster, with_runner(cluster, name="10-d")).node_name == "agent-1"
    assert messages(node_of(cluster, "agent-1"))[-2:] == [
        "Node marked as ineligible for scheduling",
        "Node marked as eligible for scheduling",
    ]


def test_a_drain_moves_batch_allocations_at_its_deadline() -> None:
    cluster = lab(2)
    key = with_runner(cluster)
    node_id = newest(cluster, key).node_id
    cluster.nodes.drain(node_id, 10.0)
    cluster.run_for(8)
    assert statuses(cluster, key) == ["running/run"]
    assert not cluster.state.nodes[node_id].schedulable
    cluster.run_for(8)
    old, new = cluster.state.allocations_of(key)
    assert statuses(cluster, key) == ["complete/stop", "running/run"]
    assert (old.next_id, old.migrate, new.node_id != node_id) == (new.id, True, True)
    node = cluster.state.nodes[node_id]
    assert (node.drain, node.eligible) == (None, False)
    assert node.last_drain is not None
    assert node.last_drain.status == "complete"


def test_newer_servers_do_not_place_drained_batch_allocations_anew() -> None:
    cluster = lab(2, version="2.0.5")
    key = with_runner(cluster)
    cluster.nodes.drain(newest(cluster, key).node_id, -1.0)
    cluster.run_for(5)
    assert statuses(cluster, key) == ["complete/stop"]
    assert job_of(cluster, key).status == "dead"


def test_a_drain_without_deadline_waits_until_the_node_is_empty() -> None:
    cluster = lab(1)
    key = with_runner(cluster)
    node_id = newest(cluster, key).node_id
    cluster.nodes.drain(node_id, 0.0)
    cluster.run_for(100)
    assert cluster.state.nodes[node_id].drain is not None
    cluster.jobs.deregister(key)
    cluster.run_for(5)
    assert cluster.state.nodes[node_id].drain is None


def test_a_drain_may_be_called_off() -> None:
    cluster = lab(1)
    key = with_runner(cluster)
    node_id = newest(cluster, key).node_id
    cluster.nodes.drain(node_id, 10.0)
    cluster.nodes.cancel_drain(node_id, eligible=True)
    cluster.run_for(30)
    assert statuses(cluster, key) == ["running/run"]
    assert cluster.state.nodes[node_id].schedulable


def test_a_node_that_forgot_its_disk_is_another_node() -> None:
    cluster = lab(2)
    key = with_runner(cluster)
    agent = cluster.agent_of(newest(cluster, key).node_id)
    assert agent is not None
    old_id = agent.node_id
    agent.lose_disk()
    agent.start()
    cluster.run_for(15)
    assert (cluster.state.nodes[old_id].status, cluster.state.nodes[agent.node_id].status) == ("down", "ready")
    assert statuses(cluster, key) == ["lost/stop", "running/run"]


def test_alike_machines_share_a_class() -> None:
    assert computed_class(NodeSpec("a")) == computed_class(NodeSpec("b"))
    assert computed_class(NodeSpec("a")) != computed_class(NodeSpec("b", cpu_mhz=1))


@pytest.mark.parametrize(("version", "status"), [("1.1.2", "initializing"), ("1.10.5", "down")])
def test_how_a_lost_node_registers_depends_on_the_server(version: str, status: str) -> None:
    cluster = lab(1, version=version)
    agent = cluster.agents["agent-1"]
    agent.stop()
    cluster.run_for(10)
    agent.start()
    cluster.run_for(3)
    told = [event.payload for batch in cluster.log for event in batch.events if event.type == "NodeRegistration"]
    assert [node.status for node in told if isinstance(node, Node)][-1] == status


@pytest.mark.parametrize("version", ["1.1.2", "1.10.5", "2.0.5"])
def test_the_room_of_a_node_that_registers_as_ready_is_offered_though_it_was_ready(version: str) -> None:
    """A new leader does not know what the one before was about to look at again."""
    cluster = lab(1, version=version)
    big = Work(cpu_mhz=3000)
    first, second = with_runner(cluster, big), with_runner(cluster, big, name="10-b")
    write = cluster.state.begin("AllocationUpdated")
    write.put_allocation(replace(newest(cluster, first), desired_status="stop", client_status="complete"))
    write.commit()
    cluster.run_for(3)
    assert job_of(cluster, second).status == "pending"

    node = node_of(cluster, "agent-1")
    cluster.nodes.register(node.id, node.spec, "ready")
    cluster.run_for(3)

    assert job_of(cluster, second).status == "running"
