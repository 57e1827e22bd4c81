"""Other people's text cannot steer a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poseidon_reconciler.core.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("10-abc", "10-abc"),
        ("", ""),
        ("Gerät 5 – läuft", "Gerät 5 – läuft"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("two\nlines\r\t", "two\\nlines\\r\\t"),
        ("right\u202eto left", "right\\u202eto left"),
        ("\x00\x7f\x9b", "\\x00\\x7f\\x9b"),
        ("it's\n", "it's\\n"),
    ],
)
def test_what_is_not_printable_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(text=st.text())
def test_whatever_is_shown_is_printable_and_in_one_line(text: str) -> None:
    shown = printable(text)

    assert shown.isprintable()
    assert len(shown.splitlines()) <= 1
