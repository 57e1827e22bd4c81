"""Each scenario of the embedded cluster against the recording of the same steps on a real one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache

import pytest
from msgspec.structs import replace

from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.player import Player, cluster_for
from poseidon_reconciler.twin.scenarios import SCENARIOS, Scenario
from tests.twin.recordings import (
    Step,
    counted,
    final_statuses,
    recorded,
    recordings_of,
    sent,
    steps,
)

SEEDS = range(8)

# Which jobs die when no agent had room for them depends, on a real cluster as here, on when a returning agent sends its
# first heartbeat: before or after its first report. So these are compared over several seeds, as a range that must hold
# what was recorded.
CHANCE = {
    "all-frozen-15",
    "half-protected-stop-100",
    "node-lost-no-capacity",
    "reboot-together-20s",
    "restart-together-100-15s",
    "restart-together-20s",
}
CERTAIN = sorted(SCENARIOS.keys() - CHANCE)

# Steps that no recording shows and that are right all the same, each with the reason.
COLLECTED = "newer servers tell of each job that is collected; recorded of one that an evaluation had found dead"
REPORTED_BETWEEN = "an agent reports every 200 ms: a kill of 30 ms may fall between two reports or not"
UNSEEN: dict[Step, str] = {
    (
        "Job",
        ("EvaluationUpdated", "dead", ""),
        ("EvaluationUpdated", "pending", ""),
    ): "a node's return makes an evaluation for a job that is already dead: dead, pending, dead (known from reports)",
    (
        "Node",
        ("NodeStreamEvent", "ready", "eligible", ""),
        ("NodeStreamEvent", "down", "eligible", ""),
    ): "an agent is lost before it registers for the second time, some 7 s after the first",
    (
        "Evaluation",
        ("EvaluationUpdated", "pending", "node-update", "", ""),
        ("EvaluationUpdated", "complete", "node-update", "", "blocked"),
    ): "the second of two lost nodes is evaluated when the first evaluation has already stopped all",
    ("Job", ("EvaluationUpdated", "dead", "stopped"), ("JobBatchDeregistered", "dead", "stopped")): COLLECTED,
    ("Job", ("AllocationUpdated", "dead", ""), ("JobBatchDeregistered", "dead", "")): COLLECTED,
    **{
        ("Allocation", (*before, "running", "stop", why, "linked"), (*after, "stop", why, "linked")): REPORTED_BETWEEN
        for why in ("alloc is being migrated", "alloc is being updated due to job update")
        for before, after in (
            (("PlanResult",), ("AllocationUpdated", "running")),
            (("AllocationUpdated",), ("AllocationUpdated", "complete")),
        )
    },
}


def played(scenario: Scenario, seed: int) -> Cluster:
    return Player(cluster_for(scenario, seed=seed), scenario).play().cluster


@cache
def told(name: str, seed: int) -> tuple[dict[str, str], dict[Step, str]]:
    """How the jobs of a scenario end, and the steps that its events take."""
    frames = sent(played(SCENARIOS[name], seed))
    return final_statuses(frames), steps(frames)


def deaths(name: str, seeds: Iterable[int]) -> list[int]:
    return [Counter(told(name, seed)[0].values())["dead"] for seed in seeds]


@pytest.fixture(scope="module")
def known_steps() -> set[Step]:
    return {step for name in recordings_of() for step in steps(recorded(name))}


def test_every_recording_has_its_scenario() -> None:
    assert {name.removesuffix("-raw") for name in recordings_of()} == set(SCENARIOS)


@pytest.mark.parametrize("name", CERTAIN)
def test_ends_as_recorded(name: str) -> None:
    expected = counted(final_statuses(recorded(name)))
    for seed in SEEDS:
        assert counted(told(name, seed)[0]) == expected


@pytest.mark.parametrize("name", sorted(CHANCE))
def test_as_many_die_as_recorded_give_or_take_chance(name: str) -> None:
    dead = Counter(final_statuses(recorded(name)).values())["dead"]
    found = deaths(name, SEEDS)
    assert min(found) <= dead <= max(found)
    assert {status for seed in SEEDS for status in told(name, seed)[0].values()} <= {"dead", "running"}


def test_a_third_survives_when_every_agent_is_heard_of_at_once() -> None:
    """Recorded: 67 of 101. Those survive that were on the last agent to go down: their old allocations die last."""
    assert sum(1 for count in deaths("restart-together-100-15s", SEEDS) if 60 <= count <= 75) >= 3


def test_everybody_dies_when_the_machines_rebooted() -> None:
    """Reported of a real cluster: 101 of 101, because every old allocation is complete at once."""
    scenario = SCENARIOS["reboot-together-20s"].scaled(100)
    for seed in range(3):
        statuses = counted(final_statuses(sent(played(scenario, seed))))
        assert statuses["runner", "dead"] + statuses["environment", "dead"] >= 99


@pytest.mark.parametrize("seed", SEEDS)
def test_whoever_got_a_new_version_lives(seed: int) -> None:
    scenario = SCENARIOS["half-protected-stop-100"]
    player = Player(cluster_for(scenario, seed=seed), scenario).play()
    jobs = player.cluster.state.jobs
    untouched = [job for key, job in jobs.items() if key not in player.protected]
    assert len(player.protected) >= 50
    assert {jobs[key].status for key in player.protected} == {"running"}
    assert {job.status for job in untouched} == {"dead"}
    assert not any(job.stop for job in jobs.values())


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_tells_only_what_real_clusters_tell(name: str, known_steps: set[Step]) -> None:
    for seed in SEEDS:
        taken = told(name, seed)[1]
        assert {step: example for step, example in taken.items() if step not in known_steps | UNSEEN.keys()} == {}


@pytest.mark.parametrize("version", ["1.1.18", "1.10.5", "2.0.5"])
def test_tells_what_real_clusters_of_its_version_tell(version: str, known_steps: set[Step]) -> None:
    known = known_steps | {step for name in recordings_of(version) for step in steps(recorded(name))} | UNSEEN.keys()
    for name in ("restart-together-20s", "reboot-together-20s", "gc", "used-and-deregistered"):
        scenario = SCENARIOS[name].scaled(15) if "together" in name else SCENARIOS[name]
        settings = replace(scenario.settings, version=version)
        for seed in range(4):
            taken = steps(sent(played(replace(scenario, settings=settings), seed)))
            assert {step: example for step, example in taken.items() if step not in known} == {}


@pytest.mark.parametrize(("version", "dead"), [("1.10.5", True), ("2.0.5", False)])
def test_who_survives_the_return_dies_later_unless_the_server_has_lost_the_trap(version: str, dead: bool) -> None:
    """Recorded of 1.10.5: often nobody dies at the return, and everybody at the next evaluation."""
    scenario = SCENARIOS["reboot-together-20s"].scaled(15)
    scenario = replace(scenario, settings=replace(scenario.settings, version=version))
    for seed in range(4):
        cluster = played(scenario, seed)
        for key in list(cluster.state.jobs):
            cluster.jobs.evaluate(key)
        cluster.run_for(5)
        assert {job.status for job in cluster.state.jobs.values()} == ({"dead"} if dead else {"running"})


def test_between_them_the_scenarios_do_nearly_all_that_was_recorded(known_steps: set[Step]) -> None:
    taken = {step for name in SCENARIOS for seed in SEEDS for step in told(name, seed)[1]}
    assert len(known_steps & taken) >= 0.95 * len(known_steps)


def test_scaling_keeps_room_for_everybody() -> None:
    scenario = SCENARIOS["startup"].scaled(700)
    assert counted(final_statuses(sent(played(scenario, 1))))["runner", "running"] == 700
