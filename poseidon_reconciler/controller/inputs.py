"""All that the loop takes in: from the stream, from the lists, of actions that ended, and from people."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from poseidon_reconciler.core.events import Snapshot
from poseidon_reconciler.core.ledger import Action, ActionOutcome
from poseidon_reconciler.core.lines import Line
from poseidon_reconciler.core.pauses import Pause
from poseidon_reconciler.policy import Policy


@dataclass(frozen=True, slots=True)
class StreamOpened:
    """A connection of the stream is open: all that it brings from now on is kept until the lists are read."""

    at: float


@dataclass(frozen=True, slots=True)
class StreamFrame:
    """A line with events; `data` are its bytes as they were sent."""

    line: Line
    at: float
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class StreamDoubt:
    """Something was missed (a gap, a line that could not be read): only lists can tell what."""

    reason: str
    at: float


@dataclass(frozen=True, slots=True)
class StreamClosed:
    reason: str
    at: float


@dataclass(frozen=True, slots=True)
class ListsRead:
    """The lists; `superseded`: how many of the lines that were kept had come before they were asked for."""

    generation: int
    snapshot: Snapshot
    problems: str
    superseded: int = 0


@dataclass(frozen=True, slots=True)
class ActionEnded:
    """An action has an outcome."""

    action: Action
    outcome: ActionOutcome


@dataclass(frozen=True, slots=True)
class PolicyChanged:
    """The operator has other wishes from now on."""

    policy: Policy


@dataclass(frozen=True, slots=True)
class Resumed:
    """A pause was lifted: that of an environment, or the one of everything."""

    environment_id: str | None


@dataclass(frozen=True, slots=True)
class Ping:
    """Somebody wants to know whether the loop turns."""

    answer: Callable[[], None]


@dataclass(frozen=True, slots=True)
class ProtectionChanged:
    """The servers end living jobs, or they do not: whether protecting those at risk has a use."""

    needed: bool


Fed = StreamOpened | StreamFrame | Snapshot | ActionEnded | Pause | Resumed | PolicyChanged | ProtectionChanged | None
Tape = Callable[[Fed, float], None]
"""Is told all that the core is fed, right before it is, and with what time: that leads another core to the same
decisions. None is the time alone. Must not block and must not raise.
"""

_OfStream = StreamOpened | StreamFrame | StreamDoubt | StreamClosed
Input = _OfStream | Pause | Resumed | PolicyChanged | ProtectionChanged | Ping | ListsRead | ActionEnded
