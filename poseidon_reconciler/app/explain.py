"""`explain`: why one job or environment is judged as it is."""

from __future__ import annotations

import argparse
import difflib
import sys

import msgspec
import orjson

from poseidon_reconciler.app.errors import UsageError
from poseidon_reconciler.app.settings import duration_option, load_settings
from poseidon_reconciler.core.explanation import (
    EnvironmentExplanation,
    JobExplanation,
    explain_environment,
    explain_job,
)
from poseidon_reconciler.core.reconciler import Reconciler
from poseidon_reconciler.recording.reader import RecordingError, RecordingReader
from poseidon_reconciler.recording.replay import Replay


def explain(options: argparse.Namespace) -> int:
    """Runs the command.

    Raises:
        UsageError: the configuration, an option or the recording cannot be used, or nothing is known of the subject.
    """
    policy = load_settings(options.config, read_files=False).policy()
    settle_s = duration_option("--settle", options.settle)
    replay = Replay(policy)
    try:
        replay.run(RecordingReader([options.recording]), settle_s)
    except RecordingError as error:
        raise UsageError(str(error)) from None
    explanation = _find(replay.core, options.subject, str(options.recording))
    if options.json:
        sys.stdout.buffer.write(orjson.dumps(msgspec.to_builtins(explanation), option=orjson.OPT_INDENT_2) + b"\n")
        return 0
    from poseidon_reconciler.recording.terminal import print_environment, print_job

    if isinstance(explanation, JobExplanation):
        print_job(explanation)
    else:
        print_environment(explanation)
    return 0


def _find(core: Reconciler, subject: str, recording: str) -> JobExplanation | EnvironmentExplanation:
    job = core.model.jobs.get(subject)
    if job is None and "-" in subject:
        beginning = [job for job_id, job in core.model.jobs.items() if job_id.startswith(subject)]
        if len(beginning) > 1:
            raise UsageError(f"{recording}: {len(beginning)} jobs begin with {subject!r}: give more of the id")
        job = beginning[0] if beginning else None
    explanation: JobExplanation | EnvironmentExplanation | None
    explanation = explain_job(core, job) if job is not None else explain_environment(core, subject)
    if explanation is None:
        known = [*core.diagnosis.pools, *core.diagnosis.verdicts]
        near = difflib.get_close_matches(subject, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UsageError(f"{recording}: {subject!r} is neither a job nor an environment of it{hint}")
    return explanation
