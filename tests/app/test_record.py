"""`record` as a user meets it: what it leaves on the disk, how it ends, and what it says."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from poseidon_reconciler.cli import main
from poseidon_reconciler.policy import Policy
from poseidon_reconciler.recording.reader import RecordingReader
from poseidon_reconciler.recording.replay import Replay
from poseidon_reconciler.recording.story import Story
from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.poseidon_jobs import environment_job, runner_job
from tests.twin.serving import Client, serving

RUNNER = "10-00000001-0000-11f1-9c5d-02fc00000001"


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    cluster = Cluster(3, seed=1)
    cluster.run_for(30)
    cluster.jobs.register(environment_job(10, 1))
    cluster.jobs.register(runner_job(RUNNER))
    cluster.run_for(10)
    async with serving(cluster) as serving_client:
        yield serving_client


@contextlib.asynccontextmanager
async def recording(address: str, *options: str) -> AsyncIterator[asyncio.subprocess.Process]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("NOMAD_", "RECONCILER_"))}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "poseidon_reconciler", "record", *options,
        env={**environment, "NOMAD_ADDR": address},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def said(process: asyncio.subprocess.Process, word: str) -> None:
    assert process.stderr is not None
    async with asyncio.timeout(30):
        while word not in (line := (await process.stderr.readline()).decode()):
            assert line


async def ended(process: asyncio.subprocess.Process) -> tuple[int, str, str]:
    out, err = await asyncio.wait_for(process.communicate(), 30)
    return process.returncode or 0, out.decode(), err.decode()


async def until(condition: Callable[[], bool], step: Callable[[], Awaitable[None]]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await step()


def files_in(directory: Path) -> list[Path]:
    return sorted(directory.iterdir())


def story_of(*paths: Path) -> Story:
    return Replay(Policy()).run(RecordingReader(paths))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_it_ends_in_order_by_a_signal_with_a_summary(client: Client, tmp_path: Path, number: int) -> None:
    path = tmp_path / "a.ndjson.gz"
    async with recording(client.server.address, "--out", str(path)) as process:
        await said(process, "lists-read")
        process.send_signal(number)
        status, out, err = await ended(process)

    assert status == 0, err
    assert "1 snapshot over 1 connection" in out
    story = story_of(path)
    assert {job_id: row.state for job_id, row in story.jobs.items()} == {"template-10": "active", RUNNER: "idle"}


async def test_whoever_is_killed_has_kept_what_came_before(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson.gz"
    async with recording(client.server.address, "--out", str(path)) as process:
        await said(process, "lists-read")

        def is_flushed() -> bool:
            with contextlib.suppress(Exception):
                return set(story_of(path).jobs) == {"template-10", RUNNER}
            return False

        await until(is_flushed, lambda: asyncio.sleep(0.2))
        process.kill()
        await process.wait()

    reader = RecordingReader([path])
    assert set(Replay(Policy()).run(reader).jobs) == {"template-10", RUNNER}
    assert "breaks off" in reader.warnings[0]


async def test_files_follow_each_other_and_each_can_be_played_alone(client: Client, tmp_path: Path) -> None:
    options = ("--out", str(tmp_path / "a.ndjson.gz"), "--max-age", "1s", "--keep", "3")
    async with recording(client.server.address, *options) as process:
        await until(lambda: len(files_in(tmp_path)) >= 3, lambda: asyncio.sleep(0.2))
        await asyncio.sleep(1)
        process.terminate()
        status, _, err = await ended(process)

    assert status == 0, err
    paths = files_in(tmp_path)
    for path in paths:
        assert set(story_of(path).jobs) == {"template-10", RUNNER}
    assert set(story_of(*paths).jobs) == {"template-10", RUNNER}
    assert len(paths) == 3


async def test_a_disk_that_takes_no_more_is_one_line_and_status_1(client: Client, tmp_path: Path) -> None:
    limited = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); "
    limited += "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    limited += "from poseidon_reconciler.cli import main; sys.exit(main(sys.argv[1:]))"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", limited, "record", "--out", str(tmp_path / "a.ndjson"),
        env={**os.environ, "NOMAD_ADDR": client.server.address},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    status, _, err = await ended(process)

    assert status == 1
    assert err.splitlines()[-1].endswith("a.ndjson: file too large")
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--out", "nowhere/a.ndjson"], "--out: nowhere/a.ndjson: no such file or directory"),
        (["--out", "a", "--max-size", "12"], "--max-size: '12' is not a size such as 100MB"),
        (["--out", "a", "--max-size", "0MB"], "--max-size: '0MB' is not a size such as 100MB"),
        (["--out", "a", "--keep", "0"], "--keep: 0 is not 1 or more"),
    ],
)
def test_what_cannot_be_used_is_one_line(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NOMAD_TOKEN", raising=False)
    assert main(["record", *options]) == 2
    assert capfd.readouterr().err == message + "\n"


async def test_what_is_no_nomad_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with recording(address, "--out", str(tmp_path / "a.ndjson.gz")) as process:
            status, out, err = await ended(process)

    assert (status, out) == (2, "")
    assert err.splitlines()[-1].startswith(f"{address} is no Nomad")
    assert files_in(tmp_path) == []
