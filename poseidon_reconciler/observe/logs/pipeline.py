"""One way to stderr for all that is logged: by us as events with fields, by libraries as whatever they say."""

from __future__ import annotations

import logging
import os
import sys
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import orjson
import structlog
from opentelemetry import trace
from structlog.stdlib import BoundLogger, ProcessorFormatter, add_log_level, filter_by_level
from structlog.typing import Processor

from poseidon_reconciler.config.observing import LogSettings
from poseidon_reconciler.observe.logs.events import message
from poseidon_reconciler.observe.logs.fields import EventDict, clean_fields, trace_lines
from poseidon_reconciler.observe.logs.observer import LogObserver
from poseidon_reconciler.observe.logs.writer import LineWriter

OWN_LOGGER: Final = "poseidon_reconciler"
_FIRST: Final = ("time", "level", "event")
_EVENT_WIDTH: Final = 20
_LAST_LINES_S: Final = 2.0
# Threads of libraries may outlive us. Where nobody handles what they log, Python itself writes it to stderr, waits for
# a reader that hangs, and at the interpreter's end for who waits.
_NOBODY: Final = logging.NullHandler()


class Renderer(Protocol):
    """Makes a line of fields; the last processor of structlog."""

    def __call__(self, logger: Any, name: str, fields: EventDict, /) -> str: ...


class Logs:
    """Logging as the settings want it, as long as it is entered.

    Attributes:
        observer: tells what a reconciler does.
    """

    def __init__(self, settings: LogSettings, fd: int) -> None:
        """`fd` is the open file that the lines go to."""
        self._level = logging.getLevelNamesMapping()[settings.level.upper()]
        self._renderer = _renderer(settings, is_terminal=os.isatty(fd))
        self._fd = fd
        self._root, self._own = logging.getLogger(), logging.getLogger(OWN_LOGGER)
        self._levels_before = (self._root.level, self._own.level)
        self.observer = LogObserver(_bound_logger(self._own))

    def __enter__(self) -> Logs:
        self._writer = LineWriter(self._fd, self._dropped_line)
        self._handler = _LineHandler(self._writer, _formatter(self._renderer))
        self._root.addHandler(self._handler)
        self._root.setLevel(max(logging.WARNING, self._level))
        self._own.setLevel(self._level)
        logging.captureWarnings(capture=True)
        return self

    def __exit__(self, *_: object) -> None:
        logging.captureWarnings(capture=False)
        self._root.addHandler(_NOBODY)
        self._root.removeHandler(self._handler)
        self._root.setLevel(self._levels_before[0])
        self._own.setLevel(self._levels_before[1])
        self._writer.close(_LAST_LINES_S)

    def write(self, text: str) -> None:
        """Writes lines for people as they are, without waiting."""
        for line in text.splitlines():
            self._writer.write(line)

    def _dropped_line(self, number: int) -> str:
        name = "log-lines-dropped"
        fields: EventDict = {"event": name, "level": message(name).level_name, "count": number}
        return self._renderer(None, "", _in_order(None, "", _stamp(None, "", fields)))


class _LineHandler(logging.Handler):
    """Where the standard library's logging ends and the writer begins."""

    def __init__(self, writer: LineWriter, formatter: logging.Formatter) -> None:
        super().__init__()
        self._writer = writer
        self.setFormatter(formatter)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._writer.write(self.format(record))
        except Exception as error:  # noqa: BLE001 - no message may end the one who sends it
            print(f"a message cannot be logged: {type(error).__name__}", file=sys.stderr)  # noqa: T201


def _bound_logger(own: logging.Logger) -> BoundLogger:
    processors: list[Processor] = [filter_by_level, add_log_level, *_COMMON, ProcessorFormatter.wrap_for_formatter]
    logger: BoundLogger = structlog.wrap_logger(own, processors=processors, wrapper_class=BoundLogger)
    return logger


def _formatter(renderer: Renderer) -> ProcessorFormatter:
    return ProcessorFormatter(
        foreign_pre_chain=[add_log_level, _of_library, *_COMMON],
        processors=[ProcessorFormatter.remove_processors_meta, clean_fields, _in_order, renderer],
    )


def _renderer(settings: LogSettings, *, is_terminal: bool) -> Renderer:
    console = settings.format == "console" or (settings.format == "auto" and is_terminal)
    if not console:
        return lambda _, __, fields: orjson.dumps(dict(fields)).decode()
    colors = is_terminal and not os.environ.get("NO_COLOR")
    return structlog.dev.ConsoleRenderer(
        colors=colors, timestamp_key="time", sort_keys=False, pad_event_to=_EVENT_WIDTH
    )


def _stamp(_: object, __: str, fields: EventDict) -> EventDict:
    fields["time"] = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return fields


def _add_trace(_: object, __: str, fields: EventDict) -> EventDict:
    context = trace.get_current_span().get_span_context()
    if context.is_valid and "trace_id" not in fields:
        fields["trace_id"] = trace.format_trace_id(context.trace_id)
        fields["span_id"] = trace.format_span_id(context.span_id)
    return fields


def _of_library(_: object, __: str, fields: EventDict) -> EventDict:
    record: logging.LogRecord = fields["_record"]
    fields["logger"], fields["detail"], fields["event"] = record.name, fields["event"], "library"
    return fields


def _in_order(_: object, __: str, fields: EventDict) -> EventDict:
    """The same fields first in every line."""
    return {name: fields[name] for name in _FIRST if name in fields} | dict(fields)


_COMMON: Final = (_stamp, _add_trace, trace_lines)
