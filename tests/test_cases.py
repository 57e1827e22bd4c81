"""Small made-up recordings, one for each kind of fault that users of Nomad and Poseidon have reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.expectations import differences, replay_document, stems

FOLDER = Path(__file__).parent / "fixtures" / "cases"


@pytest.mark.parametrize("stem", stems(FOLDER))
def test_case(stem: str, tmp_path: Path) -> None:
    assert differences(FOLDER, stem, replay_document(FOLDER, stem, tmp_path)) == []
