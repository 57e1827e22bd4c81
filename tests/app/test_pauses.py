"""Pauses as they are kept over restarts."""

from __future__ import annotations

from pathlib import Path

import pytest

from poseidon_reconciler.app.pauses import PauseStore
from poseidon_reconciler.core.pauses import Pause

ALL = Pause(None, "upgrade", 100.0, 200.0)
ONE = Pause("10", "exam", 100.0)
BEYOND = b'[{"environment_id": null, "reason": "x", "since": 1.0, "until": 1e18}]'


def test_what_was_kept_is_there_after_a_restart_and_ends_when_it_should(tmp_path: Path) -> None:
    store = PauseStore(tmp_path / "state")
    assert store.set(ALL, 100.0)
    assert store.set(ONE, 100.0)
    again = PauseStore(tmp_path / "state")
    assert again.lasting(150.0) == [ALL, ONE]
    assert again.lasting(200.0) == [ONE]
    assert again.lift("10", 250.0)
    assert PauseStore(tmp_path / "state").lasting(0.0) == []


def test_a_new_pause_takes_the_place_of_an_earlier_one_for_the_same(tmp_path: Path) -> None:
    store = PauseStore(tmp_path)
    store.set(ONE, 100.0)
    longer = Pause("10", "longer exam", 120.0, 900.0)
    store.set(longer, 120.0)
    assert PauseStore(tmp_path).lasting(130.0) == [longer]


def test_without_a_place_nothing_outlasts_a_restart() -> None:
    store = PauseStore(None)
    assert not store.set(ONE, 100.0)
    assert store.lasting(100.0) == [ONE]
    assert not store.lift("10", 100.0)


def test_a_place_that_is_gone_is_told_and_loses_nothing(tmp_path: Path) -> None:
    store = PauseStore(tmp_path / "state")
    (tmp_path / "state").rmdir()
    assert not store.set(ONE, 100.0)
    assert store.lasting(100.0) == [ONE]


@pytest.mark.parametrize("content", [b"", b"{}", b'[{"environment_id": 10}]', b"\xff", BEYOND])
def test_a_file_of_something_else_is_not_overwritten(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "pauses.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"pauses\.json: not a file of pauses"):
        PauseStore(tmp_path)
    assert (tmp_path / "pauses.json").read_bytes() == content
