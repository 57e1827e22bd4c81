"""SIGHUP: what takes effect, what is only told, and that a mistake changes nothing."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest
import requests

from poseidon_reconciler.app.reload import Reload, changed_keys
from poseidon_reconciler.app.running import Running
from poseidon_reconciler.config import Settings, load
from poseidon_reconciler.policy import Policy, PoolPolicy
from tests.app.test_twin_command import TIMEOUT_S, get, serving
from tests.controllers import Notes


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("NOMAD_", "RECONCILER_"))]:
        monkeypatch.delenv(name)


class Reloaded:
    """A configuration file and whoever reloads it.

    Attributes:
        policies: what was put into effect.
        notes: what was told.
    """

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.path.write_text(text)
        self.policies: list[Policy] = []
        self.notes = Notes()
        running: Any = SimpleNamespace(change_policy=self.policies.append)
        self._reload = Reload(path, load(path, os.environ), cast(Running, running), self.notes)

    def write(self, text: str) -> list[tuple[str, str]]:
        """Reloads another text; returns what is told."""
        self.path.write_text(text)
        told = len(self.notes.notes)
        self._reload()
        return self.notes.notes[told:]


@pytest.fixture
def reloaded(tmp_path: Path) -> Reloaded:
    return Reloaded(tmp_path / "reconciler.yaml", 'pool: {settle: 10s}\nenvironments: {"10": {surge: 1}}\n')


def test_the_policy_takes_effect_and_what_has_changed_is_named(reloaded: Reloaded) -> None:
    told = reloaded.write('pool: {settle: 20s}\npace: {storm_share: 0.5}\nenvironments: {"10": {surge: 2}}\n')

    assert told == [
        ("reloaded", "in effect now: pool.settle, pace.storm_share, environments.10.settle, environments.10.surge")
    ]
    (policy,) = reloaded.policies
    assert (policy.pool.settle_s, policy.pace.storm_share, policy.environments["10"].surge) == (20, 0.5, 2)


def test_what_needs_a_restart_is_told_in_one_note_and_not_done(reloaded: Reloaded) -> None:
    told = reloaded.write(
        "nomad: {address: 'http://elsewhere:4646', namespace: other}\nhttp: {listen: 'off'}\n"
        "webhooks: {on_call: {url: 'https://hooks.example/SECRET'}}\npool: {surge: 3}\n"
    )

    assert [event for event, _ in told] == ["restart-needed", "reloaded"]
    assert told[0][1] == (
        "in effect only after a restart: nomad.address, nomad.namespace, http.listen, "
        "webhooks.on_call.url, webhooks.on_call.secret_file, webhooks.on_call.events"
    )
    (policy,) = reloaded.policies
    assert (policy.namespace, policy.pool.surge) == ("default", 3)


def test_what_still_needs_a_restart_is_told_again_and_no_more_once_it_is_taken_back(reloaded: Reloaded) -> None:
    reloaded.write("state_dir: /elsewhere\n")
    assert reloaded.write("state_dir: /elsewhere\npool: {surge: 1}\n")[0][0] == "restart-needed"
    assert [event for event, _ in reloaded.write("pool: {surge: 1}\n")] == ["reloaded"]


def test_a_file_with_a_mistake_is_refused_whole_with_the_lines_of_a_start(reloaded: Reloaded) -> None:
    told = reloaded.write("pool: {settle: 20s, surge: -1}\npaze: {}\n")

    assert told == [
        ("reload-refused", f"{reloaded.path}:1: pool.surge: '-1' must be at least 0"),
        ("reload-refused", f"{reloaded.path}:2: paze: unknown key (did you mean pace?)"),
    ]
    assert reloaded.policies == []
    assert reloaded.write('pool: {settle: 10s}\nenvironments: {"10": {surge: 1}}\n') == [
        ("reloaded", "nothing that decides has changed")
    ]


def test_a_file_that_is_gone_is_refused(reloaded: Reloaded) -> None:
    reloaded.path.unlink()
    reloaded._reload()
    assert [event for event, _ in reloaded.notes.notes] == ["reload-refused"]
    assert reloaded.policies == []


def test_variables_override_the_file_as_at_the_start(reloaded: Reloaded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECONCILER_POOL__SETTLE", "30s")
    reloaded.write("pool: {settle: 20s}\n")
    assert reloaded.policies[0].pool.settle_s == 30


def test_two_reloads_each_compare_with_the_one_before(reloaded: Reloaded) -> None:
    first, second = "pool: {settle: 20s}\n", "pool: {settle: 20s, surge: 1}\n"
    reloaded.write(first)
    assert reloaded.write(second) == [("reloaded", "in effect now: pool.surge")]


def test_an_exception_that_is_taken_out_is_named_and_long_lists_are_cut() -> None:
    before = Settings(environments={"10": PoolPolicy(), "11": PoolPolicy()})
    keys = changed_keys(before, Settings(environments={"10": PoolPolicy()}))
    assert keys[0] == "environments.11.lost_grace"
    assert {key.rpartition(".")[0] for key in keys} == {"environments.11"}


# --- a real process ----------------------------------------------------------------------------------------------


class Process:
    """`run` on an embedded cluster, with what it logs and what it tells its service manager."""

    def __init__(self, child: subprocess.Popen[bytes], log: Path, manager: socket.socket) -> None:
        self.child = child
        self._log = log
        self._manager = manager
        self.told: list[str] = []

    def log(self) -> str:
        return self._log.read_text()

    def until(self, done: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not done():
            assert self.child.poll() is None, f"it has ended: {self.log()}"
            assert time.monotonic() < deadline, f"no {what} in time: {self.log()}"
            time.sleep(0.05)

    def hears(self, message: str) -> bool:
        """Whether the service manager has been told this."""
        self._manager.setblocking(False)
        try:
            while True:
                self.told.append(self._manager.recv(4096).decode())
        except BlockingIOError:
            return any(told.startswith(message) for told in self.told)


@contextmanager
def running(config: Path, address: str, directory: Path) -> Iterator[Process]:
    name = f"@{uuid4()}"
    variables = {"NOMAD_ADDR": address, "NOTIFY_SOCKET": name, "WATCHDOG_USEC": "1000000"}
    log = directory / "log"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, log.open("wb") as err:
        manager.bind("\0" + name[1:])
        command = [sys.executable, "-m", "poseidon_reconciler", "run", "--config", str(config)]
        with subprocess.Popen(command, stderr=err, env={**os.environ, **variables}) as child:
            try:
                yield Process(child, log, manager)
            finally:
                child.kill()


def test_a_pause_that_is_taken_out_by_a_reload_lets_the_pool_be_filled(tmp_path: Path) -> None:
    config = tmp_path / "reconciler.yaml"
    rest = "http: {listen: 'off'}\n"
    config.write_text(f"pool: {{pause: agents are upgraded}}\n{rest}")
    with serving("--port", "0") as (_, address, _), running(config, address, tmp_path) as process:

        def runners() -> set[str]:
            return {job["ID"] for job in get(f"{address}/v1/jobs") if not job["ID"].startswith("template-")}

        process.until(lambda: process.hears("READY=1"), "sign that it is ready")
        assert process.hears("WATCHDOG=1")
        before = runners()
        gone = min(before)
        requests.delete(f"{address}/v1/job/{gone}?purge=true", timeout=TIMEOUT_S).raise_for_status()

        config.write_text(f"pool: {{settle: never}}\n{rest}")
        process.child.send_signal(signal.SIGHUP)
        process.until(lambda: "'never' is not a duration such as 10s or 5m" in process.log(), "refusal")
        time.sleep(1)
        assert runners() == before - {gone}, "the pause stays where the new file is refused"

        config.write_text(f"pool: {{settle: 0}}\nstate_dir: {tmp_path}\n{rest}")
        process.child.send_signal(signal.SIGHUP)
        process.until(lambda: len(runners()) == len(before), "replacement")

        assert "in effect only after a restart: state_dir" in process.log()
        assert process.hears("RELOADING=1\nMONOTONIC_USEC=")
        process.child.send_signal(signal.SIGTERM)
        assert process.child.wait(TIMEOUT_S) == 0
        assert process.hears("STOPPING=1")
        assert process.told.count("READY=1") == 3
