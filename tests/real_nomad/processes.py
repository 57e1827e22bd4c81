"""Agents that outlive a test would go on running tasks on the developer's machine: nothing may be left behind.

A killed agent leaves its executors, log collectors and tasks running, as it should; they are no longer its
children. So they are found by the lab's own directory, which each of them names in its arguments or environment.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

_UNPRIVILEGED = "nobody"
_KILL_ROUNDS = 20
_KILL_PAUSE_S = 0.1


def free_ports(count: int) -> list[int]:
    """Loopback ports that were free a moment ago, all different."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def give_away(directory: Path) -> None:
    """Let the unprivileged account own the directory, where we are root and the agents are not to be."""
    if os.geteuid() == 0:
        account = pwd.getpwnam(_UNPRIVILEGED)
        os.chown(directory, account.pw_uid, account.pw_gid)


def spawn(command: list[str], directory: Path, name: str) -> subprocess.Popen[bytes]:
    """Start a long-running process in a session of its own; its output goes to `<directory>/<name>.log`.

    Root's agents would make cgroups and mounts that outlive them, so root starts them as an unprivileged account.
    """
    account = pwd.getpwnam(_UNPRIVILEGED) if os.geteuid() == 0 else None
    with (directory / f"{name}.log").open("ab") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=directory,
            env={"PATH": os.environ.get("PATH", os.defpath), "HOME": str(directory)},
            start_new_session=True,
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
        )


def kill_all_of(directory: Path) -> list[int]:
    """Kill every process that names the directory; returns those that would not go."""
    left: list[int] = []
    for _ in range(_KILL_ROUNDS):
        left = list(_processes_of(directory))
        if not left:
            return []
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_KILL_PAUSE_S)
    return left


def _processes_of(directory: Path) -> Iterator[int]:
    mark = os.fsencode(directory)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid() and _names(entry, mark):
            yield int(entry.name)


def _names(process: Path, mark: bytes) -> bool:
    # A process may end, or belong to somebody else, between two looks at it.
    with contextlib.suppress(OSError):
        if mark in (process / "cmdline").read_bytes():
            return True
        return mark in (process / "environ").read_bytes()
    return False
