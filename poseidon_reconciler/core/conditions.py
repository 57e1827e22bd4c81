"""What the rules may ask about a job: one question each, with the sentence that `explain` prints for it.

A condition is a plain function of `Facts`. Its text says what is true when it holds, so that a verdict can be read as
the conjunction of its sentences, and a rule that did not match as the first of its sentences that is false. Only the
conditions on time are asked for each job; the others must read nothing that is not in `Facts.key`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from poseidon_reconciler.core.facts import Facts, is_migration
from poseidon_reconciler.core.records import UNREACHABLE


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
