"""When a demo is over: the pools are back and stay so, or nothing happens any more, or it takes too long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from poseidon_reconciler.app.demo.truth import Truth
from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.listening import listen

# Longer than an agent that is back may take until its first heartbeat, which can end jobs once more.
_CALM_S: Final = 15.0
# Without anybody who repairs, nothing changes any more after so long.
_STILL_S: Final = 40.0


class Ending:
    """Watches a cluster for the end of its story; `steps_end_at` tells when the failure has done its last step."""

    def __init__(
        self, cluster: Cluster, truth: Truth, steps_end_at: Callable[[], float], *, repaired: bool, limit_s: float
    ) -> None:
        """`repaired`: whether somebody repairs, so that it may go on after a long silence.

        `limit_s`: how long it may take after the last step.
        """
        self._cluster = cluster
        self._truth = truth
        self._steps_end_at = steps_end_at
        self._repaired = repaired
        self._limit_s = limit_s
        self._full_since: float | None = None
        self._changed_at = cluster.now
        listen(cluster, lambda _: self._note())

    def _note(self) -> None:
        now = self._cluster.now
        if not self._truth.all_full:
            self._full_since = None
        elif self._full_since is None:
            self._full_since = now
        self._changed_at = now

    def is_over(self, *, under_way: bool) -> bool:
        """Whether it is over; `under_way`: whether somebody is about to do something."""
        now, end = self._cluster.now, self._steps_end_at()
        if now < end:
            return False
        if self._full_since is not None and now - max(self._full_since, end) >= _CALM_S and not under_way:
            return True
        if not self._repaired and now - max(self._changed_at, end) >= _STILL_S and not under_way:
            return True
        return now - end >= self._limit_s

    def full_after(self, at: float) -> float | None:
        """How long after a time all pools were full for good, in seconds; negative if before; None if they are not."""
        return self._full_since - at if self._full_since is not None else None
