"""Playing scenarios: who is meant by a step, and that it is done to them."""

from __future__ import annotations

import pytest

from poseidon_reconciler.twin.player import VERBS, Player, cluster_for
from poseidon_reconciler.twin.poseidon_jobs import Work, config_of
from poseidon_reconciler.twin.scenarios import SCENARIOS, Scenario, Step
from tests.twin.labs import lab, newest, statuses, with_runner


def player(*steps: Step, runners: int = 3, duration_s: float = 30.0) -> Player:
    scenario = Scenario("test", "", steps, runners=runners, duration_s=duration_s)
    return Player(cluster_for(scenario, seed=2), scenario).play()


def test_every_step_of_every_scenario_has_a_known_verb() -> None:
    assert {step.verb for scenario in SCENARIOS.values() for step in scenario.steps} <= VERBS.keys()


def test_steps_are_done_at_their_time_after_the_set_up_runs() -> None:
    played = player(Step(5.0, "use", "2"))
    job = played.cluster.state.jobs[played.runners[1]]
    assert played.running_since is not None
    assert job.submitted_at == pytest.approx(played.running_since + 5.0)
    assert config_of(dict(job.spec)) == {"used": "true", "timeout": "60"}


def test_the_agent_of_a_job_stays_the_one_that_was_meant_first() -> None:
    played = player(Step(3.0, "stop", "of:1"), Step(15.0, "start", "of:1"))
    assert all(agent.up for agent in played.cluster.agents.values())
    assert statuses(played.cluster, played.runners[0]) == ["complete/stop", "running/run"]


def test_jobs_may_be_meant_by_what_they_are() -> None:
    played = player(Step(3.0, "protect", "odd"), Step(6.0, "stop-job", "3"))
    assert played.jobs("odd") == [played.runners[0], played.runners[2]]
    assert played.protected == set(played.jobs("odd"))
    assert played.jobs("survivors") == [played.environment, *played.runners[:2]]
    assert played.jobs("half-of-unprotected-survivors") == [played.environment]


def test_the_steps_alone_may_be_played_on_a_cluster_of_somebody_elses() -> None:
    cluster = lab()
    key = with_runner(cluster)
    other = Player(cluster, Scenario("test", "", (Step(1.0, "use", "1"),), duration_s=3.0))
    other.runners = [key]
    other.start_steps()
    cluster.run_for(3)
    assert other.done
    assert config_of(dict(cluster.state.jobs[key].spec))["used"] == "true"


def test_servers_may_be_restarted_in_between() -> None:
    played = player(Step(3.0, "restart-servers", "all", "2"), Step(10.0, "add-runner"))
    assert len(played.runners) == 4
    assert newest(played.cluster, played.runners[-1]).client_status == "running"


def test_agents_may_be_cut_off_and_lose_their_disks() -> None:
    played = player(
        Step(3.0, "cut", "1"), Step(4.0, "lose-disk", "2"), Step(14.0, "heal", "1"), Step(15.0, "start", "2")
    )
    ready = [node.spec.name for node in played.cluster.state.nodes.values() if node.status == "ready"]
    assert sorted(ready) == ["agent-1", "agent-2", "agent-3"]
    assert len(played.cluster.state.nodes) == 4


def test_an_image_that_cannot_be_pulled_lets_new_runners_fail_until_it_can() -> None:
    work = Work(restarts=0, reschedules=0)
    steps = (
        Step(1.0, "break-image", "environment", "openhpi/java:21"), Step(2.0, "add-runner"),
        Step(6.0, "mend-image", "environment"), Step(7.0, "add-runner"),
    )  # fmt: skip
    scenario = Scenario("image", "", steps, runners=1, work=work, duration_s=12.0)
    player = Player(cluster_for(scenario), scenario).play()
    newest = [player.cluster.state.allocations_of(key)[-1] for key in player.runners]
    assert [allocation.client_status for allocation in newest] == ["running", "failed", "running"]
    (events,) = [state.events for state in newest[1].task_states.values()]
    assert any("Failed to pull `openhpi/java:21`" in str(event) for event in events)
