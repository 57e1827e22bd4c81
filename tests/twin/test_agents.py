"""How agents stop, reboot, hang, are cut off and come back, and in which order they speak."""

from __future__ import annotations

from poseidon_reconciler.twin.agents import Agent
from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.poseidon_jobs import Work
from poseidon_reconciler.twin.records import Allocation, JobKey
from poseidon_reconciler.twin.runner import AgentPace
from tests.twin.labs import job_of, lab, newest, statuses, with_runner


def agent_of(cluster: Cluster, key: JobKey) -> Agent:
    agent = cluster.agent_of(newest(cluster, key).node_id)
    assert agent is not None
    return agent


def reports(cluster: Cluster, allocation_id: str) -> list[str]:
    """Client and desired status in every event that an agent's report made of an allocation."""
    return [
        f"{event.payload.client_status}/{event.payload.desired_status}"
        for batch in cluster.log
        for event in batch.events
        if event.type == "AllocationUpdated" and isinstance(event.payload, Allocation) and event.key == allocation_id
    ]


def away(cluster: Cluster, key: JobKey, verb: str, *, away_s: float = 10.0) -> Allocation:
    """Takes a job's agent away for a while; gives the allocation that was on it."""
    agent, allocation = agent_of(cluster, key), newest(cluster, key)
    getattr(agent, verb)()
    cluster.run_for(away_s)
    (agent.thaw if verb == "freeze" else agent.heal if verb == "cut" else agent.start)()
    cluster.run_for(10)
    return cluster.state.allocations[allocation.id]


def test_what_still_runs_is_reported_running_before_it_is_complete() -> None:
    cluster = lab(2)
    old = away(cluster, with_runner(cluster), "stop")
    assert reports(cluster, old.id)[-3:] == ["running/stop", "complete/stop", "complete/stop"]


def test_what_did_not_survive_is_complete_at_once() -> None:
    cluster = lab(2)
    old = away(cluster, with_runner(cluster), "reboot")
    assert reports(cluster, old.id)[-1] == "complete/stop"
    assert "running/stop" not in reports(cluster, old.id)
    assert [event.type for event in old.task_states["default-task"].events][-2:] == ["Failed Restoring Task", "Killing"]


def test_what_was_never_started_is_complete_at_once() -> None:
    cluster = lab(2)
    key = with_runner(cluster)
    agent_of(cluster, key).stop()
    while len(cluster.state.allocations_of(key)) == 1:
        cluster.run_for(0.001)
    agent_of(cluster, key).stop()
    cluster.run_for(15)
    lost = newest(cluster, key)
    assert (lost.client_status, lost.task_states) == ("lost", {})
    for agent in cluster.agents.values():
        agent.start()
    cluster.run_for(5)
    assert reports(cluster, lost.id) == ["complete/stop"]
    states = cluster.state.allocations[lost.id].task_states
    assert [event.type for event in states["default-task"].events] == ["Received"]


def test_a_reboot_within_the_heartbeat_makes_a_new_container_and_says_nothing_else() -> None:
    cluster = lab(2)
    key = with_runner(cluster)
    before = newest(cluster, key)
    agent_of(cluster, key).reboot()
    agent_of(cluster, key).start()
    cluster.run_for(3)
    (after,) = cluster.state.allocations_of(key)
    assert set(reports(cluster, before.id)[1:]) == {"running/run"}
    old, new = before.task_states["default-task"], after.task_states["default-task"]
    assert (new.restarts, new.started_at != old.started_at) == (0, True)


def test_what_is_stopped_while_it_starts_again_after_a_reboot_never_runs() -> None:
    cluster = lab(1, agents=AgentPace(prompt_share=1.0, start_s=3.0))
    key = with_runner(cluster, run_s=5.0)
    agent = agent_of(cluster, key)
    agent.reboot()
    agent.start()
    cluster.run_for(1)
    assert agent.local[newest(cluster, key).id].tasks[0].starting
    cluster.jobs.deregister(key)
    cluster.run_for(10)
    assert statuses(cluster, key) == ["complete/stop"]


def test_a_restart_within_the_heartbeat_changes_nothing() -> None:
    cluster = lab(2)
    key = with_runner(cluster)
    before = newest(cluster, key)
    agent_of(cluster, key).stop()
    agent_of(cluster, key).start()
    cluster.run_for(5)
    assert newest(cluster, key) == before


def test_a_task_that_ends_while_its_agent_is_away_is_noticed_later() -> None:
    for verb in ("stop", "freeze", "cut"):
        cluster = lab(1)
        key = with_runner(cluster, Work(("sh", "-c", "sleep 3; exit 0")))
        ended = away(cluster, key, verb, away_s=2.5)
        assert ended.client_status == "complete", verb
        assert job_of(cluster, key).status == "dead"


def test_a_frozen_agent_goes_on_where_it_was() -> None:
    cluster = lab(2)
    old = away(cluster, with_runner(cluster), "freeze")
    assert old.client_status == "complete"
    node = cluster.state.nodes[old.node_id]
    assert [event.message for event in node.events][-2:] == ["Node heartbeat missed", "Node reregistered by heartbeat"]


def test_an_agent_that_is_cut_off_keeps_what_it_has_to_say() -> None:
    cluster = lab(1, version="1.10.5")
    key = with_runner(cluster, Work(("sh", "-c", "sleep 4; exit 1"), restarts=0, lost_after_s=600.0))
    failed = away(cluster, key, "cut")
    assert failed.client_status == "failed"


def test_only_so_many_tasks_start_at_a_time() -> None:
    pace = AgentPace(prompt_share=1.0, start_s=1.0, parallel_starts=2)
    cluster = lab(1, agents=pace)
    for number in range(6):
        with_runner(cluster, name=f"10-{number}", run_s=0.0)
    cluster.run_for(1.8)
    assert sum(a.client_status == "running" for a in cluster.state.allocations.values()) in {2, 3, 4}
    cluster.run_for(6)
    assert sum(a.client_status == "running" for a in cluster.state.allocations.values()) == 6


def test_the_servers_may_forget_what_an_agent_still_knows() -> None:
    cluster = lab(1)
    key = with_runner(cluster)
    agent = agent_of(cluster, key)
    cluster.jobs.deregister(key)
    cluster.run_for(5)
    cluster.collect_garbage()
    cluster.run_for(1)
    assert cluster.state.allocations == {}
    assert agent.local == {}


def test_a_crowded_machine_starts_each_of_its_tasks_more_slowly() -> None:
    def all_run_after_s(crowding: float, tasks: int) -> float:
        pace = AgentPace(prompt_share=1.0, start_s=1.0, parallel_starts=100, crowding=crowding)
        cluster = lab(1, agents=pace)
        began_at = cluster.now
        keys = [with_runner(cluster, name=f"10-{number}", run_s=0.0) for number in range(tasks)]
        while any(job_of(cluster, key).status != "running" or not _runs(cluster, key) for key in keys):
            cluster.run_for(0.5)
        return cluster.now - began_at

    assert all_run_after_s(0.0, 20) < 3
    assert all_run_after_s(0.5, 1) < 3
    assert 5 < all_run_after_s(0.5, 20) < 20


def _runs(cluster: Cluster, key: JobKey) -> bool:
    allocations = cluster.state.allocations_of(key)
    return bool(allocations) and allocations[-1].client_status == "running"
