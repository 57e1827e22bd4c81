"""What comes out at the other end: JSON or a line for eyes, from us or from a library, whatever was put in."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext

from poseidon_reconciler.config.observing import LogSettings
from poseidon_reconciler.core.ledger import Action, ActionOutcome
from poseidon_reconciler.observe.logs.observer import LogObserver
from poseidon_reconciler.observe.logs.pipeline import Logs

HOSTILE = '10-x\n{"level":"error","event":"forged"}\r\x1b[2J\x9b31m\u202e\ud800\x00'
ACTION = Action(1.0, "create-runner", "10", "10-new", "replaces a runner that is lost", "10-old")


Lines = Callable[..., list[str]]


def test_a_message_is_one_object_with_its_name_first(lines: Lines) -> None:
    (line,) = lines(lambda observer: observer.noted("lists-read", "2 environments, 40 jobs"))
    told = json.loads(line)

    assert list(told) == ["time", "level", "event", "detail"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", told.pop("time"))
    assert told == {"level": "info", "event": "lists-read", "detail": "2 environments, 40 jobs"}


def test_of_an_action_ids_are_fields(lines: Lines) -> None:
    (line,) = lines(lambda observer: observer.acted(ACTION, ActionOutcome("not-done", "403 Permission denied")))
    told = json.loads(line)

    del told["time"]
    assert told == {
        "level": "warning",
        "event": "action-failed",
        "environment_id": "10",
        "job_id": "10-new",
        "action": "create-runner",
        "outcome": "not-done",
        "detail": "403 Permission denied",
    }


def test_the_environment_that_a_note_is_about_is_a_field(lines: Lines) -> None:
    told = [
        json.loads(line)
        for line in lines(
            lambda observer: (
                observer.noted("paused", "environment 10: agents are upgraded"),
                observer.noted("resumed", "environment 10"),
                observer.noted("resumed", "everything"),
            )
        )
    ]

    assert [(each.get("environment_id"), each.get("detail")) for each in told] == [
        ("10", "agents are upgraded"),
        ("10", None),
        (None, "everything"),
    ]


@pytest.mark.parametrize("format_", ["json", "console"])
def test_hostile_text_makes_no_other_line_and_steers_no_terminal(lines: Lines, format_: str) -> None:
    def speak(observer: LogObserver) -> None:
        observer.noted("stream-closed", HOSTILE)
        observer.acted(ACTION, ActionOutcome("unknown", HOSTILE))
        # What pytest itself keeps of a log must be sendable between its processes.
        logging.getLogger("urllib3").warning("says %s", HOSTILE.replace("\ud800", ""))

    written = lines(speak, format=format_)

    assert len(written) == 3
    assert all(line.isprintable() for line in written)
    if format_ == "json":
        assert [json.loads(line)["event"] for line in written] == ["stream-closed", "action-unknown", "library"]


def test_the_line_for_eyes_has_the_same_fields(lines: Lines) -> None:
    (line,) = lines(lambda observer: observer.acted(ACTION, ActionOutcome("done", "registered")), format="console")

    assert re.match(r"\d{4}-\S+Z \[info +\] action-done +environment_id=10 job_id=10-new ", line)
    assert line.endswith("detail=registered")


@pytest.mark.parametrize(
    ("level", "told"),
    [("debug", {"lists-read", "stream-closed"}), ("warning", {"stream-closed"}), ("error", set[str]())],
)
def test_what_matters_less_than_wanted_is_not_written(lines: Lines, level: str, told: set[str]) -> None:
    written = lines(
        lambda observer: (observer.noted("lists-read", "x"), observer.noted("stream-closed", "x")), level=level
    )

    assert {json.loads(line)["event"] for line in written} == told


@pytest.mark.parametrize("name", ["aiohttp.access", "asyncio", "opentelemetry.sdk", "urllib3.connectionpool"])
def test_libraries_speak_through_the_same_lines_from_warnings_on(lines: Lines, name: str) -> None:
    def speak(_: object) -> None:
        logging.getLogger(name).info("chatter")
        logging.getLogger(name).warning("Retrying %s", "/v1/jobs?token=s3cr3t")

    (line,) = lines(speak, level="debug")
    told = json.loads(line)

    assert (told["event"], told["level"], told["logger"]) == ("library", "warning", name)
    assert told["detail"] == "Retrying /v1/jobs?token=***"


def test_an_exception_that_nobody_caught_is_one_line(lines: Lines) -> None:
    async def fail() -> None:
        raise ValueError("two\nlines")

    async def main() -> None:
        asyncio.get_running_loop().call_exception_handler(
            {"message": "Task exception was never retrieved", "exception": await _raised(fail)}
        )

    (line,) = lines(lambda _: asyncio.run(main()))
    told = json.loads(line)

    assert (told["level"], told["logger"]) == ("error", "asyncio")
    assert told["exception"][-2:] == ["ValueError: two", "lines"]


async def _raised(coroutine: Callable[[], Any]) -> BaseException | None:
    return (await asyncio.gather(coroutine(), return_exceptions=True))[0]


def test_warnings_of_python_go_the_same_way(lines: Lines) -> None:
    def warn(_: object) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = logging._showwarning  # type: ignore[attr-defined] # pytest has its own
            warnings.warn("old", DeprecationWarning, stacklevel=1)

    (line,) = lines(warn)

    assert json.loads(line)["logger"] == "py.warnings"


def test_a_line_tells_the_trace_in_which_it_was_written(lines: Lines) -> None:
    span = NonRecordingSpan(SpanContext(trace_id=0xABC, span_id=0xDEF, is_remote=False))

    def tell(observer: LogObserver) -> None:
        with trace.use_span(span):
            observer.noted("lists-read", "inside")
        observer.noted("lists-read", "outside")

    inside, outside = map(json.loads, lines(tell))

    assert (inside["trace_id"], inside["span_id"]) == (f"{0xABC:032x}", f"{0xDEF:016x}")
    assert "trace_id" not in outside


def test_afterwards_everything_is_as_before(lines: Lines) -> None:
    root, own = logging.getLogger(), logging.getLogger("poseidon_reconciler")
    before = (root.level, own.level, list(root.handlers))
    lines(lambda _: None, level="debug")

    assert (root.level, own.level, list(root.handlers)) == before


def test_at_a_terminal_lines_are_for_eyes_and_elsewhere_for_machines() -> None:
    parent, child = os.openpty()
    with Logs(LogSettings(), child) as logs:
        logs.observer.noted("lists-read", "x")
    seen = os.read(parent, 4096).decode()
    for fd in (parent, child):
        os.close(fd)

    assert "lists-read" in seen
    assert not seen.startswith("{")
