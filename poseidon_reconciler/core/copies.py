"""The copies of a job that Nomad has lost sight of: which there may be, and by when they have ended.

A machine that cannot be reached goes on with what it was last told to run. For how long that matters, is what the
disconnect policies differ in.
"""

from __future__ import annotations

from msgspec import Struct

from poseidon_reconciler.core.records import UNREACHABLE, Allocation, Job, Node
from poseidon_reconciler.policy import PoolPolicy


class Copies(Struct, gc=False):
    """A job and its current allocation, among all nodes, under its pool's policy."""

    job: Job
    current: Allocation | None
    nodes: dict[str, Node]
    policy: PoolPolicy

    def end_at(self) -> float | None:
        """By when none of them can run any more: 0 if there is none, None while only a node or an operator can tell."""
        end_at = 0.0
        for allocation in self.job.allocations.values():
            if self._is_out_of_sight(allocation):
                copy_ends_at = self._copy_ends_at(allocation)
                if copy_ends_at is None:
                    return None
                end_at = max(end_at, copy_ends_at)
        return end_at

    def _is_out_of_sight(self, allocation: Allocation) -> bool:
        """Whether a copy may run although it does not stand for the job."""
        status = allocation.data.client_status
        if status in ("lost", "unknown"):
            return True
        if status not in ("pending", "running"):
            return False
        if self._is_over or self._node_status(allocation) in UNREACHABLE:
            # An agent takes a while to end what is over, and no order to stop arrives where nobody can be reached.
            return True
        if allocation is self.current:
            return False
        # It was ordered to stop, and has not said that it did.
        return status == "running" and self.policy.disconnect_policy == "exactly"

    @property
    def _is_over(self) -> bool:
        return self.job.gone is not None or self.job.stop

    def _node_status(self, allocation: Allocation) -> str:
        node = self.nodes.get(allocation.data.node_id)
        return node.status if node is not None else ""

    def _copy_ends_at(self, allocation: Allocation) -> float | None:
        """By when a copy out of sight has ended, under the disconnect policy."""
        node = self.nodes.get(allocation.data.node_id)
        status = self._node_status(allocation)
        since = max(node.since, allocation.since) if node is not None else allocation.since
        policy = self.policy.disconnect_policy
        if policy == "exactly":
            return self._exact_end(since, status)
        if allocation is not self.current:
            return 0.0
        if policy == "leave-alone":
            unresolved = status in UNREACHABLE or status == "" or allocation.data.client_status == "unknown"
            return None if unresolved else 0.0
        if status == "down":
            return since + self.policy.lost_grace_s
        return 0.0 if status == "gone" else None

    def _exact_end(self, since: float, node_status: str) -> float | None:
        if node_status == "gone":
            return 0.0
        if self._is_over and node_status not in UNREACHABLE and node_status != "":
            # An agent that is there ends what its servers want no more, or know nothing of.
            over_at = self.job.gone_at if self.job.gone is not None else self.job.quiet_since
            return max(since, over_at) + self._ending_s
        # A node that is back has not said yet what became of the copy; it will, or be removed.
        # And a volume stays claimed for the copy, whether that runs or not, until its node or an operator tells.
        stop_after_s = self.job.stop_after_s
        if stop_after_s is None or self.job.holds_volume:
            return None
        return since + stop_after_s + self._ending_s

    @property
    def _ending_s(self) -> float:
        return self.job.kill_timeout_s + self.policy.clock_margin_s
