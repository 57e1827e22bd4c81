"""What the rules may ask about a job: one question each, with the sentence that `explain` prints for it.

A condition is a plain function of `Facts`. Its text says what is true when it holds, so that a verdict can be read as
the conjunction of its sentences, and a rule that did not match as the first of its sentences that is false.

Most conditions depend on a few words only (statuses, flags), and thousands of jobs share the same words. `Facts.key`
names all of them that matter, so that the tables are interpreted once for each distinct key; only the conditions
on time are asked for each job. A static condition must therefore read nothing that is not in the key.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, NamedTuple

from msgspec import Struct

from poseidon_reconciler.core.events import DesiredTransition
from poseidon_reconciler.core.records import Allocation, Evaluation, Job, Node
from poseidon_reconciler.policy import PoolPolicy

_NO_EVALUATION: Final = (False, False, False)
UNREACHABLE: Final = frozenset({"down", "disconnected", "gone"})


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
        """By when no copy of the job can run any more that Nomad has lost sight of: 0 if there is none, None while
        only its node or an operator can tell.
        """
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
        if self._is_over:
            # Little more is heard of it, and its agent takes a while to end it.
            return True
        if self._node_status(allocation) in UNREACHABLE:
            # Even if it was ordered to stop: no order arrives there.
            return True
        if allocation is self.allocation:
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
        if allocation is not self.allocation:
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


def is_migration(transition: DesiredTransition | None) -> bool:
    """Whether an allocation was ordered off its node, with or (newer servers, batch jobs) without a successor."""
    return transition is not None and bool(transition.migrate or transition.migrate_disable_placement)


class Condition(NamedTuple):
    """A question about a job; `text` is the sentence that is true when it holds. `timed`: the answer can change with
    time alone.
    """

    text: str
    holds: Callable[[Facts], bool]
    timed: bool


def _condition(text: str, *, timed: bool = False) -> Callable[[Callable[[Facts], bool]], Condition]:
    return lambda holds: Condition(text, holds, timed)


@_condition("the job was stopped, purged or collected")
def deregistered(f: Facts) -> bool:
    return f.job.gone is not None or f.job.stop


@_condition("somebody stopped the job")
def stopped(f: Facts) -> bool:
    return f.job.stop or f.job.gone == "stopped"


@_condition("the job was purged or collected, or is in no list any more")
def absent(f: Facts) -> bool:
    return f.job.gone is not None


@_condition("the job is marked used")
def marked_used(f: Facts) -> bool:
    return f.job.used


@_condition("its current allocation is meant to run and has not ended")
def placed(f: Facts) -> bool:
    return f.placed


@_condition("no allocation of it is meant to run")
def not_placed(f: Facts) -> bool:
    return not f.placed


@_condition("its current allocation runs and is meant to")
def running(f: Facts) -> bool:
    return f.client == "running" and f.desired == "run"


@_condition("its main task runs")
def task_running(f: Facts) -> bool:
    return f.allocation is not None and f.allocation.main_task_state in ("running", "")


@_condition("its node can be reached")
def reachable(f: Facts) -> bool:
    return f.client != "unknown" and f.node_status not in UNREACHABLE


@_condition("its node is down, disconnected or removed, or its allocation unknown")
def unreachable(f: Facts) -> bool:
    return f.client == "unknown" or f.node_status in UNREACHABLE


@_condition("its node does not drain")
def not_draining(f: Facts) -> bool:
    return f.node is None or not f.node.draining


@_condition("its allocation still runs, but its stop is ordered")
def stopping(f: Facts) -> bool:
    return f.client == "running" and f.desired != "run"


@_condition("nothing follows: no next allocation, no live evaluation")
def nothing_follows(f: Facts) -> bool:
    return not (f.allocation and f.allocation.data.next_allocation) and not f.live_evaluations


@_condition("by its disconnect policy, the copy out of sight may still run", timed=True)
def may_still_run(f: Facts) -> bool:
    ends_at = f.old_copies_end_at
    return ends_at is None or f.now < ends_at


@_condition("there must never be two copies of it")
def exactly_one(f: Facts) -> bool:
    return f.policy.disconnect_policy == "exactly"


@_condition("under its disconnect policy a copy that may still run counts")
def old_copy_counts(f: Facts) -> bool:
    return f.policy.disconnect_policy != "at-least"


@_condition("no allocation is known")
def no_allocation(f: Facts) -> bool:
    return f.allocation is None


@_condition("its allocation or its main task is still pending")
def waits_for_task(f: Facts) -> bool:
    if not f.placed or f.allocation is None:
        return False
    return f.client == "pending" or (f.client == "running" and f.allocation.main_task_state not in ("running", ""))


@_condition("it is the job's first allocation and never ran")
def first_allocation(f: Facts) -> bool:
    a = f.allocation
    return a is not None and not a.ran and len(f.job.allocations) == 1 and not a.data.previous_allocation


@_condition("the same allocation ran before")
def ran_before(f: Facts) -> bool:
    return f.allocation is not None and (f.allocation.ran or f.allocation.restarts > 0)


@_condition("the start deadline has not passed", timed=True)
def before_start_deadline(f: Facts) -> bool:
    return f.now < f.start_due_at


@_condition("an evaluation of it is pending")
def evaluation_pending(f: Facts) -> bool:
    return any(evaluation.data.status != "blocked" for evaluation in f.live_evaluations)


@_condition("an evaluation of it waits for its time")
def evaluation_delayed(f: Facts) -> bool:
    return any(e.waits_until is not None for e in f.live_evaluations if e.data.status != "blocked")


@_condition("an evaluation of it is blocked: it waits for capacity")
def evaluation_blocked(f: Facts) -> bool:
    return any(evaluation.data.status == "blocked" for evaluation in f.live_evaluations)


@_condition("its allocation names the one that follows")
def linked(f: Facts) -> bool:
    return f.allocation is not None and bool(f.allocation.data.next_allocation)


@_condition("Nomad says that the job runs")
def nomad_says_running(f: Facts) -> bool:
    return f.job.status == "running"


@_condition("Nomad does not call the job dead")
def not_dead(f: Facts) -> bool:
    return f.job.status != "dead"


@_condition("nothing has happened for less than the start deadline", timed=True)
def quiet_within_deadline(f: Facts) -> bool:
    return f.now < f.job.quiet_since + f.policy.start_deadline_s


@_condition("nothing has happened for less than the grace period", timed=True)
def quiet_within_grace(f: Facts) -> bool:
    return f.now < f.job.quiet_since + f.policy.lost_grace_s


@_condition("the newest allocation failed")
def newest_failed(f: Facts) -> bool:
    return f.client == "failed"


@_condition("the newest allocation is complete")
def newest_complete(f: Facts) -> bool:
    return f.client == "complete"


@_condition("the newest allocation was stopped before it ran")
def newest_pending(f: Facts) -> bool:
    return f.client == "pending"


@_condition("the newest allocation was moved off a draining node")
def migrated(f: Facts) -> bool:
    return f.allocation is not None and is_migration(f.allocation.data.desired_transition)


@_condition("the newest allocation is lost, or on a node that cannot be reached")
def newest_out_of_reach(f: Facts) -> bool:
    return f.client in ("lost", "unknown") or (f.client == "running" and f.node_status in UNREACHABLE)
