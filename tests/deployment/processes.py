"""`run` as it was installed somewhere, and what it tells its service manager."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

TIMEOUT_S = 60.0


class Installed:
    """A process that runs.

    Attributes:
        child: the process.
        log: the file of what it writes to stderr.
    """

    def __init__(self, child: subprocess.Popen[bytes], log: Path, manager: socket.socket) -> None:
        self.child = child
        self.log = log
        self._manager = manager

    def until_ready(self) -> None:
        """Waits until it says that the first lists were read."""
        deadline = time.monotonic() + TIMEOUT_S
        self._manager.settimeout(0.2)
        while time.monotonic() < deadline and self.child.poll() is None:
            try:
                if self._manager.recv(4096) == b"READY=1":
                    return
            except TimeoutError:
                continue
        raise AssertionError(f"it is not ready: {self.log.read_text()}")


@contextmanager
def started(command: Sequence[str | Path], variables: dict[str, str], log: Path) -> Iterator[Installed]:
    """Starts it with these variables and no others; it is gone afterwards."""
    name = str(uuid4())
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, log.open("wb") as err:
        # In the abstract namespace, which has no files and so is seen in every root.
        manager.bind("\0" + name)
        with subprocess.Popen(command, stderr=err, env={**variables, "NOTIFY_SOCKET": f"@{name}"}) as child:
            try:
                yield Installed(child, log, manager)
            finally:
                child.kill()
