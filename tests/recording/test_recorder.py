"""The recorder makes nobody wait, keeps no more than its bound, and tells a whole story or two whole ones."""

from __future__ import annotations

import gzip
import threading
from pathlib import Path
from typing import Any

import orjson
import pytest

from poseidon_reconciler.policy import Policy
from poseidon_reconciler.recording.files import RecordingFiles
from poseidon_reconciler.recording.reader import RecordingReader
from poseidon_reconciler.recording.recorder import Recorder
from poseidon_reconciler.recording.replay import Replay
from tests.core.builders import START, TEMPLATE, event, job, runner, stub

JOBS = [job(TEMPLATE, index=1, target=1), job(runner(0), index=2)]


class Disk(RecordingFiles):
    """A disk that writes only once it may, or that is full."""

    def __init__(self, path: Path, *, full: bool = False, max_bytes: int = 10**9) -> None:
        super().__init__(path, max_bytes=max_bytes, max_age_s=1e6, keep=10)
        self.may_write = threading.Event()
        self.may_write.set()
        self.full = full

    def write(self, line: bytes) -> None:
        self.may_write.wait(10)
        if self.full:
            raise OSError(28, "No space left on device")
        super().write(line)


def frame(index: int) -> bytes:
    return orjson.dumps({"Index": index, "Events": [event(job(runner(0), index=index, created=2))]})


def members(*documents: dict[str, Any]) -> dict[str, list[tuple[bytes, ...]]]:
    return {"Jobs": [(orjson.dumps(each),) for each in documents]}


def lines(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    return [orjson.loads(text) for text in (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines()]


def kinds(path: Path) -> list[str]:
    return [next(key for key in line if key not in ("ReceivedAt", "Reason")) for line in lines(path)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.ndjson.gz"


def test_all_kinds_of_lines_are_written_in_their_order_without_secrets(path: Path) -> None:
    recorder = Recorder(Disk(path), name="a")
    recorder.start()
    recorder.connection("opened", "", START)
    recorder.snapshot(members(*JOBS), {"Jobs": 5}, START + 1, may_begin_file=True)
    recorder.frame(orjson.dumps({"Index": 6, "Events": [event({**JOBS[1], "VaultToken": "hvs.1"})]}), START + 2)
    recorder.malformed("PASSWORD=hunter2", START + 3)
    recorder.frame(b'{"Index":7,"Events"', START + 4)
    recorder.connection("closed", "cut: hunter2", START + 5)
    assert recorder.close(10)

    assert kinds(path) == ["Connection", "Snapshot", "Frame", "Malformed", "Malformed", "Connection"]
    assert [line["ReceivedAt"] - START for line in lines(path)] == [0, 1, 2, 3, 4, 5]
    assert b"hunter2" not in orjson.dumps(lines(path))
    assert b"hvs.1" not in orjson.dumps(lines(path))
    assert (recorder.frames, recorder.snapshots, recorder.unreadable, recorder.dropped) == (2, 1, 1, 0)


@pytest.mark.parametrize("depth", [300, 1000])
def test_what_is_nested_too_deeply_to_be_written_ends_nothing(path: Path, depth: int) -> None:
    deep = b'{"Index":6,"Events":[{"Topic":"Job","Payload":{"Job":{"JobSummary":{"Summary":%b}}}}]}'
    recorder = Recorder(RecordingFiles(path, max_bytes=10**9, max_age_s=1e6, keep=10), name="a")
    recorder.start()
    recorder.frame(deep % (b"[" * depth + b"]" * depth), START)
    recorder.frame(frame(7), START + 1)

    assert recorder.close(10)
    assert [line["Frame"]["Index"] for line in lines(path)] == [6, 7]


def test_of_a_job_what_is_newer_counts(path: Path) -> None:
    newer = {**stub(JOBS[1]), "Status": "dead", "ModifyIndex": 9}
    recorder = Recorder(Disk(path), name="a")
    recorder.start()
    tables = {"Jobs": [(orjson.dumps(JOBS[1]), orjson.dumps(newer))]}
    recorder.snapshot(tables, {"Jobs": 9}, START, may_begin_file=True)
    recorder.close(10)

    (line,) = lines(path)
    (kept,) = line["Snapshot"]["Jobs"]
    assert (kept["Status"], kept["ModifyIndex"]) == ("dead", 9)
    assert kept["TaskGroups"][1]["Meta"] == {"used": "false"}


def test_a_list_with_an_unreadable_member_is_not_taken_for_all_there_is(path: Path) -> None:
    recorder = Recorder(Disk(path), name="a")
    recorder.start()
    tables = {"Jobs": [(orjson.dumps(JOBS[0]),), (b"{",)]}
    recorder.snapshot(tables, {"Jobs": 9, "Nodes": 4}, START, may_begin_file=True)
    recorder.close(10)

    (line,) = lines(path)
    assert line["Snapshot"]["Indexes"] == {"Nodes": 4}


def test_a_full_file_is_followed_by_one_that_begins_with_a_snapshot(path: Path) -> None:
    recorder = Recorder(Disk(path, max_bytes=1), name="a")
    recorder.start()
    recorder.snapshot(members(*JOBS), {"Jobs": 5}, START, may_begin_file=True)
    recorder.frame(frame(6), START + 1)
    # One before which lines may have been written that belong after it.
    recorder.snapshot(members(*JOBS), {"Jobs": 6}, START + 2, may_begin_file=False)
    recorder.snapshot(members(*JOBS), {"Jobs": 7}, START + 3, may_begin_file=True)
    recorder.frame(frame(8), START + 4)
    recorder.close(10)

    first = path.with_name("a.0001.ndjson.gz")
    assert kinds(first) == ["Snapshot", "Frame", "Snapshot"]
    assert kinds(path) == ["Snapshot", "Frame"]
    alone, both = RecordingReader([path]), RecordingReader([first, path])
    assert set(Replay(Policy()).run(alone).jobs) == set(Replay(Policy()).run(both).jobs) == {TEMPLATE, runner(0)}


def test_a_slow_disk_costs_lines_but_no_memory_and_another_file_tells_what_follows(path: Path) -> None:
    disk = Disk(path)
    recorder = Recorder(disk, name="a", max_waiting_bytes=20_000)
    recorder.start()
    recorder.snapshot(members(*JOBS), {"Jobs": 5}, START, may_begin_file=True)
    disk.may_write.clear()
    for index in range(6, 200):
        recorder.frame(frame(index), START + index)
    assert recorder.dropped > 100
    assert recorder.wants_snapshot
    # Before there is room again, and where it would leave a hole, it is refused.
    assert not recorder.snapshot(members(*JOBS), {"Jobs": 200}, START + 200, may_begin_file=True)
    disk.may_write.set()
    while recorder._waiting_bytes:
        threading.Event().wait(0.01)
    assert not recorder.snapshot(members(*JOBS), {"Jobs": 200}, START + 200, may_begin_file=False)
    assert recorder.snapshot(members(*JOBS), {"Jobs": 200}, START + 201, may_begin_file=True)
    recorder.frame(frame(202), START + 202)
    assert recorder.close(10)

    last = lines(path.with_name("a.0001.ndjson.gz"))[-1]
    assert last["Connection"] == "closed"
    assert kinds(path) == ["Snapshot", "Frame"]
    assert not recorder.wants_snapshot


def test_a_full_disk_is_one_line_and_ends_nothing_else(path: Path) -> None:
    told = threading.Event()
    recorder = Recorder(Disk(path, full=True), name="here.gz", on_problem=told.set)
    recorder.start()
    recorder.frame(frame(6), START)
    assert told.wait(10)

    recorder.frame(frame(7), START)

    assert recorder.problem == "here.gz: no space left on device"
    assert not recorder.close(10)


def test_a_recording_that_breaks_off_is_read_to_there(path: Path) -> None:
    recorder = Recorder(Disk(path), name="a")
    recorder.start()
    recorder.snapshot(members(*JOBS), {"Jobs": 5}, START, may_begin_file=True)
    for index in range(6, 50):
        recorder.frame(frame(index), START + index)
    recorder.close(10)
    path.write_bytes(path.read_bytes()[:-100])

    reader = RecordingReader([path])
    story = Replay(Policy()).run(reader)

    assert set(story.jobs) == {TEMPLATE, runner(0)}
    assert 0 < story.frames < 44
    assert "breaks off" in reader.warnings[0]
