"""The command as a user meets it, with the real reconciler against the embedded cluster."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from poseidon_reconciler.app.demo import stage
from poseidon_reconciler.app.demo.command import settings_of_demo
from poseidon_reconciler.app.demo.scenarios import DEMO_SCENARIOS
from poseidon_reconciler.app.errors import UsageError
from poseidon_reconciler.cli import main
from tests.leaps import LeapingClock, run_in_leaps

DEMO = [sys.executable, "-m", "poseidon_reconciler", "demo"]
TIMEOUT_S = 100

Outcome = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def outcome_of(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Outcome:
    """The command in time that leaps: exit status and document; anything else that was printed is an error."""
    monkeypatch.setattr(stage, "RealClock", lambda speed: LeapingClock())
    monkeypatch.setattr(asyncio, "run", run_in_leaps)

    def run(*options: str) -> tuple[int, dict[str, Any]]:
        status = main(["demo", "--json", "--speed", "1", *options])
        out, err = capfd.readouterr()
        assert err == ""
        document: dict[str, Any] = json.loads(out)
        return status, document

    return run


def test_the_pools_break_and_are_healed(outcome_of: Outcome) -> None:
    status, outcome = outcome_of("--runners", "6")
    assert (status, outcome["promises_broken"]) == (0, [])
    rows = outcome["environments"]
    assert {id_: (row["state"], row["target"]) for id_, row in rows.items()} == {
        "10": ("active", 6),
        "11": ("active", 3),
    }
    assert all(row["idle"] >= row["target"] and row["deficit"] == 0 for row in rows.values())
    assert outcome["protected"] + outcome["created"] > 0
    assert 20 < outcome["time_to_target_s"] < 200


def test_without_protection_everything_is_repaired(outcome_of: Outcome, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("pool: {protect: false}\npace: {storm_settle: 5s}\n")
    status, outcome = outcome_of("--runners", "6", "--poseidon", "off", "--config", str(config))
    assert (status, outcome["promises_broken"], outcome["protected"]) == (0, [], 0)
    assert outcome["lost"] > 0
    assert outcome["created"] > 0
    assert outcome["removed"] > 0


def test_without_the_reconciler_the_pools_stay_broken(outcome_of: Outcome) -> None:
    status, outcome = outcome_of("--without-reconciler", "--poseidon", "off", "--runners", "12")
    assert (status, outcome["time_to_target_s"]) == (1, None)
    assert outcome["lost"] > 6
    assert (outcome["protected"], outcome["created"], outcome["removed"], outcome["revived"]) == (0, 0, 0, 0)
    assert any(row["deficit"] > 0 for row in outcome["environments"].values())


def test_a_failure_that_needs_nobody_leaves_nothing_to_do() -> None:
    options = ("--scenario", "restart-together-2s", "--poseidon", "off", "--speed", "8", "--runners", "4")
    ended = subprocess.run([*DEMO, *options], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    lines = ended.stdout.splitlines()
    assert lines[-3:] == [
        "The pools were full all the time.",
        "Dead for good: 0. Deleted by Poseidon with their allocation: 0.",
        "The reconciler protected 0, created 0, revived 0 and removed 0.",
    ]
    assert "    +0.0 s  ! stopped: all agents" in lines


def test_the_scenarios_are_listed_with_a_sentence_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--list"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split(maxsplit=1) for line in listed[:-2]] == [[s.name, s.about] for s in DEMO_SCENARIOS.values()]
    assert listed[-2:] == ["", "To see one: poseidon-reconciler demo --scenario NAME"]


def test_the_list_as_one_document(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["demo", "--list", "--json"]) == 0
    listed = json.loads(capfdbinary.readouterr().out)
    assert listed == {"scenarios": {name: scenario.about for name, scenario in DEMO_SCENARIOS.items()}}


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--scenario", "nothing-like-it"], "--scenario: no scenario is called 'nothing-like-it'; see demo --list"),
        (["--runners", "0"], "--runners: 0 is not between 1 and 500"),
        (["--runners", "501"], "--runners: 501 is not between 1 and 500"),
        (["--speed", "0"], "--speed: 0 is not above 0 and up to 10"),
        (["--speed", "nan"], "--speed: nan is not above 0 and up to 10"),
        (["--speed", "11"], "--speed: 11 is not above 0 and up to 10"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_line(
    options: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", *options]) == 2
    assert capsys.readouterr() == ("", f"{error}\n")


def test_the_configuration_is_used_but_for_its_nomad() -> None:
    environ = {
        "NOMAD_ADDR": "nonsense",
        "RECONCILER_NOMAD__ADDRESS": "nonsense",
        "RECONCILER_POOL__PROTECT": "false",
        "HOME": "/",
    }
    settings = settings_of_demo(None, environ)
    assert settings.nomad.address == "http://127.0.0.1:4646"
    assert not settings.pool.protect


def test_a_wrong_configuration_is_an_error() -> None:
    with pytest.raises(UsageError, match="RECONCILER_POOL__SETTLE"):
        settings_of_demo(None, {"RECONCILER_POOL__SETTLE": "soon"})
