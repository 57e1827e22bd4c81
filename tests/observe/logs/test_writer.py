"""Lines come out in order, and a pipe that nobody reads costs lines and nothing else."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

import pytest

from poseidon_reconciler.observe.logs.writer import LineWriter


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    for fd in (reading, writing):
        with contextlib.suppress(OSError):
            os.close(fd)


def fill(fd: int) -> None:
    os.set_blocking(fd, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(fd, b"x" * 4096)
    os.set_blocking(fd, True)


def read_all(fd: int) -> list[str]:
    pieces = []
    while piece := os.read(fd, 65536):
        pieces.append(piece)
    return b"".join(pieces).decode().splitlines()


def test_lines_come_out_in_order(pipe: tuple[int, int]) -> None:
    writer = LineWriter(pipe[1], str)
    for number in range(100):
        writer.write(f"line {number}")
    writer.close(5.0)
    os.close(pipe[1])

    assert read_all(pipe[0]) == [f"line {number}" for number in range(100)]


def test_who_writes_to_a_pipe_that_nobody_reads_does_not_wait(pipe: tuple[int, int]) -> None:
    fill(pipe[1])
    writer = LineWriter(pipe[1], lambda number: f"dropped {number}", max_lines=10)
    began = time.monotonic()
    for _ in range(5_000):
        writer.write("x" * 1_000)
    writer.close(0.05)

    assert time.monotonic() - began < 10.0
    assert writer.dropped > 4_000

    # Its thread must have ended before the number of its pipe is that of another one.
    os.close(pipe[0])
    writer.close(5.0)


def test_what_was_dropped_is_told_once_somebody_reads_again(pipe: tuple[int, int]) -> None:
    writer = LineWriter(pipe[1], lambda number: f"dropped {number}", max_lines=10)
    for _ in range(500):
        writer.write("x" * 1_000)
    dropped = writer.dropped
    seen = b""
    while b"dropped" not in seen or not seen.endswith(b"\n"):
        seen += os.read(pipe[0], 65536)
    writer.close(5.0)
    os.close(pipe[1])

    lines = seen.decode().splitlines() + read_all(pipe[0])
    told = [int(line.removeprefix("dropped ")) for line in lines if line.startswith("dropped")]
    assert sum(told) == dropped
    assert len(lines) - len(told) + dropped == 500


def test_a_reader_that_has_gone_is_no_error(pipe: tuple[int, int]) -> None:
    os.close(pipe[0])
    writer = LineWriter(pipe[1], str)
    for _ in range(3):
        writer.write("nobody reads this")
    writer.close(5.0)

    assert writer.dropped == 3


def test_a_descriptor_that_does_not_block_is_waited_for(pipe: tuple[int, int]) -> None:
    os.set_blocking(pipe[1], False)
    writer = LineWriter(pipe[1], str)
    for _ in range(200):
        writer.write("x" * 1_000)
    seen = 0
    while seen < 200 * 1_001:
        seen += len(os.read(pipe[0], 65536))
    writer.close(5.0)

    assert writer.dropped == 0
