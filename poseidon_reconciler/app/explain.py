"""`explain`: why one job or environment is judged as it is, by a recording or by a reconciler that runs."""

from __future__ import annotations

import argparse
import sys

import msgspec
import orjson

from poseidon_reconciler.app.errors import UsageError
from poseidon_reconciler.app.settings import duration_option, load_settings, local_url
from poseidon_reconciler.core.explanation import Explanation
from poseidon_reconciler.core.subjects import UnknownSubjectError
from poseidon_reconciler.core.subjects import explain as explain_subject
from poseidon_reconciler.recording.reader import RecordingError, RecordingReader
from poseidon_reconciler.recording.replay import Replay


def explain(options: argparse.Namespace) -> int:
    """Runs the command.

    Raises:
        UsageError: the configuration, an option or the recording cannot be used, nobody answers, or nothing is known
            of the subject.
    """
    explanation = _by_recording(options) if options.recording is not None else _by_asking(options)
    if options.json:
        sys.stdout.buffer.write(orjson.dumps(msgspec.to_builtins(explanation), option=orjson.OPT_INDENT_2) + b"\n")
        return 0
    from poseidon_reconciler.recording.terminal import print_explanation

    print_explanation(explanation, meanwhile="only planned" if options.recording is not None else "under way")
    return 0


def _by_recording(options: argparse.Namespace) -> Explanation:
    policy = load_settings(options.config, read_files=False).policy()
    settle_s = duration_option("--settle", options.settle)
    replay = Replay(policy, other_policies=options.config is None)
    try:
        replay.run(RecordingReader([options.recording]), settle_s)
    except RecordingError as error:
        raise UsageError(str(error)) from None
    try:
        return explain_subject(replay.core, options.subject)
    except UnknownSubjectError as error:
        hint = f"; did you mean {error.near[0]}?" if error.near else ""
        raise UsageError(f"{options.recording}: {error}{hint}") from None


def _by_asking(options: argparse.Namespace) -> Explanation:
    from poseidon_reconciler.app.asking import ask_explanation

    url = options.url if options.url is not None else local_url(options.config)
    return ask_explanation(url, options.subject)
