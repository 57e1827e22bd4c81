"""Bytes become items, whatever pieces they come in, and an end is known by what stands before it."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poseidon_reconciler.nomad.items import FrameReceived, Gap, Heartbeat, Item, MalformedLine
from poseidon_reconciler.nomad.reader import StreamReader

LIMIT = 10_000


def frame(index: int) -> bytes:
    return b'{"Index":%d,"Events":[]}\n' % index


def summary(items: list[Item]) -> list[object]:
    """Indexes of frames, and the names of the other items."""
    return [item.line.index if isinstance(item, FrameReceived) else type(item).__name__ for item in items]


STREAM = b"{}\n" + frame(5) + b'{"Ind\n' + frame(6) + b"\n{}\n" + frame(6)


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_any_pieces_give_the_same_items(cuts: list[int]) -> None:
    reader = StreamReader(None, LIMIT)
    items: list[Item] = []
    edges = sorted({0, *cuts, len(STREAM)})
    for start, end in itertools.pairwise(edges):
        items += reader.feed(STREAM[start:end], 1.0)

    assert summary(items) == ["Heartbeat", 5, "MalformedLine", 6, "Heartbeat", 6]
    assert reader.last_index == 6
    assert reader.close(1.0)[1] == "eof"


def test_items_carry_the_time_they_were_received() -> None:
    items = StreamReader(None, LIMIT).feed(b"{}\nx\n" + frame(5), 7.5)

    assert items[0] == Heartbeat(7.5)
    assert items[1] == MalformedLine("x", 7.5)
    assert isinstance(items[2], FrameReceived)
    assert items[2].received_at == 7.5


def test_items_carry_the_bytes_of_their_line() -> None:
    items = StreamReader(None, LIMIT).feed(b"{}\n \n" + frame(5) + b"x\n" + frame(6), 7.5)
    assert [item.data for item in items if isinstance(item, FrameReceived)] == [frame(5).strip(), frame(6).strip()]


def test_an_end_in_the_middle_of_a_line_quotes_nothing_of_it() -> None:
    for tail in (b"", b"event dropped from buffer"):
        reader = StreamReader(None, LIMIT)
        reader.feed(frame(5) + b'{"Index":6,"Events":[{"Payload":{"Job":{"VaultToken":"hvs.secret' + tail, 1.0)
        assert "hvs" not in reader.close(1.0)[2]


@pytest.mark.parametrize(
    ("resumed_at", "first", "gap"),
    [
        (None, 5, []),
        (5, 5, []),
        (5, 9, [Gap(5, 9, 1.0)]),
        (5, 2, [Gap(5, 2, 1.0)]),
    ],
)
def test_a_gap_is_a_first_line_of_another_index(resumed_at: int | None, first: int, gap: list[Gap]) -> None:
    reader = StreamReader(resumed_at, LIMIT)

    items = reader.feed(b"{}\n" + frame(first) + frame(first + 3), 1.0)

    assert [item for item in items if isinstance(item, Gap)] == gap
    assert reader.last_index == first + 3


def test_a_gap_comes_before_the_line_that_shows_it() -> None:
    assert summary(StreamReader(5, LIMIT).feed(frame(9), 1.0)) == ["Gap", 9]


@pytest.mark.parametrize(
    ("data", "kind", "heard"),
    [
        (b"{}\n" + frame(5), "eof", True),
        (b"{}", "eof", True),
        (b"{}\n" + frame(5).strip(), "eof", True),
        (b"", "nothing", False),
        (b"\n \n", "nothing", False),
        (b"{}\n" + frame(5)[:9], "cut-line", True),
        (b'{}\n{"Index":5,"Events":[{"Topic"', "cut-line", True),
        (b"{}\nevent dropped from buffer", "dropped", True),
        (b'{}\n{"Index":5,"Ev' + b"event dropped from buffer", "dropped", True),
        (b"{}\nsubscription closed by server, client should resubscribe", "resubscribe", True),
        (b"{}\nEOF", "upstream-eof", True),
        (b"Permission denied", "denied", False),
        (b"<html>\n<body>hello</body>\n</html>\n", "not-nomad", False),
        (b"[]\n", "not-nomad", False),
        (b'{"Connection":"opened"}\n', "not-nomad", False),
    ],
)
def test_each_end_is_told_apart(data: bytes, kind: str, heard: bool) -> None:
    reader = StreamReader(None, LIMIT)
    reader.feed(data, 1.0)

    _, ending, reason = reader.close(2.0)

    assert (ending, reader.heard) == (kind, heard)
    assert reason


def test_the_last_line_needs_no_newline() -> None:
    reader = StreamReader(None, LIMIT)
    assert reader.feed(frame(5).strip(), 1.0) == []

    items, _, _ = reader.close(2.0)

    assert summary(items) == [5]
    assert reader.last_index == 5


def test_an_end_text_is_no_malformed_line() -> None:
    reader = StreamReader(None, LIMIT)
    reader.feed(b"{}\nEOF", 1.0)

    assert reader.close(1.0)[0] == []


@pytest.mark.parametrize(
    ("pieces", "oversized"),
    [
        ([frame(5) * 1000], False),
        ([b"x" * LIMIT], False),
        ([b"x" * LIMIT, b"\n"], False),
        ([b"x" * (LIMIT + 1)], True),
        ([b"x" * LIMIT, b"x"], True),
        ([b"{}\n" + b"x" * LIMIT, b"xx\n{}\n"], True),
        ([b"{}\n" + b"x" * (LIMIT + 1) + b"\n{}\n"], True),
    ],
)
def test_a_line_beyond_the_bound_is_noticed_whether_it_ends_or_not(pieces: list[bytes], oversized: bool) -> None:
    reader = StreamReader(None, LIMIT)
    for piece in pieces:
        reader.feed(piece, 1.0)

    assert reader.oversized == oversized
