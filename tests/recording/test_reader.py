"""Damaged recordings: what is still read, what is counted, and what is refused with the place that is at fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from poseidon_reconciler.recording.reader import RecordingError, RecordingReader


def test_the_line_at_fault_is_named_as_an_editor_counts_it(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("\n\nno recording\n")

    with pytest.raises(RecordingError, match=r"\(line 3: "):
        list(RecordingReader([path]))
