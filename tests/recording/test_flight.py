"""The ring holds what it was given and no more, each segment can be played alone, and no secret reaches the disk."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poseidon_reconciler.policy import Policy
from poseidon_reconciler.recording.flight import Entry, FlightRing, Key, pack, write_flight
from poseidon_reconciler.recording.reader import RecordingReader
from poseidon_reconciler.recording.replay import Replay
from tests.core.builders import START, TEMPLATE, event, job, runner, snapshot_of

JOBS = [job(TEMPLATE, index=1, target=1), job(runner(0), index=2)]
SNAPSHOT = msgspec.json.encode(snapshot_of(5, Jobs=JOBS))


def frame(index: int, **more: Any) -> bytes:
    return orjson.dumps({"Index": index, "Events": [event(job(runner(0), index=index, created=2) | more)]})


def put(ring: FlightRing) -> None:
    ring.put(pack(ring.take_waiting()))


def written(ring: FlightRing, path: Path, keep: int = 9) -> list[dict[str, Any]]:
    write_flight(ring.chunks(), path, keep=keep, breathe=lambda _: None)
    return [orjson.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def test_lines_come_out_as_they_went_in(tmp_path: Path) -> None:
    ring = FlightRing(10**6)
    for entry in (
        Entry(START, "Connection", b'"opened"'),
        Entry(START + 0.25, "Snapshot", SNAPSHOT),
        Entry(START + 1.1, "Frame", frame(6)),
        Entry(START + 1.1, "Told", b"{}"),
        Entry(START + 2, "Told", b'{"Protects":false}'),
    ):
        ring.add(entry)
    put(ring)

    lines = written(ring, tmp_path / "a.ndjson.gz")

    assert [line["ReceivedAt"] for line in lines] == [START, START + 0.25, START + 1.1, START + 1.1, START + 2]
    assert all("Told" in line for line in lines)
    assert lines[4]["Told"] == {"Protects": False}
    assert lines[2]["Frame"]["Index"] == 6
    story = Replay(Policy()).run(RecordingReader([tmp_path / "a.ndjson.gz"]))
    assert set(story.jobs) == {TEMPLATE, runner(0)}
    assert ring.is_whole


@given(
    st.integers(2_000, 60_000),
    st.lists(st.sampled_from([("Snapshot", 0), ("Frame", 10), ("Frame", 3000), ("Frame", 40_000), ("pack", 0)])),
)
def test_it_never_takes_more_than_it_was_given_and_begins_with_a_snapshot(
    max_bytes: int, steps: list[tuple[str, int]]
) -> None:
    ring = FlightRing(max_bytes)
    ring.add(Entry(0.0, "Connection", b'"opened"'))
    for number, (step, size) in enumerate(steps):
        match step:
            case "pack":
                put(ring)
            case "Snapshot":
                ring.add(Entry(float(number), "Snapshot", b'{"Jobs":[]}'))
            case _:
                # Nothing that packs well.
                text = orjson.dumps({"Index": number, "Noise": [hash((number, n)) for n in range(size // 20)]})
                ring.add(Entry(float(number), "Frame", text))
        assert ring.size <= max_bytes
    put(ring)
    assert ring.size <= max_bytes

    text = b"".join(zlib.decompress(chunk) for chunk in ring.chunks())
    lines = [orjson.loads(line) for line in text.splitlines()]
    if not ring.is_whole and lines:
        assert "Snapshot" in lines[0]
    times = [line["ReceivedAt"] for line in lines]
    assert times == sorted(times)
    # Without a hole: whatever was added since the first line that is there, is there.
    added = [float(n) for n, (step, _) in enumerate(steps) if step != "pack"]
    if times:
        assert times == ([0.0] if ring.is_whole else []) + [at for at in added if ring.is_whole or at >= times[0]]


def test_what_was_taken_and_never_put_is_packed_the_next_time(tmp_path: Path) -> None:
    ring = FlightRing(10**6)
    ring.add(Entry(START, "Snapshot", SNAPSHOT))
    ring.take_waiting()
    ring.add(Entry(START + 1, "Frame", frame(6)))
    put(ring)

    assert [line["ReceivedAt"] for line in written(ring, tmp_path / "a.ndjson.gz")] == [START, START + 1]


def test_what_is_too_much_even_alone_is_dropped_until_the_next_snapshot() -> None:
    ring = FlightRing(3000)
    ring.add(Entry(1.0, "Snapshot", b"{}"))
    ring.add(Entry(2.0, "Frame", b"0" * 5000))
    assert (ring.overruns, ring.size, ring.is_whole) == (1, 0, False)

    ring.add(Entry(3.0, "Frame", b"{}"))
    ring.add(Entry(4.0, "Snapshot", b"{}"))
    ring.add(Entry(5.0, "Frame", b"{}"))

    assert [entry.at for entry in ring.take_waiting()] == [4.0, 5.0]


def test_the_oldest_segment_goes_first_and_the_rest_can_be_played(tmp_path: Path) -> None:
    ring = FlightRing(6_000)
    for number in range(40):
        at = START + number * 100
        ring.add(Entry(at, "Snapshot", SNAPSHOT))
        ring.add(Entry(at + 1, "Frame", frame(6 + number)))
        put(ring)

    lines = written(ring, tmp_path / "a.ndjson.gz")

    keys: list[Key] = ["Snapshot", "Frame"]
    assert 2 < len(lines) < 80
    assert [next(key for key in keys if key in line) for line in lines] == keys * (len(lines) // 2)
    assert not ring.is_whole
    assert set(Replay(Policy()).run(RecordingReader([tmp_path / "a.ndjson.gz"])).jobs) == {TEMPLATE, runner(0)}


def test_no_secret_reaches_the_disk_and_nobody_else_may_read_it(tmp_path: Path) -> None:
    ring = FlightRing(10**6)
    ring.add(Entry(START, "Frame", frame(6, VaultToken="hvs.secret")))
    ring.add(Entry(START, "Frame", b'{"Index":7,"hvs.secret'))
    put(ring)

    lines = written(ring, tmp_path / "flights" / "a.ndjson.gz")

    assert b"hvs.secret" not in orjson.dumps(lines)
    assert [*lines[1]] == ["Told", "Malformed"]
    assert (tmp_path / "flights" / "a.ndjson.gz").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "flights").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("depth", [300, 1000])
def test_what_is_nested_too_deeply_to_be_written_is_not_written(tmp_path: Path, depth: int) -> None:
    ring = FlightRing(10**6)
    deep = b'{"Index":6,"Events":[{"Topic":"Job","Payload":{"Job":{"JobSummary":{"Summary":%b}}}}]}'
    ring.add(Entry(START, "Snapshot", SNAPSHOT))
    ring.add(Entry(START, "Frame", deep % (b"[" * depth + b"]" * depth)))
    put(ring)

    _, line = written(ring, tmp_path / "a.ndjson.gz")

    assert line["Frame"]["Events"][0]["Payload"]["Job"] == {"JobSummary": {"Summary": 0}}


def test_only_so_many_are_kept_and_the_oldest_goes_first(tmp_path: Path) -> None:
    ring = FlightRing(10**6)
    for number in range(4):
        written(ring, tmp_path / f"2026120{number}T000000Z-storm.ndjson.gz", keep=2)

    assert sorted(path.name[:8] for path in tmp_path.iterdir()) == ["20261202", "20261203"]


def test_where_nothing_can_be_written_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "a.ndjson.gz").mkdir()
    with pytest.raises(OSError, match="directory"):
        written(FlightRing(1000), tmp_path / "a.ndjson.gz")
    assert [path.name for path in tmp_path.iterdir()] == ["a.ndjson.gz"]
