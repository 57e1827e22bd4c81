"""Requests to Nomad's API as telemetry sees them: never what was in them, nor which object they were about."""

from __future__ import annotations

from typing import NamedTuple


class Call(NamedTuple):
    """A request that was answered, or given up.

    Attributes:
        method: in capitals.
        route: the path, with `:id` in place of what tells one object from another.
        writes: whether it was to change anything.
        status: None where no answer came.
        outcome: what was concluded, in a word.
    """

    method: str
    route: str
    writes: bool
    status: int | None
    outcome: str
    duration_s: float
