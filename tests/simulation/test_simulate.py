"""The command: what it prints, and how it ends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from poseidon_reconciler.cli import main
from poseidon_reconciler.nomad.api import Api
from tests.simulation.mutations import register_over

# One that the fault below does not survive.
SEED = "11"


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reconciler that registers its runners whether they exist or not."""
    monkeypatch.setattr(Api, "register", register_over)


def document(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return printed


def test_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seeds", "2"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("2 seeds, ")
    assert second == "no promise broken"


def test_one_json_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seed", "6", "--seeds", "2", "--json"]) == 0
    printed = document(capsys)
    assert (printed["seeds"], printed["broken"], printed["failures"]) == (2, [], [])
    assert set(printed["digests"]) == {"6", "7"}


def test_several_processes_find_the_same_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    main(["simulate", "--seeds", "9", "--json", "--mishaps", "1"])
    several = document(capsys)
    main(["simulate", "--seeds", "8", "--json", "--mishaps", "1"])
    one = document(capsys)
    assert list(several["digests"].items())[:8] == list(one["digests"].items())


def test_a_failure_says_how_to_repeat_it(fault: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seed", SEED, "--seeds", "1"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"seed {SEED}: promise 1 broken after ")
    assert lines[0].endswith(" was created although it existed")
    assert lines[1] == "  promised: one loss leads to at most one replacement"
    assert lines[-1] == "1 broken"
    command = lines[-3].removeprefix("  again: poseidon-reconciler ").split()
    mishaps = int(command[command.index("--mishaps") + 1])
    assert len(lines) == 6 + mishaps

    assert main(command) == 1
    again = capsys.readouterr().out
    assert lines[0].partition("s: ")[2] in again
    command[command.index("--mishaps") + 1] = str(mishaps - 1)
    main(command)
    assert lines[0].partition("s: ")[2] not in capsys.readouterr().out


def test_a_failure_in_json(fault: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seed", SEED, "--seeds", "1", "--json"]) == 1
    printed = document(capsys)
    assert printed["broken"] == [int(SEED)]
    (failure,) = printed["failures"]
    assert (failure["seed"], failure["promise"]) == (int(SEED), 1)


def test_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seeds", "0"]) == 2
    assert "--seeds" in capsys.readouterr().err
    assert main(["simulate", "--mishaps", "-1"]) == 2
    assert "--mishaps" in capsys.readouterr().err
    assert main(["simulate", "--seeds", "2", "--story"]) == 2
    assert "--story" in capsys.readouterr().err


def test_a_story(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seeds", "1", "--mishaps", "1", "--story"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("# R1.1 begins" in line for line in lines)
    assert lines[-2].startswith("1 seed, 1 mishap, ")
