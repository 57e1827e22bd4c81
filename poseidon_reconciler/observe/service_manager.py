"""What systemd is told over the socket that it names: ready, reloading, stopping, alive, and one line of how it goes.

The protocol is a datagram of lines, `sd_notify(3)`; the libraries for it are either abandoned or want libsystemd to
compile against, and this is all that is needed of it. Where there is no such socket nothing is said.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from typing import Final

from poseidon_reconciler.core.reconciler import Reconciler
from poseidon_reconciler.core.status import environment_rows
from poseidon_reconciler.core.wording import counted
from poseidon_reconciler.policy import os_reason

_LONGEST_STATUS: Final = 200


class ServiceManager:
    """Tells the service manager that started this process how it is.

    Attributes:
        watchdog_s: within how many seconds it wants to hear that the process is alive, again and again; None if it
            does not.
        problem: why the last message was not sent; None if it was, or if nobody listens.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        # An address that begins with @ is in the abstract namespace, which the kernel writes with a zero byte.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self.watchdog_s = _watchdog_s(environ) if self.listens else None
        self.problem: str | None = None

    @property
    def listens(self) -> bool:
        """Whether there is anybody to tell."""
        return self._address.startswith(("/", "\0"))

    def ready(self) -> None:
        """It works from now on, or again after a reload."""
        self._send("READY=1")

    def reloading(self) -> None:
        """The configuration is read anew; `ready` follows."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def stopping(self) -> None:
        """An orderly end has begun."""
        self._send("STOPPING=1")

    def alive(self) -> None:
        """Everything turns; nothing is said where nobody watches."""
        if self.watchdog_s is not None:
            self._send("WATCHDOG=1")

    def status(self, line: str) -> None:
        """How it goes, for `systemctl status`."""
        self._send(f"STATUS={line[:_LONGEST_STATUS]}")

    def _send(self, *lines: str) -> None:
        if not self.listens:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.settimeout(0)
                sender.sendto("\n".join(lines).encode(), self._address)
            self.problem = None
        except OSError as error:
            self.problem = f"NOTIFY_SOCKET: {os_reason(error)}"


def _watchdog_s(environ: Mapping[str, str]) -> float | None:
    """Variables that are meant for another process, a parent of this one, say nothing to it."""
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    usec = environ.get("WATCHDOG_USEC", "")
    return int(usec) / 1e6 if usec.isdecimal() and int(usec) > 0 else None


def status_line(core: Reconciler, *, synced: bool) -> str:
    """All pools in one line."""
    if not synced:
        return "the view of the cluster is not complete: nothing is decided"
    rows = environment_rows(core).values()
    wanted = sum(row.target or 0 for row in rows)
    parts = [counted(len(rows), "environment"), f"{sum(row.idle for row in rows)} of {wanted} idle"]
    lost, lacking, held = sum(row.lost for row in rows), sum(row.deficit for row in rows), len(core.holds(core.now))
    told = ((lost, f"{lost} lost"), (lacking, f"{lacking} lacking"), (held, counted(held, "hold")))
    parts += [text for number, text in told if number]
    return ", ".join(parts)
