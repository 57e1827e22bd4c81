"""What the verdict on a job rests on: the job, its current allocation, the nodes, its pool's policy, and the time.

Most questions about it depend on a few words only (statuses, flags), and thousands of jobs share the same words.
`Facts.key` names all of them that matter, so that the tables of rules are interpreted once for each distinct key.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from msgspec import Struct

from poseidon_reconciler.core.copies import Copies
from poseidon_reconciler.core.events import DesiredTransition
from poseidon_reconciler.core.records import Allocation, Evaluation, Job, Node
from poseidon_reconciler.policy import PoolPolicy

_NO_EVALUATION: Final = (False, False, False)


class Facts(Struct, gc=False):
    """A job as it stands at `now`, with its current allocation, among all nodes, under its pool's policy."""

    job: Job
    allocation: Allocation | None
    nodes: dict[str, Node]
    policy: PoolPolicy
    now: float

    @property
    def node(self) -> Node | None:
        """The node of the current allocation."""
        return self.nodes.get(self.allocation.data.node_id) if self.allocation is not None else None

    @property
    def key(self) -> Hashable:
        """Everything that static conditions read, and no more of it than they read in each case."""
        job, a, node = self.job, self.allocation, self.node
        if job.stop or job.gone is not None:
            return job.kind, job.stop, job.gone, self.policy.disconnect_policy
        if a is None:
            return job.kind, job.status, self._evaluation_flags()
        data = a.data
        node_status, draining = (node.status, node.draining) if node is not None else ("", False)
        if a.placed:
            first = len(job.allocations) == 1 and not data.previous_allocation
            policy = self.policy.disconnect_policy
            task = a.main_task_state
            ran = a.ran, a.ran or a.restarts > 0
            return job.kind, job.used, data.client_status, task, node_status, draining, ran, first, policy
        return (
            job.kind,
            job.status,
            data.client_status,
            data.desired_status,
            node_status,
            not data.next_allocation,
            data.desired_transition is not None and is_migration(data.desired_transition),
            self._evaluation_flags() if job.live_evaluations else _NO_EVALUATION,
            self.policy.disconnect_policy,
        )

    def _evaluation_flags(self) -> tuple[bool, bool, bool]:
        pending = delayed = blocked = False
        for evaluation in self.live_evaluations:
            if evaluation.data.status == "blocked":
                blocked = True
            else:
                pending = True
                delayed = delayed or evaluation.waits_until is not None
        return pending, delayed, blocked

    @property
    def client(self) -> str:
        """The client status of the current allocation; empty without one."""
        return self.allocation.data.client_status if self.allocation is not None else ""

    @property
    def desired(self) -> str:
        return self.allocation.data.desired_status if self.allocation is not None else ""

    @property
    def placed(self) -> bool:
        return self.allocation is not None and self.allocation.placed

    @property
    def node_status(self) -> str:
        return self.node.status if self.node is not None else ""

    @property
    def live_evaluations(self) -> list[Evaluation]:
        """The evaluations that Nomad still works on. A job that it called dead later than that has none."""
        job = self.job
        since = job.modify_index if job.status == "dead" else -1
        return [e for e in job.live_evaluations.values() if e.data.modify_index >= since]

    @property
    def start_due_at(self) -> float:
        """When the current attempt to start must have succeeded."""
        a = self.allocation
        began = self.job.first_seen if a is None else a.since if a.ran else a.first_seen
        return began + self.policy.start_deadline_s

    @property
    def old_copies_end_at(self) -> float | None:
        """By when no copy can run any more that Nomad has lost sight of; see `Copies.end_at`."""
        return Copies(self.job, self.allocation, self.nodes, self.policy).end_at()


def is_migration(transition: DesiredTransition | None) -> bool:
    """Whether an allocation was ordered off its node, with or (newer servers, batch jobs) without a successor."""
    return transition is not None and bool(transition.migrate or transition.migrate_disable_placement)
