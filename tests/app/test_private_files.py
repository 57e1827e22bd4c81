"""What stands in `state_dir` is read by its user alone, whatever the umask."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from poseidon_reconciler.app.pauses import PauseStore
from poseidon_reconciler.app.templates import TemplateStore
from poseidon_reconciler.core.pauses import Pause


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def keep_everything(state_dir: Path) -> None:
    TemplateStore(state_dir)["template-10"] = b"{}"
    PauseStore(state_dir).set(Pause("10", "exam", 100.0), 100.0)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_directory_and_each_file_are_private(tmp_path: Path) -> None:
    state_dir = tmp_path / "deep" / "state"
    keep_everything(state_dir)

    assert mode(state_dir) == 0o700
    assert {path.name: mode(path) for path in state_dir.iterdir()} == {"templates.json": 0o600, "pauses.json": 0o600}


def test_a_pause_alone_makes_a_private_directory_too(tmp_path: Path) -> None:
    PauseStore(tmp_path / "state")

    assert mode(tmp_path / "state") == 0o700


def test_a_directory_that_is_there_keeps_its_mode_and_a_file_that_was_left_behind_does_not(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    for name in ("pauses.new", "templates.new"):
        (tmp_path / name).touch(0o644)
    keep_everything(tmp_path)

    assert mode(tmp_path) == 0o750
    assert {mode(path) for path in tmp_path.iterdir()} == {0o600}
