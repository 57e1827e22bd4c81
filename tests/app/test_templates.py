"""Tests of the environments' own jobs as they are kept over restarts."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from poseidon_reconciler.app.templates import TemplateStore


def test_what_was_kept_is_there_after_a_restart(tmp_path: Path) -> None:
    store = TemplateStore(tmp_path / "state")
    store["template-10"] = b'{"ID":"template-10"}'
    store["template-11"] = b"{}"
    del store["template-11"]

    assert dict(TemplateStore(tmp_path / "state")) == {"template-10": b'{"ID":"template-10"}'}


def test_nobody_else_may_read_the_file(tmp_path: Path) -> None:
    TemplateStore(tmp_path)["template-10"] = b"{}"

    (file,) = tmp_path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_without_a_place_it_is_kept_in_memory() -> None:
    store = TemplateStore(None)
    store["template-10"] = b"{}"

    assert dict(store) == {"template-10": b"{}"}


@pytest.mark.parametrize("content", [b"[]", b'{"template-10": 1}', b'{"template-10": "!"}', b"\xff"])
def test_a_file_of_something_else_is_not_overwritten(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "templates.json").write_bytes(content)

    with pytest.raises(ValueError, match=r"templates\.json: not a file of templates"):
        TemplateStore(tmp_path)
    assert (tmp_path / "templates.json").read_bytes() == content


def test_a_file_that_a_power_failure_left_empty_is_written_anew(tmp_path: Path) -> None:
    (tmp_path / "templates.json").touch()

    store = TemplateStore(tmp_path)
    store["template-10"] = b"{}"

    assert dict(TemplateStore(tmp_path)) == {"template-10": b"{}"}


def test_a_write_that_fails_is_told_and_loses_nothing(tmp_path: Path) -> None:
    store = TemplateStore(tmp_path / "state")
    (tmp_path / "state").rmdir()
    store["template-10"] = b"{}"

    assert store["template-10"] == b"{}"
    assert "no such file or directory" in (store.problem or "")
    (tmp_path / "state").mkdir()
    store["template-11"] = b"{}"
    assert store.problem is None
    assert set(TemplateStore(tmp_path / "state")) == {"template-10", "template-11"}
