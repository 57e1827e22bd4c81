"""A process whose stderr nobody reads ends all the same, whoever else still has something to say."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

_LATE = r"""
import logging, sys, threading
from poseidon_reconciler.config.observing import LogSettings
from poseidon_reconciler.observe.logs.pipeline import Logs

with Logs(LogSettings(), sys.stderr.fileno()) as logs:
    logs.observer.noted("started", "here")
    logs.write("a table\nof two lines")
thread = threading.Thread(target=logging.getLogger("a.library").error, args=("late",), daemon=True)
thread.start()
thread.join(1)
"""


@pytest.fixture
def full_pipe() -> Iterator[int]:
    """The end to write to of a pipe in which there is no room."""
    reading, writing = os.pipe()
    size = fcntl.fcntl(writing, fcntl.F_GETPIPE_SZ)
    os.write(writing, bytes(size))
    yield writing
    os.close(writing)
    os.close(reading)


def test_a_message_of_a_library_after_the_end_waits_for_nobody(full_pipe: int) -> None:
    ended = subprocess.run([sys.executable, "-c", _LATE], stderr=full_pipe, timeout=40, check=False)
    assert ended.returncode == 0
