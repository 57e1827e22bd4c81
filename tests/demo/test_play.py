"""A failure that is played while others are at work."""

from __future__ import annotations

from msgspec.structs import replace

from poseidon_reconciler.app.demo.play import Play, warm_cluster
from poseidon_reconciler.twin.scenarios import SCENARIOS, Scenario, Step
from tests.demo.clusters import key
from tests.twin.labs import newest

CALM = Scenario("test", "", (Step(2.0, "stop", "of:environment"),), runners=2)


class Played:
    """A play on a cluster of its own, and what it tells."""

    def __init__(self, *scenes: Scenario, disconnect: dict[str, object] | None = None) -> None:
        self.told: list[str] = []
        self.cluster = warm_cluster(scenes[0], now=1_800_000_000.0)
        self.play = Play(
            self.cluster,
            list(scenes),
            disconnect=disconnect,
            tell=self.told.append,
            on_started=lambda: self.told.append("started"),
        )
        self.play.begin()


def test_all_agents_are_ready_when_it_begins() -> None:
    cluster = warm_cluster(CALM, now=1_800_000_000.0)
    assert cluster.now == 1_800_000_000.0
    assert {node.status for node in cluster.state.nodes.values()} == {"ready"}


def test_it_begins_with_the_steps_when_everything_runs() -> None:
    played = Played(CALM)
    played.cluster.run_for(1.0)
    assert played.told == ["started"]
    played.cluster.run_for(3.0)
    assert played.told == ["started", "stopped: the agent of template-10"]
    assert sum(agent.up for agent in played.cluster.agents.values()) == 2


def test_each_scene_has_an_environment_of_its_own() -> None:
    played = Played(CALM, replace(CALM, environment=11, runners=1, steps=()))
    played.cluster.run_for(1.0)
    jobs = [job_id.partition("-")[0] for _, job_id in played.cluster.state.jobs]
    assert sorted(jobs) == ["10", "10", "11", "template", "template"]
    assert len(played.play.runners) == 2


def test_every_job_gets_the_block_that_says_what_a_disconnect_means() -> None:
    played = Played(CALM, disconnect={"LostAfter": 10**9})
    for job in played.cluster.state.jobs.values():
        assert job.spec["TaskGroups"][0]["Disconnect"] == {"LostAfter": 10**9}


def test_a_step_on_what_is_gone_does_not_end_the_play() -> None:
    steps = (Step(1.0, "use", "1"), Step(2.0, "evaluate", "1"), Step(3.0, "stop", "2"))
    played = Played(replace(CALM, steps=steps))
    played.cluster.run_for(0.8)
    played.cluster.jobs.deregister(played.play.runners[0], purge=True)
    played.cluster.run_for(5.0)
    assert played.told[1:] == [
        "used by hand: runner 1",
        "which is gone: runner 1",
        "evaluated: runner 1",
        "which is gone: runner 1",
        "stopped: agent-2",
    ]


def test_it_remembers_what_it_deregistered() -> None:
    steps = (Step(1.0, "stop-job", "1"), Step(2.0, "purge", "2"))
    played = Played(replace(CALM, steps=steps))
    played.cluster.run_for(5.0)
    assert played.play.deregistered == set(played.play.runners)


def test_the_steps_end_when_the_last_one_has_done_its_work() -> None:
    steps = (Step(3.0, "restart-servers", "all", "15"), Step(5.0, "stop", "1"))
    played = Played(replace(CALM, steps=steps))
    assert (played.play.first_step_s, played.play.last_step_s) == (3.0, 18.0)


def test_what_a_recorded_scenario_sets_up_is_set_up() -> None:
    played = Played(SCENARIOS["unplaceable"])
    assert key("template-10") not in played.cluster.state.jobs
    played.cluster.run_for(1.0)
    assert newest(played.cluster, played.play.runners[2]).client_status in {"pending", "running", "failed"}
