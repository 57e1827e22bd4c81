"""What a person did wrong, told apart from what the program does wrong."""

from __future__ import annotations


class UsageError(Exception):
    """Bad usage, configuration or input. Each line of the text is a complete message; exit status 2."""
