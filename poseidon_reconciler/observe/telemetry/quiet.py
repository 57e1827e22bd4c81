"""What the SDK logs about its own troubles: a line now and then, instead of several for each export that fails.

A collector that is away must not fill the log of a program that needs none. What is logged here is not exported, so
that a failure to export never leads to more of what cannot be exported.
"""

from __future__ import annotations

import logging
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

_EACH_S: Final = 300.0
_KEPT: Final = 8
_SHOWN_CHARACTERS: Final = 200
# What follows a question mark in a URL may be a key.
_QUERY: Final = re.compile(r"\?\S+")
_ADDRESS: Final = re.compile(r"<[^<>]* object at 0x[0-9a-f]+>:? ?")


class Quiet(logging.Handler):
    """Takes over all that OpenTelemetry's loggers say; `take` gives out what is worth telling, on any thread."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.WARNING)
        self._monotonic = monotonic
        self._lines: deque[str] = deque(maxlen=_KEPT)
        self._next_at = float("-inf")
        self._left_out = 0
        self._logger = logging.getLogger("opentelemetry")

    def install(self) -> None:
        self._logger.propagate = False
        self._logger.addHandler(self)

    def uninstall(self) -> None:
        self._logger.removeHandler(self)
        # Another may have come before it, or after.
        self._logger.propagate = not any(isinstance(handler, Quiet) for handler in self._logger.handlers)

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps a record's line if none was kept for a while."""
        now = self._monotonic()
        if now < self._next_at:
            self._left_out += 1
            return
        self._next_at = now + _EACH_S
        left_out, self._left_out = self._left_out, 0
        more = f" ({left_out} more since the last of these lines)" if left_out else ""
        self._lines.append(_in_one_line(record) + more)

    def take(self) -> Iterator[str]:
        """Takes out what was kept."""
        while self._lines:
            yield self._lines.popleft()


def _in_one_line(record: logging.LogRecord) -> str:
    try:
        text = record.getMessage()
    except (TypeError, ValueError):
        text = str(record.msg)
    text = _ADDRESS.sub("", _QUERY.sub("?…", " ".join(text.split())))
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"
