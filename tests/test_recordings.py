"""Recordings of a real cluster, held against what its own API said when they ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.expectations import differences, replay_document, stems

FOLDER = Path(__file__).parent / "fixtures" / "event_dumps"


@pytest.mark.parametrize("stem", stems(FOLDER))
def test_recording(stem: str, tmp_path: Path) -> None:
    assert differences(FOLDER, stem, replay_document(FOLDER, stem, tmp_path)) == []
