"""`record`: what a live cluster tells, scrubbed, into files that can be played again."""

from __future__ import annotations

import argparse
import asyncio
import re
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from poseidon_reconciler.app.edges import connection_of
from poseidon_reconciler.app.errors import UsageError
from poseidon_reconciler.app.recording import Recording
from poseidon_reconciler.app.running import StartError
from poseidon_reconciler.app.settings import duration_option, load_settings
from poseidon_reconciler.config import Settings
from poseidon_reconciler.core.printable import printable
from poseidon_reconciler.core.wording import counted
from poseidon_reconciler.nomad.api import Api
from poseidon_reconciler.nomad.stream import EventStream
from poseidon_reconciler.nomad.transport import Transport
from poseidon_reconciler.policy import os_reason
from poseidon_reconciler.recording.files import RecordingFiles
from poseidon_reconciler.recording.recorder import Recorder

_UNITS: Final = {"KB": 10**3, "MB": 10**6, "GB": 10**9}
_SIZE: Final = re.compile(r"(\d+)\s*(KB|MB|GB)", re.IGNORECASE)
_CLOSE_S: Final = 30.0


def record(options: argparse.Namespace) -> int:
    """Runs the command; returns 1 if the recording could not be written.

    Raises:
        UsageError: the configuration or an option is wrong, or the cluster cannot be followed with it.
    """
    settings = load_settings(options.config, read_files=True)
    files = RecordingFiles(
        options.out,
        max_bytes=_size_option("--max-size", options.max_size),
        max_age_s=duration_option("--max-age", options.max_age),
        keep=options.keep,
    )
    if options.keep < 1:
        raise UsageError(f"--keep: {options.keep} is not 1 or more")
    return asyncio.run(_record(settings, files, options.out))


async def _record(settings: Settings, files: RecordingFiles, path: Path) -> int:
    loop = asyncio.get_running_loop()
    recorder = Recorder(files, name=str(path), on_problem=lambda: loop.call_soon_threadsafe(recording.stop))
    connection = connection_of(settings)
    recording = Recording(
        recorder,
        EventStream(connection),
        Api(Transport(connection)),
        address=settings.nomad.address,
        resync_interval_s=settings.nomad.resync_interval_s,
        note=_note,
    )
    try:
        recorder.start()
    except OSError as error:
        raise UsageError(f"--out: {path}: {os_reason(error)}") from None
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, recording.stop)
    _note("started", f"{settings.nomad.address}, namespace {settings.nomad.namespace}, to {path}")
    try:
        await recording.run()
    except StartError as error:
        raise UsageError(str(error)) from None
    finally:
        whole = await asyncio.to_thread(recorder.close, _CLOSE_S)
    print(_summary(recording, recorder, files))
    if not whole:
        print(recorder.problem or f"{path}: not all of it could be written in {_CLOSE_S:g} s", file=sys.stderr)
    return 0 if whole else 1


def _summary(recording: Recording, recorder: Recorder, files: RecordingFiles) -> str:
    lines, snapshots = counted(recorder.frames, "line"), counted(recorder.snapshots, "snapshot")
    parts = [
        f"{lines} and {snapshots} over {counted(recording.connections, 'connection')}",
        f"{files.bytes_written / 1e6:.1f} MB in {counted(files.files, 'file')}",
    ]
    if recorder.dropped:
        parts.append(f"{recorder.dropped} dropped because the disk was too slow")
    if recorder.unreadable:
        parts.append(f"{recorder.unreadable} that could not be read")
    return "; ".join(parts)


def _size_option(name: str, text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    size = int(match[1]) * _UNITS[match[2].upper()] if match is not None else 0
    if not size:
        raise UsageError(f"{name}: {text!r} is not a size such as 100MB")
    return size


def _note(event: str, detail: str) -> None:
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    print(printable(f"{at} {event} {detail}"), file=sys.stderr, flush=True)
