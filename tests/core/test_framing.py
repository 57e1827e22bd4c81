"""Whole lines out of bytes in any pieces, and what an endless line can cost."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from poseidon_reconciler.core.framing import MAX_LINE_BYTES, LineSplitter

BOUND = 300
KEPT = 200
short_lines = st.binary(max_size=40).map(lambda line: line.replace(b"\n", b" "))
long_lines = st.integers(BOUND - 5, 3 * BOUND).map(lambda size: bytes(33 + n % 90 for n in range(size)))
texts = st.lists(short_lines | long_lines, max_size=12).map(b"\n".join)


def chunks(text: bytes, cuts: list[int]) -> list[bytes]:
    """The text, cut at these places."""
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[start:end] for start, end in pairwise(places)]


def lines_of(pieces: list[bytes], splitter: LineSplitter) -> bytes:
    return b"".join([*map(splitter.feed, pieces), splitter.close()])


@given(text=texts, cuts=st.lists(st.integers(0, 10_000)))
def test_the_lines_are_the_same_however_the_bytes_come(text: bytes, cuts: list[int]) -> None:
    splitter = LineSplitter(BOUND)

    found = lines_of(chunks(text, cuts), splitter)

    lines = text.split(b"\n")
    if not lines[-1]:
        lines.pop()
    assert found == b"".join((line if len(line) <= BOUND else line[:KEPT]) + b"\n" for line in lines)
    assert splitter.oversized == sum(len(line) > BOUND for line in lines)


@given(text=texts, cuts=st.lists(st.integers(0, 10_000)))
def test_a_line_is_given_out_as_soon_as_it_is_whole(text: bytes, cuts: list[int]) -> None:
    splitter = LineSplitter(BOUND)
    fed, given_out = 0, 0
    for piece in chunks(text, cuts):
        fed += len(piece)
        given_out += splitter.feed(piece).count(b"\n")
        assert given_out == text[:fed].count(b"\n")


def test_an_endless_line_costs_no_more_than_its_bound() -> None:
    splitter = LineSplitter(BOUND)

    for _ in range(10_000):
        assert splitter.feed(b"x" * 100) == b""

    assert sum(map(len, splitter._pieces)) <= BOUND + 100
    assert splitter.feed(b"\nnext\n") == b"x" * KEPT + b"\nnext\n"
    assert splitter.oversized == 1


def test_the_bound_leaves_room_for_the_largest_lines_of_a_real_server() -> None:
    line = b"x" * (MAX_LINE_BYTES - 1) + b"\n"

    assert LineSplitter().feed(line) == line


def test_the_end_of_the_input_ends_the_last_line_once() -> None:
    splitter = LineSplitter()
    splitter.feed(b"whole\nhalf")

    assert (splitter.close(), splitter.close()) == (b"half\n", b"")
