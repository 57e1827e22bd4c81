"""The memory of a server's event stream: where readers start, and how they are cut off."""

from __future__ import annotations

import pytest

from poseidon_reconciler.twin.events import Batch, Buffer, Cut


def filled(*indexes: int, size: int = 100) -> Buffer:
    buffer = Buffer(size)
    for index in indexes:
        buffer.append(Batch(index, ()))
    return buffer


@pytest.mark.parametrize(
    ("wanted", "first"),
    [
        (0, 10),  # no index: the oldest that is kept
        (11, 11),  # inclusive
        (12, 13),  # not there: the next one
        (5, 10),  # older than what is kept: silently the oldest
        (99, 13),  # newer than the newest: the newest
    ],
)
def test_where_a_reader_starts(wanted: int, first: int) -> None:
    assert filled(10, 11, 11, 13).subscribe(wanted).read()[0].index == first


def test_a_reader_gets_each_batch_once() -> None:
    buffer = filled(10)
    cursor = buffer.subscribe()
    assert [batch.index for batch in cursor.read()] == [10]
    assert cursor.read() == []
    buffer.append(Batch(11, ()))
    assert [batch.index for batch in cursor.read()] == [11]


def test_a_reader_of_an_empty_memory_waits_for_what_comes() -> None:
    buffer = filled()
    cursor = buffer.subscribe(7)
    buffer.append(Batch(3, ()))
    assert [batch.index for batch in cursor.read()] == [3]


def test_a_slow_reader_is_cut_off() -> None:
    buffer = filled(1, 2, size=2)
    cursor = buffer.subscribe()
    buffer.append(Batch(3, ()))
    with pytest.raises(Cut, match="event dropped from buffer"):
        cursor.read()
    assert (len(buffer), [batch.index for batch in buffer.batches]) == (2, [2, 3])


def test_a_refilled_memory_cuts_all_readers_off() -> None:
    buffer = filled(5, 6)
    cursor = buffer.subscribe()
    buffer.refill([Batch(1, ()), Batch(2, ())])
    with pytest.raises(Cut, match="subscription closed by server"):
        cursor.read()
    assert [batch.index for batch in buffer.subscribe().read()] == [1, 2]
    assert buffer.newest_index == 2
