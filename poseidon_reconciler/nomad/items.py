"""What the event stream gives, and the names of all the ways in which a connection of it can end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from poseidon_reconciler.core.lines import Line

Ending = Literal[
    "eof",  # between two lines
    "cut-line",  # in the middle of a line
    "cut",  # in the middle of what HTTP promised
    "dropped",  # we were too slow: the server's buffer has moved on
    "resubscribe",  # the token or its policies were changed
    "upstream-eof",  # the server behind a client agent went away
    "nothing",  # 200 and then the end: since 1.11.2 also for a token that may not read
    "not-nomad",  # 200 and then no line of an event stream, or no such path
    "silent",  # no byte, not even a heartbeat
    "oversized",  # a line beyond all bounds
    "restarted",  # we wanted it to end
    "denied",
    "bad-request",
    "refused",  # any other status than 200
    "tls",  # a certificate that is not trusted, or no TLS at all
    "unreachable",
    "credentials",  # the token's or a certificate's file cannot be read
]


@dataclass(frozen=True, slots=True)
class Opened:
    """A connection is open, though nothing was heard yet. `resumed_at`: the index that was asked for."""

    resumed_at: int | None
    at: float


@dataclass(frozen=True, slots=True)
class FrameReceived:
    """A line with events, and its bytes as they were sent. Some events may be unreadable (`line.faults`)."""

    line: Line
    received_at: float
    data: bytes


@dataclass(frozen=True, slots=True)
class Heartbeat:
    received_at: float


@dataclass(frozen=True, slots=True)
class MalformedLine:
    """A line that says nothing that can be used; what it would have said only lists can tell."""

    prefix: str
    received_at: float


@dataclass(frozen=True, slots=True)
class Gap:
    """The stream did not go on where it had been: events in between were missed, or the indexes went back."""

    expected: int
    first: int
    at: float


@dataclass(frozen=True, slots=True)
class Closed:
    """The connection has ended, or there was none. The next attempt is made after `retry_in_s`."""

    kind: Ending
    reason: str
    at: float
    retry_in_s: float


Item = Opened | FrameReceived | Heartbeat | MalformedLine | Gap | Closed

# What servers append to a stream that they end, without a newline.
_TAILS: Final[tuple[tuple[str, Ending], ...]] = (
    ("event dropped from buffer", "dropped"),
    ("subscription closed by server, client should resubscribe", "resubscribe"),
    ("Permission denied", "denied"),
    ("EOF", "upstream-eof"),
)
_DENIED: Final = ("Permission denied", "ACL token not found", "ACL token expired", "ACL token is invalid")


def ending_of_tail(text: str) -> tuple[Ending, str]:
    """What an end in the middle of a line means by what stands there, and in words: those of the server, not of the
    line, which may be half a secret.
    """
    for tail, ending in _TAILS:
        if text.rstrip().endswith(tail):
            return ending, tail
    return "cut-line", "the stream ended in the middle of a line"


def ending_of_status(status: int, text: str) -> Ending:
    """What an answer other than 200 means. Servers before 1.11 refuse a token with 500; 404 is no Nomad, or one that is
    too old to have an event stream.
    """
    if status in (401, 403) or text.strip().endswith(_DENIED):
        return "denied"
    if status in (404, 405):
        return "not-nomad"
    return "bad-request" if status == 400 else "refused"
