"""What may stand in a line: no secret, nothing that steers a terminal or looks like another line, nothing endless.

Much of what is logged is other people's text: job ids, messages of servers and libraries. All of it is made harmless
here, in one place, whoever logs it and however the line is written.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import MutableMapping
from typing import Any, Final

from poseidon_reconciler.core.printable import printable

HIDDEN: Final = "***"
MAX_CHARS: Final = 2000
_MAX_MEMBERS: Final = 50
_MAX_TRACE_LINES: Final = 30

_SECRET_NAME: Final = re.compile(
    r"token|secret|passw|authorization|cookie|credential|api_?key|private_?key|signature|payload|environ\b|^env$",
    re.IGNORECASE,
)
# A secret in the midst of a text, such as a URL's query or a header that a library shows.
_SECRET_IN_TEXT: Final = re.compile(
    r"""(?P<name>\b[\w-]*(?:token|secret|password|passwd|authorization|api[_-]?key)["']?\s*[=:]\s*["']?)
        (?:(?:bearer|basic)\s+)?[^\s"'&,;]+""",
    re.IGNORECASE | re.VERBOSE,
)

EventDict = MutableMapping[str, Any]


def clean_fields(_: object, __: str, fields: EventDict) -> EventDict:
    """Makes every field harmless; those without a value are left out. A processor of structlog."""
    return {
        name: HIDDEN if _SECRET_NAME.search(name) else _clean(value)
        for name, value in fields.items()
        if value is not None
    }


def trace_lines(_: object, __: str, fields: EventDict) -> EventDict:
    """An exception as the lines that Python prints, without the values of variables. A processor of structlog."""
    info = fields.pop("exc_info", None)
    if isinstance(info, BaseException):
        info = type(info), info, info.__traceback__
    if isinstance(info, tuple) and info[0] is not None:
        lines = "".join(traceback.format_exception(*info)).splitlines()
        fields["exception"] = lines[-_MAX_TRACE_LINES:]
    return fields


def _clean(value: object) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return _clean_text(value)
    if isinstance(value, list | tuple | set | frozenset):
        return [_clean(member) for member in list(value)[:_MAX_MEMBERS]]
    # A payload, an error, an object of a library: nobody has looked at what its text shows.
    return f"<{type(value).__name__}>"


def _clean_text(text: str) -> str:
    cut = text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}…"
    return printable(_SECRET_IN_TEXT.sub(rf"\g<name>{HIDDEN}", cut))
