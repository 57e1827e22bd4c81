"""When a failed allocation is tried again elsewhere: the delays and the bound on attempts of a reschedule policy."""

from __future__ import annotations

from poseidon_reconciler.twin.jobspec import ReschedulePolicy
from poseidon_reconciler.twin.records import Allocation, Rescheduling

# Nomad keeps this many past attempts where their number is not limited.
_REMEMBERED_ATTEMPTS = 5


def failed_at(allocation: Allocation) -> float:
    """When the last of an allocation's tasks ended."""
    ends = [state.finished_at for state in allocation.task_states.values() if state.finished_at is not None]
    return max(ends, default=allocation.modified_at)


def next_attempt(allocation: Allocation, policy: ReschedulePolicy) -> float | None:
    """When a failed allocation is to be replaced; `None` if its attempts are used up."""
    if allocation.client_status != "failed" or allocation.desired_status != "run":
        return None
    end = failed_at(allocation)
    recent = sum(1 for past in allocation.reschedulings if end - past.at < policy.interval_s)
    if not policy.unlimited and recent >= policy.attempts:
        return None
    return end + next_delay_s(allocation, policy)


def next_delay_s(allocation: Allocation, policy: ReschedulePolicy) -> float:
    """How long to wait before the next attempt."""
    past = [attempt.delay_s for attempt in allocation.reschedulings]
    if policy.delay_function == "constant" or not past:
        return policy.delay_s
    delay_s = past[-1] * 2
    if policy.delay_function == "fibonacci":
        delay_s = past[-1] + past[-2] if len(past) > 1 else policy.delay_s
    if policy.max_delay_s <= 0 or delay_s < policy.max_delay_s:
        return delay_s
    # An allocation that ran longer than the longest delay starts over.
    ran_s = failed_at(allocation) - allocation.reschedulings[-1].at
    return policy.delay_s if ran_s > policy.max_delay_s else policy.max_delay_s


def tracked(previous: Allocation, policy: ReschedulePolicy, now: float) -> tuple[Rescheduling, ...]:
    """The attempts that the replacement of a failed allocation remembers."""
    attempt = Rescheduling(now, previous.id, previous.node_id, next_delay_s(previous, policy))
    known = previous.reschedulings
    if policy.unlimited:
        return (*known, attempt)[-_REMEMBERED_ATTEMPTS:]
    return (*(past for past in known if now - past.at < policy.interval_s), attempt)
