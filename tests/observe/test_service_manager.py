"""What stands on the socket of the service manager, byte for byte."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from poseidon_reconciler.observe.service_manager import ServiceManager, status_line
from tests.core.builders import bench_with_pool, lose, pool_policy


@pytest.fixture(params=["path", "abstract"])
def listener(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[socket.socket]:
    """A service manager's socket, named by NOTIFY_SOCKET."""
    name = f"@{uuid4()}" if request.param == "abstract" else "notify"
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.bind("\0" + name[1:] if name.startswith("@") else name)
        bound.settimeout(5)
        given = name if name.startswith("@") else str(tmp_path / name)
        if len(given) > 107:
            pytest.skip("the temporary directory's path is too long for a socket")
        monkeypatch.setenv("NOTIFY_SOCKET", given)
        yield bound


def told(listener: socket.socket) -> str:
    return listener.recv(4096).decode()


def test_each_message_is_one_datagram(listener: socket.socket) -> None:
    manager = ServiceManager({**os.environ, "WATCHDOG_USEC": "30000000"})

    manager.ready()
    manager.status("3 environments, 4 of 4 idle")
    manager.alive()
    manager.stopping()

    assert [told(listener) for _ in range(4)] == [
        "READY=1", "STATUS=3 environments, 4 of 4 idle", "WATCHDOG=1", "STOPPING=1"
    ]  # fmt: skip
    assert manager.problem is None


def test_a_reload_says_when_it_began_by_the_clock_that_systemd_looks_at(listener: socket.socket) -> None:
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    ServiceManager(os.environ).reloading()

    reloading, at = told(listener).split("\n")

    assert reloading == "RELOADING=1"
    assert before <= int(at.removeprefix("MONOTONIC_USEC=")) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000


@pytest.mark.parametrize(
    ("variables", "watchdog_s"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "2500000"}, 2.5),
        ({"WATCHDOG_USEC": "2500000", "WATCHDOG_PID": str(os.getpid())}, 2.5),
        ({"WATCHDOG_USEC": "2500000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_the_watchdog_is_that_of_this_process(variables: dict[str, str], watchdog_s: float | None) -> None:
    assert ServiceManager({"NOTIFY_SOCKET": "@x", **variables}).watchdog_s == watchdog_s


@pytest.mark.parametrize("address", ["", "vsock:2:1234", "relative"])
def test_where_nobody_can_listen_nothing_is_said(address: str) -> None:
    manager = ServiceManager({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1"})
    manager.ready()
    manager.alive()
    assert (manager.listens, manager.watchdog_s, manager.problem) == (False, None, None)


def test_a_manager_that_is_gone_does_no_harm(tmp_path: Path) -> None:
    manager = ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "none")})
    manager.ready()
    assert manager.problem == "NOTIFY_SOCKET: no such file or directory"


def test_the_status_is_all_pools_in_one_line() -> None:
    bench = bench_with_pool(3, policy=pool_policy(pause="agents are upgraded"))
    assert status_line(bench.core, synced=True) == "1 environment, 3 of 3 idle, 1 hold"
    lose(bench, 0, index=300)
    bench.wait(60)

    assert status_line(bench.core, synced=True) == "1 environment, 2 of 3 idle, 1 lost, 1 lacking, 1 hold"
    assert status_line(bench.core, synced=False) == "the view of the cluster is not complete: nothing is decided"
