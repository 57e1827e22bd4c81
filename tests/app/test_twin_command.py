"""`twin` as a user meets it: an address that answers as Nomad does, until a signal."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from poseidon_reconciler.cli import main
from poseidon_reconciler.twin.scenarios import SCENARIOS

TWIN = [sys.executable, "-m", "poseidon_reconciler", "twin"]
TIMEOUT_S = 30


@contextmanager
def serving(*options: str) -> Iterator[tuple[subprocess.Popen[str], str, list[str]]]:
    """The running command, its address, and what it printed before it told how to end it."""
    with subprocess.Popen([*TWIN, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        welcome = []
        for line in child.stdout:
            welcome.append(line.rstrip())
            if line.startswith("Ctrl-C"):
                break
        try:
            yield child, welcome[0].split()[3].rstrip(":"), welcome
        finally:
            child.kill()


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:  # noqa: S310 - our own server on loopback
        return json.load(answer)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_answers_as_nomad_does_and_ends_with_a_signal(number: signal.Signals) -> None:
    with serving("--port", "0") as (child, address, welcome):
        assert get(f"{address}/v1/agent/self")["config"]["Server"]["Enabled"] is True
        assert "template-10" in {job["ID"] for job in get(f"{address}/v1/jobs")}
        assert f"  export NOMAD_ADDR={address}" in welcome
        child.send_signal(number)
        _, errors = child.communicate(timeout=TIMEOUT_S)
    assert (child.returncode, errors) == (0, "")


def test_a_scenario_is_played_and_told() -> None:
    with serving("--port", "0", "--scenario", "used-and-deregistered", "--after", "1s") as (child, address, _):
        assert child.stdout is not None
        told = [child.stdout.readline().split(maxsplit=1)[1].rstrip() for _ in range(2)]
        assert told == ["everything runs; the failure begins in 1 s", "used by hand: runner 1"]
        assert len(get(f"{address}/v1/jobs")) == 6


def test_before_the_failure_begins_there_is_time_to_open_another_shell() -> None:
    with serving("--port", "0", "--scenario", "restart-together") as (child, _, _):
        assert child.stdout is not None
        assert child.stdout.readline().rstrip().endswith(" everything runs; the failure begins in 30 s")


def test_all_steps_are_moved_so_that_the_first_is_done_then() -> None:
    scene = SCENARIOS["restart-together-20s"]
    assert [step.at_s for step in scene.beginning_after(30.0).steps] == [30.0, 50.0]
    assert scene.beginning_after(30.0).duration_s == scene.duration_s + 25
    assert SCENARIOS["startup"].beginning_after(30.0) == SCENARIOS["startup"]


@pytest.mark.parametrize("text", ["soon", "-1s"])
def test_a_time_before_the_failure_that_is_none_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["twin", f"--after={text}"]) == 2
    assert capsys.readouterr().err.startswith("--after: ")


def test_a_failure_of_the_demo_can_be_played_too() -> None:
    with serving("--port", "0", "--scenario", "leave-alone") as (_, address, _):
        job = get(f"{address}/v1/job/template-11")
        assert job["TaskGroups"][0]["Disconnect"]["Replace"] is False


def test_a_poseidon_beside_it_tells_what_it_believes() -> None:
    with serving("--port", "0", "--poseidon", "on") as (child, _, welcome):
        address = next(line.partition("=")[2] for line in welcome if "RECONCILER_POSEIDON__ADDRESS" in line)
        assert child.stdout is not None
        assert child.stdout.readline().endswith("everything runs\n")
        told = get(f"{address}/api/v1/statistics/execution-environments")
        assert told["10"]["idleRunners"] == told["10"]["prewarmingPoolSize"]


def test_a_port_that_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["twin", "--port", str(port)]) == 2
    assert capsys.readouterr() == ("", f"--port: cannot listen on {port}: address already in use\n")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--port", "65536"], "--port: 65536 is not between 0 and 65535"),
        (["--scenario", "leave-alon"], "--scenario: no scenario is called 'leave-alon'; did you mean leave-alone?"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_line(
    options: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["twin", *options]) == 2
    assert capsys.readouterr() == ("", f"{error}\n")
