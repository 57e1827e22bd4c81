"""Which version of Nomad does what."""

from __future__ import annotations

import pytest

from poseidon_reconciler.twin.traits import Traits


@pytest.mark.parametrize(
    ("name", "off", "on"),
    [
        ("knows_disconnects", "1.2.9", "1.3.0"),
        ("purge_sends_job_event", "1.7.3", "1.7.4"),
        ("purge_drops_allocations", "1.7.7", "1.8.0"),
        ("marks_deleted", "1.11.2", "1.11.3"),
        ("drains_batch_for_good", "1.10.13", "1.10.14"),
        ("drains_batch_for_good", "1.11.7", "1.11.8"),
        ("drains_batch_for_good", "2.0.3", "2.0.4"),
        ("drains_batch_for_good", "1.9.9", "2.1.0"),
        ("stopped_complete_counts", "1.11.2", "1.11.1"),
        ("disconnect_defuses", "1.6.9", "1.6.10"),
        ("disconnect_defuses", "1.7.6", "1.8.0"),
        ("gc_sends_evaluations", "1.10.5", "1.1.2"),
    ],
)
def test_habits(name: str, off: str, on: str) -> None:
    assert getattr(Traits.of(off), name) is False
    assert getattr(Traits.of(on), name) is True


@pytest.mark.parametrize(
    ("version", "denied"), [("1.1.2", "500"), ("1.10.5", "403"), ("1.11.1", "403"), ("2.0.5", "silence")]
)
def test_how_a_reader_is_turned_away(version: str, denied: str) -> None:
    assert Traits.of(version).denied_stream == denied


@pytest.mark.parametrize(
    ("version", "over"),
    [("1.1.2", "chunks"), ("1.11.1", "chunks"), ("1.11.2", "HTTP/0.0"), ("1.11.3", "HTTP/1.1"), ("2.0.5", "HTTP/1.1")],
)
def test_how_a_stream_is_sent(version: str, over: str) -> None:
    assert Traits.of(version).stream_over == over


def test_what_is_no_version_is_refused() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        Traits.of("latest")
    assert Traits.of("2.0.6-dev").version == "2.0.6-dev"
