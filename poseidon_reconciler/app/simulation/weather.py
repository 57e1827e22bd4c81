"""The network between one reconciler and its servers: how long things take, and what goes wrong with them.

A trouble is something that may happen to requests or to the stream for a while. How often it does is drawn for each
request anew, so that a course of events which is cut short stays the same up to there.
"""

from __future__ import annotations

from random import Random
from typing import Final, Literal

from msgspec import Struct

from poseidon_reconciler.app.simulation.endpoint import Tables
from poseidon_reconciler.nomad.transport import Request

TroubleKind = Literal[
    "refused",  # no connection: nothing was sent
    "error",  # an error status in place of an answer, and nothing was done
    "error-after",  # an error status although it was done
    "lost-before",  # no answer, and nothing was done
    "lost-after",  # no answer although it was done
    "slow",  # it takes long to be done, or to be answered
    "garbled",  # an answer that is none of Nomad's
    "stale",  # reads of what was some time ago, from a server that says so
    "old",  # the same, from a server that does not know
    "lag",  # the stream comes late
]

# How long a request waits for its answer before it is given up.
PATIENCE_S: Final = 5.0
_ERRORS: Final = (
    (500, b"rpc error: EOF"),
    (500, b"No cluster leader"),
    (503, b"upstream connect error"),
    (429, b"Too many requests"),
    (502, b"<html><h1>502 Bad Gateway</h1></html>"),
    (404, b"<html><h1>404 Not Found</h1></html>"),
)
_GARBLED: Final = ((200, b"<html>Welcome</html>"), (200, b'[{"ID":"10-'), (404, b"page not found here"))


class Trouble(Struct, eq=False):
    """Something that happens with that `chance` to each request; `delay_s` bounds how late it makes things."""

    kind: TroubleKind
    chance: float = 1.0
    delay_s: float = 0.0
    tables: Tables | None = None


class Fate(Struct):
    """What becomes of one request.

    Attributes:
        out_s, back_s: how long the request and its answer are on their way.
        reaches: whether it is carried out; if not, `status` and `text` answer in its place, or nobody does.
        answered: whether the asker hears anything of it; if not, it gives up after `given_up_s`.
        survives: whether it still arrives if the asker dies on the way.
    """

    out_s: float
    back_s: float
    reaches: bool = True
    answered: bool = True
    given_up_s: float = PATIENCE_S
    refused: bool = False
    status: int = 0
    text: bytes = b""
    tables: Tables | None = None
    survives: bool = True


class Weather:
    """The network of one reconciler. `entry` is the server that it asks."""

    def __init__(self, rng: Random, entry: str) -> None:
        self.entry = entry
        self.troubles: list[Trouble] = []
        self._rng = rng
        self._hop_s = rng.choice((0.0005, 0.002, 0.01))

    def begin(self, trouble: Trouble) -> None:
        self.troubles.append(trouble)

    def end(self, trouble: Trouble) -> None:
        self.troubles.remove(trouble)

    @property
    def lag_s(self) -> float:
        """How late the stream is now, in seconds."""
        return self._hop_s + max((t.delay_s for t in self.troubles if t.kind == "lag"), default=0.0)

    def connects(self) -> bool:
        """Whether a new connection can be made now."""
        return not any(t.kind == "refused" and self._rng.random() < t.chance for t in self.troubles)

    def fate_of(self, request: Request) -> Fate:
        """What becomes of a request that is sent now."""
        rng = self._rng
        fate = Fate(self._hop_s * rng.uniform(0.5, 2.0), self._hop_s * rng.uniform(0.5, 2.0))
        fate.survives = rng.random() < 0.7
        for trouble in self.troubles:
            if rng.random() < trouble.chance:
                _strike(fate, trouble, request, rng)
        return fate


def _strike(fate: Fate, trouble: Trouble, request: Request, rng: Random) -> None:
    match trouble.kind:
        case "refused":
            fate.reaches, fate.refused = False, True
        case "error" | "error-after":
            fate.reaches = trouble.kind == "error-after"
            # Only what may mean anything can be said of what was done.
            fate.status, fate.text = rng.choice(_ERRORS if not fate.reaches else _ERRORS[:1])
        case "garbled":
            fate.status, fate.text = rng.choice(_GARBLED)
        case "lost-before" | "lost-after":
            fate.reaches, fate.answered = trouble.kind == "lost-after", False
            fate.given_up_s = rng.choice((0.1, PATIENCE_S))
        case "slow":
            slow_s = trouble.delay_s * rng.random()
            fate.out_s, fate.back_s = (slow_s, 0.0) if rng.random() < 0.5 else (0.0, slow_s)
        case "stale" | "old" if request.method == "get":
            fate.tables = trouble.tables
