"""Tests of what a server's version decides."""

from __future__ import annotations

import pytest

from poseidon_reconciler.nomad.versions import needs_protection, parse_version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("1.10.5", (1, 10, 5)),
        ("v1.11.2", (1, 11, 2)),
        ("1.10.5+ent", (1, 10, 5)),
        ("1.11.2-beta.1", (1, 11, 2)),
        ("2.0.5\n", (2, 0, 5)),
        ("", None),
        ("1.10", None),
        ("nomad", None),
        ("99999999.1.1", None),
    ],
)
def test_a_version_is_read(text: str, version: tuple[int, int, int] | None) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize(
    ("versions", "needed"),
    [
        (["1.1.18"], True),
        (["1.11.1"], True),
        (["1.11.2"], False),
        (["1.11.2-beta.1"], True),
        (["2.0.5", "1.11.3"], False),
        (["2.0.5", "1.10.5"], True),
        (["2.0.5", "?"], True),
        ([], True),
    ],
)
def test_one_old_or_unknown_server_is_enough(versions: list[str], needed: bool) -> None:
    assert needs_protection(versions) is needed
