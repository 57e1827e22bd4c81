"""Damaged recordings: what is still read, what is counted, and what is refused with the place that is at fault."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from poseidon_reconciler.core.framing import MAX_LINE_BYTES
from poseidon_reconciler.core.lines import Line, is_heartbeat
from poseidon_reconciler.recording.reader import RecordingError, RecordingReader
from tests.core.builders import RUNNER, START, Wire, allocation, evaluation, event, job, node

GOOD = [orjson.dumps({"Index": index, "Events": []}) for index in (1, 2, 3)]


def write(path: Path, *lines: bytes, end: bytes = b"\n") -> Path:
    path.write_bytes(b"\n".join(lines) + end)
    return path


def read(*paths: Path) -> tuple[list[Line], RecordingReader]:
    reader = RecordingReader(paths)
    return list(reader), reader


def indexes(lines: list[Line]) -> list[int]:
    """The indexes of the lines of a stream among these."""
    return [(line.frame or line).index for line in lines if line.malformed is None]


# --- what is no recording -------------------------------------------------------------------------------------------


def test_the_line_at_fault_is_named_as_an_editor_counts_it(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("\n\nno recording\n")

    with pytest.raises(RecordingError, match=r"\(line 3: "):
        list(RecordingReader([path]))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "empty, so no recording"),
        (b"\n\n  \n", "empty, so no recording"),
        (gzip.compress(b"", mtime=0), "empty, so no recording"),
        (bytes(range(256)) * 8, "line 1: "),
        (b"PK\x03\x04" + bytes(500), "line 1: "),
        (b"\x1f\x8b and no gzip at all", "line 1: "),
        (b'{"jobs": []}\n', "line 1: no line of an event stream or a recording"),
        (b"[]\n", "line 1: "),
        (b"3\n", "line 1: "),
        (b"null\n", "line 1: "),
        (b'"text"\n', "line 1: "),
        (orjson.dumps({"a": [{"b": 1}, {"c": 2}]}, option=orjson.OPT_INDENT_2), "line 1: "),
        (b'{"Index": 1, "Events": [', "line 1: "),
    ],
)
def test_what_is_no_recording_is_refused_in_one_line_that_names_the_file(
    tmp_path: Path, content: bytes, why: str
) -> None:
    path = tmp_path / "file.ndjson"
    path.write_bytes(content)

    with pytest.raises(RecordingError) as refused:
        read(path)

    text = str(refused.value)
    assert text.startswith(f"{path}: ")
    assert why in text
    assert len(text.splitlines()) == 1


def test_a_file_that_is_missing_or_a_directory_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.ndjson", tmp_path):
        with pytest.raises(RecordingError) as refused:
            read(path)
        assert str(refused.value).startswith(f"{path}: ")


def test_one_good_line_makes_a_recording(tmp_path: Path) -> None:
    lines, reader = read(write(tmp_path / "r", b"no JSON", b"{", GOOD[0], b"\xff\xfe"))

    assert indexes(lines) == [1]
    assert reader.malformed == 3


def test_a_heartbeat_alone_makes_a_recording(tmp_path: Path) -> None:
    lines, reader = read(write(tmp_path / "r", b"{}"))

    assert [is_heartbeat(line) for line in lines] == [True]
    assert reader.malformed == 0


# --- what is damaged --------------------------------------------------------------------------------------------------


def test_broken_lines_in_between_are_counted_and_the_others_read(tmp_path: Path) -> None:
    broken = [b"{", b"event dropped from buffer", b'{"Index": "x"}', b"\x00\x01\x02", b'{"Index": 1} trailing']

    lines, reader = read(write(tmp_path / "r", GOOD[0], *broken, GOOD[1], b"", b"  ", GOOD[2]))

    assert indexes(lines) == [1, 2, 3]
    assert reader.malformed == len(broken)
    assert [line.malformed for line in lines if line.malformed is not None] == [
        line.decode(errors="replace") for line in broken
    ]


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_a_line_that_was_cut_at_the_end_is_counted(tmp_path: Path, newline: bytes) -> None:
    path = tmp_path / "r"
    path.write_bytes(newline.join([GOOD[0], GOOD[1], b'{"Index": 3, "Eve']))

    lines, reader = read(path)

    assert (indexes(lines), reader.malformed) == ([1, 2], 1)


def test_a_last_line_without_its_newline_is_whole_all_the_same(tmp_path: Path) -> None:
    lines, reader = read(write(tmp_path / "r", *GOOD, end=b""))

    assert (indexes(lines), reader.malformed) == ([1, 2, 3], 0)


def test_a_packed_recording_that_breaks_off_is_read_up_to_there(tmp_path: Path) -> None:
    whole = [orjson.dumps({"Index": index, "Events": [], "Salt": str(index**9)}) for index in range(1, 5000)]
    path = tmp_path / "r.gz"
    path.write_bytes(gzip.compress(b"\n".join(whole))[:-9000])

    lines, reader = read(path)

    found = indexes(lines)
    assert found == list(range(1, len(found) + 1))
    assert 1000 < len(found) < 4900
    assert reader.malformed == 1


@pytest.mark.parametrize("damage", ["checksum", "garbage after it"])
def test_a_packed_recording_that_is_damaged_is_counted_once(tmp_path: Path, damage: str) -> None:
    packed = bytearray(gzip.compress(b"\n".join(GOOD * 2000) + b"\n"))
    if damage == "checksum":
        packed[-8] ^= 0xFF
    else:
        packed += b"garbage"
    path = tmp_path / "r.gz"
    path.write_bytes(packed)

    lines, reader = read(path)

    assert set(indexes(lines)) == {1, 2, 3}
    assert reader.malformed == 1


def test_packed_recordings_that_were_joined_are_one(tmp_path: Path) -> None:
    path = tmp_path / "r.gz"
    path.write_bytes(b"".join(gzip.compress(line + b"\n") for line in GOOD))

    assert indexes(read(path)[0]) == [1, 2, 3]


def test_an_endless_line_is_counted_and_never_held_whole(tmp_path: Path) -> None:
    path = tmp_path / "r"
    with path.open("wb") as file:
        file.write(GOOD[0] + b'\n{"Index": 2, "Events": ["')
        file.seek(8 * MAX_LINE_BYTES, 1)  # a hole, which is read as zeros
        file.write(b'"]}\n' + GOOD[2] + b"\n")
    reader = RecordingReader([path])
    tracemalloc.start()
    try:
        found = list(reader)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert indexes(found) == [1, 3]
    assert reader.malformed == 1
    assert len(found[1].malformed or "") == 200
    assert peak < 4 * MAX_LINE_BYTES


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_whatever_is_nested_without_end_is_counted_or_skipped(tmp_path: Path, opening: bytes) -> None:
    closing = b"]" if opening == b"[" else b"}"
    deep = opening * 100_000 + b"1" + closing * 100_000
    lines = [
        deep,
        b'{"Index": 5, "Events": ' + deep + b"}",
        b'{"Index": 6, "Unknown": ' + deep + b"}",
        b'{"Index": 7, "Events": [{"Topic": "Job", "Type": "T", "Payload": ' + deep + b"}]}",
        GOOD[0],
    ]

    found, reader = read(write(tmp_path / "r", *lines))

    assert indexes(found)[-1] == 1
    assert len(indexes(found)) + reader.malformed >= len(lines)


# --- values of a wrong kind -----------------------------------------------------------------------------------------


def told(wire: Wire) -> bytes:
    """A line with this object between two others that nothing is wrong with."""
    beside = [event(node("a", index=9)), event(wire), event(node("b", index=9))]
    return orjson.dumps({"Index": 9, "Events": beside})


FIELDS: dict[str, tuple[Callable[[], Wire], list[str]]] = {
    "Job": (
        lambda: job(index=9),
        ["ID", "Type", "Status", "Stop", "Version", "CreateIndex", "ModifyIndex", "JobModifyIndex", "TaskGroups"],
    ),
    "Allocation": (
        lambda: allocation("a", index=9),
        [
            "ID", "JobID", "TaskGroup", "NodeID", "ClientStatus", "DesiredStatus", "CreateIndex", "ModifyIndex",
            "AllocModifyIndex", "TaskStates",
        ],
    ),
    "Evaluation": (lambda: evaluation("e", index=9), ["ID", "JobID", "Status", "CreateIndex", "ModifyIndex"]),
    "Node": (lambda: node(index=9), ["ID", "Name", "Status", "ModifyIndex"]),
}  # fmt: skip
WRONG: list[tuple[str, Any]] = [
    ("Events", 5), ("Index", -1), ("Index", 2**63), ("Index", 1.5), ("Index", None), ("Index", "9"), ("Index", []),
]  # fmt: skip


@pytest.mark.parametrize("value", [["list"], 1.5, {"an": {"State": []}}, 10**40], ids=str)
@pytest.mark.parametrize(("topic", "field"), [(topic, name) for topic, (_, names) in FIELDS.items() for name in names])
def test_a_field_of_a_wrong_type_costs_its_own_event(tmp_path: Path, topic: str, field: str, value: Any) -> None:
    wire = FIELDS[topic][0]()
    # A number that no JSON reader of ours can hold must be written by hand.
    line = told({**wire, field: "@"}).replace(b'"@"', str(value).encode() if value == 10**40 else orjson.dumps(value))

    found, reader = read(write(tmp_path / "r", line, GOOD[2]))

    assert indexes(found) == [9, 3]
    assert reader.malformed == 1
    assert len(found[0].events or ()) == 2


@pytest.mark.parametrize(("field", "value"), WRONG, ids=str)
def test_a_line_of_which_nothing_can_be_used_costs_itself_alone(tmp_path: Path, field: str, value: Any) -> None:
    line = orjson.dumps({"Index": 9, "Events": [event(node(index=9))], field: value})

    found, reader = read(write(tmp_path / "r", GOOD[0], line, GOOD[2]))

    assert indexes(found) == [1, 3]
    assert reader.malformed == 1


@pytest.mark.parametrize(
    ("number", "usable"), [(0, True), (2**63 - 1, True), (2**63, False), (2**64, False), (10**400, False), (-1, False)]
)
def test_indexes_have_the_64_bits_that_nomad_gives_them(tmp_path: Path, number: int, usable: bool) -> None:
    line = b'{"Index": 9, "Events": [' + orjson.dumps(event(job(index=9))).replace(
        b'"ModifyIndex":9', b'"ModifyIndex":%d' % number, 1
    ) + b"]}"  # fmt: skip

    found, reader = read(write(tmp_path / "r", line))

    assert len(found[0].events or ()) == usable
    assert reader.malformed == (not usable)


def test_events_of_other_topics_may_look_as_they_like(tmp_path: Path) -> None:
    strange = {"Topic": "Service", "Type": 5, "Payload": {"Job": []}}
    line = orjson.dumps({"Index": 9, "Events": [strange, event(node(index=9))]})

    found, reader = read(write(tmp_path / "r", line))

    assert reader.malformed == 0
    assert [each.topic for each in found[0].events or ()] == ["Node"]


def test_a_list_with_a_member_that_cannot_be_read_is_incomplete(tmp_path: Path) -> None:
    lists = {"Jobs": [job(index=9), {"ID": 5}], "Allocations": [allocation("a", index=9)]}
    line = orjson.dumps({"ReceivedAt": START, "Snapshot": {**lists, "Indexes": {"Jobs": 9, "Allocations": 9}}})

    (found,), reader = read(write(tmp_path / "r", line))

    assert found.snapshot is not None
    assert [each.id for each in found.snapshot.jobs or ()] == [RUNNER]
    assert found.snapshot.indexes == {"Allocations": 9}
    assert reader.malformed == 1


# --- time and place ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [-1, 2**40, "noon", "NaN", [1]])
def test_a_time_that_is_none_is_malformed(tmp_path: Path, value: Any) -> None:
    line = orjson.dumps({"ReceivedAt": value, "Frame": {"Index": 2, "Events": []}})

    found, reader = read(write(tmp_path / "r", GOOD[0], line))

    assert indexes(found) == [1]
    assert (reader.malformed, reader.now) == (1, 0.0)


def test_the_clock_never_goes_back_from_line_to_line_and_from_file_to_file(tmp_path: Path) -> None:
    def at(seconds: float) -> bytes:
        return orjson.dumps({"ReceivedAt": START + seconds, "Frame": {}})

    paths = [write(tmp_path / "one", at(5), at(3), at(6)), write(tmp_path / "two", at(4), at(9))]
    reader = RecordingReader(paths)

    assert [reader.now - START for _ in reader] == [5, 5, 6, 6, 9]


def test_files_in_another_order_than_they_were_recorded_are_read_and_told_of(tmp_path: Path) -> None:
    first = write(tmp_path / "1", *[orjson.dumps({"ReceivedAt": START + n, "Frame": {}}) for n in (0, 5)])
    second = write(tmp_path / "2", *[orjson.dumps({"ReceivedAt": START + n, "Frame": {}}) for n in (6, 9)])

    assert read(first, second)[1].warnings == []
    lines, reader = read(second, first)

    assert len(lines) == 4
    assert reader.warnings == [f"{first}: begins before the file before it ends; name them as they were recorded"]


def test_a_recorders_note_of_a_line_that_it_could_not_read_counts_like_the_line(tmp_path: Path) -> None:
    note = orjson.dumps({"ReceivedAt": START, "Malformed": "EOF"})

    found, reader = read(write(tmp_path / "r", note))

    assert [line.malformed for line in found] == ["EOF"]
    assert reader.malformed == 1


def test_the_bytes_of_the_files_themselves_are_counted(tmp_path: Path) -> None:
    plain, packed = write(tmp_path / "r", *GOOD), tmp_path / "r.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    consumed: list[int] = []

    list(RecordingReader([plain, packed], consumed.append))

    assert sum(consumed) == plain.stat().st_size + packed.stat().st_size
