"""`replay`: recordings in, their story out, for people, as JSON, as a page and as a journal."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import orjson

from poseidon_reconciler.app.errors import UsageError
from poseidon_reconciler.app.settings import duration_option, load_settings
from poseidon_reconciler.core.journal import Journal
from poseidon_reconciler.core.reconciler import Step
from poseidon_reconciler.policy import os_reason
from poseidon_reconciler.recording.document import story_document
from poseidon_reconciler.recording.reader import RecordingError, RecordingReader
from poseidon_reconciler.recording.replay import Replay

# Below this a replay is over before a progress bar could be read.
_PROGRESS_FROM_BYTES = 8 * 1024 * 1024


def replay(options: argparse.Namespace) -> int:
    """Runs the command.

    Raises:
        UsageError: the configuration, an option or a file cannot be used.
    """
    _check_outputs(options)
    policy = load_settings(options.config, read_files=False).policy()
    settle_s = duration_option("--settle", options.settle)
    with ExitStack() as stack:
        on_step = stack.enter_context(_journal(options.journal)) if options.journal else None
        on_bytes = stack.enter_context(_progress(options.files))
        try:
            reader = RecordingReader(options.files, on_bytes)
            # Whoever names another configuration wants to see what that would have decided.
            story = Replay(policy, on_step, other_policies=options.config is None).run(reader, settle_s)
        except RecordingError as error:
            raise UsageError(str(error)) from None
    for warning in reader.warnings:
        print(warning, file=sys.stderr)
    if options.report:
        from poseidon_reconciler.recording.report import render_report

        _write(options.report, render_report(story, [path.name for path in options.files]).encode())
    if options.json:
        sys.stdout.buffer.write(orjson.dumps(story_document(story), option=orjson.OPT_INDENT_2) + b"\n")
    else:
        from poseidon_reconciler.recording.terminal import print_story

        print_story(story)
    return 0


def _check_outputs(options: argparse.Namespace) -> None:
    """Refuses to write over a recording, or two things into one file."""
    taken = {path.resolve() for path in options.files}
    for name, path in (("--report", options.report), ("--journal", options.journal)):
        if path is None:
            continue
        if path.resolve() in taken:
            raise UsageError(f"{name}: {path} is read or written already: name another file")
        taken.add(path.resolve())


@contextmanager
def _journal(path: Path) -> Iterator[Callable[[Step], None]]:
    """Writes a journal while a replay runs."""
    journal = Journal()
    try:
        with path.open("wb") as file:

            def write(step: Step) -> None:
                line = journal.line(step)
                if line is not None:
                    file.write(line + b"\n")

            yield write
    except OSError as error:
        raise UsageError(f"{path}: {os_reason(error)}") from None


@contextmanager
def _progress(paths: list[Path]) -> Iterator[Callable[[int], None] | None]:
    """Shows on a terminal how much of the files was read, where that takes long enough to wonder."""
    total = sum(path.stat().st_size for path in paths if path.is_file())
    if total < _PROGRESS_FROM_BYTES or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("replaying", total=total)
        yield lambda number: progress.advance(task, number)


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise UsageError(f"{path}: {os_reason(error)}") from None
