"""The command as a user meets it: exit status, what stands on which stream, and no traceback whatever happens."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

RECORDING = Path(__file__).parent / "fixtures" / "event_dumps" / "restart-together-20s.ndjson.gz"
COMMAND = [sys.executable, "-m", "poseidon_reconciler"]


@pytest.mark.parametrize("command", [["replay", str(RECORDING)], ["explain", "--recording", str(RECORDING), "10"]])
def test_a_reader_that_has_seen_enough_is_no_error(command: list[str]) -> None:
    with subprocess.Popen([*COMMAND, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        errors = child.stderr.read()

    assert (child.returncode, errors) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_full_disk_is_said_in_one_line(options: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        run = subprocess.run(
            [*COMMAND, "replay", str(RECORDING), *options], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )

    assert run.returncode in (1, 2)
    assert len(run.stderr.splitlines()) == 1
