"""Faults that a test or a simulation injects into the embedded cluster's server, per path.

They stand for what networks, proxies and servers do to a client: answers that are late, wrong or lost, reads that are
stale, and streams that end in every way that was seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from poseidon_reconciler.twin.state import Snapshot


class Stale(Struct, frozen=True):
    """Reads are answered by these tables; `admitted` says whether the headers tell so."""

    tables: Snapshot
    admitted: bool = True
    last_contact_ms: int = 60_000


class StreamFault(Struct, frozen=True):
    """How a stream goes wrong after `after_frames` lines of events.

    `cut`: in the middle of a line; `text`: that text, then the end; `eof`: a plain end; `oversized`: one line of
    `size` bytes, then on; `garbage`: a line that is no JSON, then on; `silence`: nothing any more, no heartbeats
    either.
    """

    kind: str
    after_frames: int = 0
    text: str = ""
    size: int = 1 << 20


class Fault(Struct):
    """One fault on requests whose method and path match; `times` is how often it still happens (`None`: for ever).

    `lose`: the answer is lost `before` or `after` the request was carried out. `status` answers instead of the
    cluster.
    """

    path: str
    method: str = ""
    times: int | None = None
    delay_s: float = 0.0
    status: int = 0
    text: str = ""
    lose: str = ""
    stale: Stale | None = None
    stream: StreamFault | None = None
    skip: int = 0
    hits: int = 0

    def matches(self, method: str, path: str) -> bool:
        """Whether this fault is meant for a request."""
        meant = self.times is None or self.times > 0
        return meant and self.method in {"", method} and re.fullmatch(self.path, path) is not None


class Faults:
    """The faults in force, in the order in which they were added; the first that matches a request happens to it."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []

    def __iter__(self) -> Iterator[Fault]:
        return iter(self._faults)

    def add(self, fault: Fault) -> Fault:
        """Puts a fault in force; `path` is a regular expression for the whole path."""
        self._faults.append(fault)
        return fault

    def remove(self, fault: Fault) -> None:
        """Ends a fault."""
        self._faults = [other for other in self._faults if other is not fault]

    def clear(self) -> None:
        """Ends all faults."""
        self._faults.clear()

    def take(self, method: str, path: str) -> Fault | None:
        """The fault that happens to a request, if any; it counts as having happened."""
        for fault in self._faults:
            if not fault.matches(method, path):
                continue
            if fault.skip > 0:
                fault.skip -= 1
                continue
            fault.hits += 1
            if fault.times is not None:
                fault.times -= 1
            return fault
        return None
