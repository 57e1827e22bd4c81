"""How fast, and when not at all: rates, and the hold while many things die together.

Repairing in the middle of an outage is how one becomes a second outage: half of what looks dead comes back by itself,
and the rest cannot start on agents that are busy returning.
"""

from __future__ import annotations

import zlib
from typing import Final

from poseidon_reconciler.core.wording import counted
from poseidon_reconciler.policy import PacePolicy, format_duration

_LEAST_LOSSES_OF_A_STORM: Final = 3
_MOST_JITTER: Final = 0.25


class RateLimit:
    """At most `rate` takings a second in the long run, and at most one second's worth of them at once.

    Kept as the time at which the next taking would be due if they came evenly (the generic cell rate algorithm),
    because "may I" and "when may I" must agree to the last bit: who waits until `next_at` must not have to wait again.
    """

    def __init__(self, rate: float) -> None:
        self._due = self._taken_at = 0.0
        self._allow(rate)

    def _allow(self, rate: float) -> None:
        self._interval_s = 1 / rate
        self._burst_s = max(0.0, 1 - self._interval_s)

    def change(self, rate: float) -> None:
        """Allows another rate; what was taken before weighs as if it had been taken at this one."""
        ahead = (self._due - self._taken_at) / self._interval_s
        self._allow(rate)
        self._due = self._taken_at + ahead * self._interval_s

    def take(self, now: float) -> bool:
        """Takes one if it may be taken now."""
        if now < self.next_at():
            return False
        self._due = max(self._due, now) + self._interval_s
        self._taken_at = now
        return True

    def put_off(self, share: float) -> None:
        """Makes the interval after the last taking longer, by a share of it."""
        self._due += share * self._interval_s

    def next_at(self) -> float:
        """From when on the next can be taken."""
        return self._due - self._burst_s


def jitter(name: str) -> float:
    """By what share the interval after something of that name is lengthened, at most a quarter.

    Reconcilers of several clusters or namespaces often share machines, a registry and the moment at which all begins:
    evenly spaced they would go on in step. It follows from the name, because the same input gives the same decisions.
    """
    return _MOST_JITTER * zlib.crc32(name.encode()) / 2**32


class Alarm:
    """When to look again: the earliest time that anybody asked for since it was cleared; None if nobody did."""

    def __init__(self) -> None:
        self.at: float | None = None

    def set(self, at: float | None) -> None:
        """Asks for a time; None asks for nothing."""
        if at is not None and (self.at is None or at < self.at):
            self.at = at

    def clear(self) -> None:
        """Forgets what was asked for."""
        self.at = None


class StormWatch:
    """Notices that many runners or nodes were lost within a short time, and when it has been quiet again.

    Attributes:
        policy: what makes a storm.
        since: when the present storm began; None while there is none.
        until: when it ends if nothing else happens; None while there is none.
        reason: what the present or the last storm began with, in words.
    """

    def __init__(self, policy: PacePolicy) -> None:
        self.since: float | None = None
        self.until: float | None = None
        self.reason = ""
        self._stirred = False
        self.policy = policy
        self._last_disturbance = 0.0
        self._runners: dict[str, float] = {}
        self._nodes: dict[str, float] = {}

    def change_policy(self, policy: PacePolicy) -> None:
        """Goes by other limits from the next update on; a storm that goes on is held for as long as these say."""
        self.policy = policy
        self._stirred = True

    def runner_lost(self, job_id: str, now: float) -> None:
        self._runners.pop(job_id, None)
        self._runners[job_id] = now
        self._last_disturbance = now
        self._stirred = True

    def node_changed(self, node_id: str, *, lost: bool, now: float) -> None:
        if lost:
            self._nodes.pop(node_id, None)
            self._nodes[node_id] = now
        self._last_disturbance = now
        self._stirred = True

    def needs_update(self, now: float) -> bool:
        """Whether anything was noted since the last update, or the present storm may be over."""
        return self._stirred or (self.until is not None and now >= self.until)

    def update(self, known_runners: int, known_nodes: int, now: float) -> None:
        """Begins, prolongs or ends a storm by what was noted and what time it is."""
        self._stirred = False
        _expire(self._runners, now - self.policy.storm_window_s)
        _expire(self._nodes, now - self.policy.storm_window_s)
        if self.since is None:
            share = self.policy.storm_share
            many_runners = len(self._runners) >= max(_LEAST_LOSSES_OF_A_STORM, share * known_runners)
            many_nodes = len(self._nodes) >= max(1, share * known_nodes)
            if not many_runners and not many_nodes:
                return
            self.since = now
            lost = ((self._runners, known_runners, "runner"), (self._nodes, known_nodes, "node"))
            shares = [f"{len(those)} of {counted(known, noun)}" for those, known, noun in lost if those]
            self.reason = f"{' and '.join(shares)} lost within {format_duration(self.policy.storm_window_s)}"
        quiet = self._last_disturbance + self.policy.storm_settle_s
        self.until = min(quiet, self.since + self.policy.storm_max_hold_s)
        if now >= self.until:
            self.since = self.until = None
            self._runners.clear()
            self._nodes.clear()


def _expire(times: dict[str, float], before: float) -> None:
    """Drops the entries that are older; the oldest stand first."""
    while times:
        first = next(iter(times))
        if times[first] >= before:
            return
        del times[first]
