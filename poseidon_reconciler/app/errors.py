"""What a person did wrong, told apart from what the program does wrong."""

from __future__ import annotations

from typing import Final

NOBODY_THERE: Final = "nobody answers there; is `run` at work, with this http.listen (--config, --url)?"


class UsageError(Exception):
    """Bad usage, configuration or input. Each line of the text is a complete message; exit status 2."""
