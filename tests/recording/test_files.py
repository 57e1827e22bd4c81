"""A recording on the disk: its names in the order of time, nothing written over, and readable whenever it was cut."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import pytest

from poseidon_reconciler.recording.files import RecordingFiles


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def files_of(path: Path, clock: Clock | None = None, *, keep: int = 10, max_bytes: int = 10**9) -> RecordingFiles:
    return RecordingFiles(path, max_bytes=max_bytes, max_age_s=60.0, keep=keep, monotonic=clock or Clock())


def write(files: RecordingFiles, *lines: bytes) -> None:
    files.begin()
    for line in lines:
        files.write(line)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize(
    ("name", "second"),
    [
        ("a.ndjson.gz", "a.0001.ndjson.gz"),
        ("a.gz", "a.0001.gz"),
        ("a.b.ndjson", "a.b.0001.ndjson"),
        ("recording", "recording.0001"),
    ],
)
def test_the_newest_has_the_name_and_the_others_numbers_in_the_order_of_time(
    tmp_path: Path, name: str, second: str
) -> None:
    files = files_of(tmp_path / name)
    for line in (b"1", b"2", b"3"):
        write(files, line)
    files.close()

    third = second.replace("0001", "0002")
    read = {path: (tmp_path / path).read_bytes() for path in names(tmp_path)}
    read = {path: gzip.decompress(data) if name.endswith("gz") else data for path, data in read.items()}
    assert read == {second: b"1\n", third: b"2\n", name: b"3\n"}
    assert files.files == 3
    assert files.bytes_written == sum((tmp_path / path).stat().st_size for path in read)


def test_what_is_there_already_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    path.write_bytes(b"of another life\n")
    (tmp_path / "a.0041.ndjson").write_bytes(b"older\n")

    files = files_of(path)
    write(files, b"new")
    files.close()

    assert names(tmp_path) == ["a.0041.ndjson", "a.0042.ndjson", "a.ndjson"]
    assert (tmp_path / "a.0042.ndjson").read_bytes() == b"of another life\n"


def test_a_recording_that_another_one_writes_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    files, others = files_of(path), files_of(path)
    files.begin()

    with pytest.raises(OSError, match="another recorder writes it"):
        others.begin()
    files.write(b"1")
    files.begin()
    files.write(b"2")
    files.close()
    write(others, b"3")
    others.close()

    assert [path.read_bytes() for path in sorted(tmp_path.iterdir())] == [b"1\n", b"2\n", b"3\n"]


def test_the_oldest_go_first_and_nothing_else_goes(tmp_path: Path) -> None:
    (tmp_path / "a.1.ndjson").write_bytes(b"somebody's own\n")
    files = files_of(tmp_path / "a.ndjson", keep=2)
    for number in range(5):
        write(files, b"%d" % number)
    files.close()

    assert names(tmp_path) == ["a.0004.ndjson", "a.1.ndjson", "a.ndjson"]


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    files = files_of(tmp_path / "a.ndjson")
    write(files, b"1")
    files.close()
    assert (tmp_path / "a.ndjson").stat().st_mode & 0o777 == 0o600


def test_it_is_full_by_size_or_by_age(tmp_path: Path) -> None:
    clock = Clock()
    files = files_of(tmp_path / "a.ndjson", clock, max_bytes=10)
    seen = [files.is_full]
    write(files, b"1")
    seen.append(files.is_full)
    files.write(b"0123456789")
    seen.append(files.is_full)
    write(files, b"1")
    seen.append(files.is_full)
    clock.now = 60.0
    seen.append(files.is_full)
    files.close()

    assert seen == [False, False, True, False, True]


@pytest.mark.parametrize("name", ["a.ndjson", "a.ndjson.gz"])
def test_whoever_is_killed_loses_seconds_at_most(tmp_path: Path, name: str) -> None:
    clock = Clock()
    files = files_of(tmp_path / name, clock)
    write(files, b"early")
    clock.now = 5.0
    files.flush_if_due()
    files.write(b"late")

    data = (tmp_path / name).read_bytes()

    unpacked = zlib.decompressobj(31).decompress(data) if name.endswith("gz") else data
    assert unpacked == b"early\n"
    files.close()


def test_where_nothing_can_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        files_of(tmp_path / "nowhere" / "a.ndjson").begin()


def test_nothing_is_left_of_a_recording_of_nothing(tmp_path: Path) -> None:
    files = files_of(tmp_path / "a.ndjson.gz", max_bytes=1)
    files.begin()
    assert not files.is_full
    files.close()

    assert (names(tmp_path), files.files) == ([], 0)
