"""What the demo offers to break."""

from __future__ import annotations

import pytest

from poseidon_reconciler.app.demo.scenarios import DEFAULT, DEMO_SCENARIOS, DemoScenario, scenario_named
from poseidon_reconciler.app.errors import UsageError
from poseidon_reconciler.twin.player import VERBS

ALL = list(DEMO_SCENARIOS.values())


@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.name)
def test_every_scenario_is_said_in_one_sentence_and_does_something(scenario: DemoScenario) -> None:
    assert scenario.about.endswith(".")
    assert len(scenario.about) < 120
    assert {step.verb for step in scenario.played.steps} <= VERBS.keys()
    assert scenario.played.steps


@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.name)
@pytest.mark.parametrize("runners", [None, 8, 60])
def test_the_machines_have_room_for_all(scenario: DemoScenario, runners: int | None) -> None:
    scenes = scenario.scenes(runners)
    jobs = sum(scene.runners + 1 for scene in scenes)
    work = scenario.played.work
    slots = scenes[0].agent_cpu_mhz // work.cpu_mhz
    assert slots * scenario.played.agents >= jobs
    if scenario.full:
        assert slots * (scenario.played.agents - 1) < jobs


def test_the_first_environment_has_the_steps_and_the_second_half_as_many_runners() -> None:
    first, second = DEMO_SCENARIOS[DEFAULT].scenes(30)
    assert (first.environment, first.runners) == (10, 30)
    assert (second.environment, second.runners, second.steps) == (11, 15, ())
    assert first.steps


def test_a_scenario_that_names_its_runners_keeps_their_number() -> None:
    assert DEMO_SCENARIOS["gc"].scenes(100)[0].runners == 4


def test_there_is_one_for_each_disconnect_policy() -> None:
    policies = {scenario.disconnect_policy for scenario in ALL} - {None}
    assert policies == {"at-least", "exactly", "leave-alone"}


def test_there_is_one_for_surplus_and_one_for_an_image_that_cannot_be_pulled() -> None:
    assert DEMO_SCENARIOS["surplus-trimmed"].policies == {"disconnect_policy": "at-least", "surplus": "trim"}
    verbs = [step.verb for step in DEMO_SCENARIOS["image-broken"].played.steps]
    assert (verbs[0], verbs[-1]) == ("break-image", "mend-image")


@pytest.mark.parametrize(
    ("name", "hint"), [("restart-togehter", "did you mean restart-together?"), ("xyz", "see demo --list")]
)
def test_an_unknown_name_is_an_error_with_a_hint(name: str, hint: str) -> None:
    with pytest.raises(UsageError, match=hint.replace("?", r"\?")):
        scenario_named(name)
