"""Decides what should become of a job's allocations: which stay, stop, move, are updated, and what is missing.

This holds the trap that kills batch jobs after an outage. A batch allocation that was stopped counts as *work done* if
its agent says that all its tasks completed and nothing replaced it (`next_id` is empty), as long as it belongs to the
job's current version. When an agent returns and reports such an old allocation, the next look at the job finds one
allocation too many and stops the healthy one. A newer version of the job makes the old allocation irrelevant. Nomad
has lost the trap in 1.11.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct, field

from poseidon_reconciler.twin.jobspec import Group, needs_new_allocation
from poseidon_reconciler.twin.records import Allocation, Job, Node
from poseidon_reconciler.twin.reschedule import next_attempt
from poseidon_reconciler.twin.traits import Traits

NOT_NEEDED = "alloc not needed due to job update"
MIGRATING = "alloc is being migrated"
UPDATING = "alloc is being updated due to job update"
LOST = "alloc is lost since its node is down"
RESCHEDULED = "alloc was rescheduled because it failed"
RECONNECTED = "alloc not needed due to disconnected client reconnect"
UNKNOWN = "alloc is unknown since its node is disconnected"

# A replacement whose time is this near is not worth a delay.
_RESCHEDULE_WINDOW_S = 1.0


class Stop(Struct, frozen=True):
    """An allocation to stop; `client_status` overrides what its agent last said."""

    allocation: Allocation
    description: str
    client_status: str = ""
    followup: int | None = None


class Place(Struct, frozen=True):
    """An allocation to place; if it cannot be placed, `stop_first` is only stopped when `stop_anyway`."""

    group: Group
    index: int
    previous: Allocation | None = None
    rescheduled: bool = False
    stop_first: Stop | None = None
    stop_anyway: bool = False


class Later(Struct, frozen=True):
    """An evaluation to make for later, by its place in `GroupChanges.later`."""

    at: float
    triggered_by: str
    description: str


class GroupChanges(Struct):
    """What is to be done with one task group."""

    group_name: str
    stops: list[Stop] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    in_place: list[Allocation] = field(default_factory=list)
    delayed: list[tuple[Allocation, int]] = field(default_factory=list)
    unknown: list[tuple[Allocation, int]] = field(default_factory=list)
    reconnected: list[Allocation] = field(default_factory=list)
    later: list[Later] = field(default_factory=list)
    ignored: int = 0
    migrating: int = 0
    destructive: int = 0


class View(Struct, frozen=True):
    """What a decision depends on beside the job: the time, the nodes, and which evaluation asks."""

    now: float
    nodes: Mapping[str, Node]
    evaluation_id: str
    traits: Traits
    fits_in_place: Callable[[Allocation, Group], bool]


def stop_all(allocations: Iterable[Allocation], view: View) -> list[Stop]:
    """Stops whatever may still run of a job that is stopped or deleted."""
    stops = []
    for allocation in allocations:
        if allocation.terminal:
            continue
        lost = _class_of(allocation, view) == "lost"
        stops.append(Stop(allocation, LOST, "lost") if lost else Stop(allocation, NOT_NEEDED))
    return stops


def stopping_on_dead_nodes(allocations: Iterable[Allocation], view: View) -> list[Stop]:
    """What was ordered to stop and had not said that it did when its node went down is lost as well."""
    return [
        Stop(allocation, LOST, "lost")
        for allocation in allocations
        if allocation.server_terminal and allocation.client_status in {"pending", "running"}
        if (node := view.nodes.get(allocation.node_id)) is None or node.status == "down"
    ]


def reconcile(job: Job, group: Group, allocations: Iterable[Allocation], view: View) -> GroupChanges:
    """What is to be done with one group of a job, given all allocations of that group, of every version."""
    changes = GroupChanges(group.name)
    classes: dict[str, list[Allocation]] = {
        "untainted": [], "migrate": [], "lost": [], "disconnecting": [], "reconnecting": [], "away": [],
    }  # fmt: skip
    for allocation in allocations:
        if _is_history(allocation, job):
            changes.ignored += 1
        else:
            classes[_class_of(allocation, view)].append(allocation)
    counted, failed_now = _sort_out_terminal(job, group, classes["untainted"], view, changes)
    counted += _settle_reconnects(classes["reconnecting"], counted, changes)
    counted += _settle_disconnects(group, classes, view, changes)
    lost_delayed = _stop_lost(group, classes["lost"], view, changes)
    moving = classes["migrate"]
    kept = _stop_surplus(group, counted, moving, changes)
    _update(job, group, kept, view, changes)
    taken = {allocation.index for allocation in [*kept, *moving, *failed_now]}
    _migrate(job, group, moving, changes)
    for allocation in failed_now:
        stop = Stop(allocation, RESCHEDULED)
        changes.places.append(Place(group, allocation.index, allocation, rescheduled=True, stop_first=stop))
    if not lost_delayed:
        existing = len(kept) + len(moving) + len(failed_now)
        _fill(group, existing, taken, [*classes["lost"], *_to_replace(group, classes)], changes)
    return changes


def _is_history(allocation: Allocation, job: Job) -> bool:
    """Whether an allocation of a batch job is over and of an older version: then it says nothing about this one."""
    older = allocation.job.version < job.version or allocation.job.create_index < job.create_index
    return job.type == "batch" and older and allocation.terminal


def _class_of(allocation: Allocation, view: View) -> str:
    """First match wins."""
    node = view.nodes.get(allocation.node_id)
    group = allocation.job.group(allocation.group_name)
    lost_after_s = group.lost_after_s if group is not None else None
    reconnecting = allocation.unknown_at is not None and allocation.client_status in {"running", "failed"}
    if allocation.terminal and not (reconnecting and allocation.desired_status == "run"):
        return "untainted"
    if allocation.client_status == "unknown" and _expired(allocation, lost_after_s, view):
        return "lost"
    if node is not None and node.status == "disconnected":
        if allocation.client_status == "unknown":
            return "away"
        return "lost" if lost_after_s is None or allocation.client_status == "pending" else "disconnecting"
    if allocation.migrate:
        return "migrate"
    if node is None or node.status == "down":
        return "lost"
    if reconnecting:
        return "reconnecting"
    return "away" if allocation.client_status == "unknown" else "untainted"


def _expired(allocation: Allocation, lost_after_s: float | None, view: View) -> bool:
    since = allocation.unknown_at
    return since is None or lost_after_s is None or view.now >= since + lost_after_s


def _sort_out_terminal(
    job: Job, group: Group, allocations: list[Allocation], view: View, changes: GroupChanges
) -> tuple[list[Allocation], list[Allocation]]:
    """Which allocations count towards the group's count, and which failed ones are to be replaced now."""
    counted, failed_now = [], []
    for allocation in allocations:
        if allocation.terminal and allocation.next_id:
            continue
        verdict = _verdict(allocation, group, view.traits, batch=job.type == "batch")
        if verdict == "ignore":
            continue
        if verdict == "failed":
            at = next_attempt(allocation, group.reschedule)
            ours = allocation.followup_evaluation_id == view.evaluation_id
            if allocation.force_reschedule or (at is not None and (ours or at - view.now <= _RESCHEDULE_WINDOW_S)):
                failed_now.append(allocation)
                continue
            if at is not None and not allocation.followup_evaluation_id:
                changes.delayed.append((allocation, len(changes.later)))
                changes.later.append(Later(at, "alloc-failure", "created for delayed rescheduling"))
        counted.append(allocation)
    return counted, failed_now


def _verdict(allocation: Allocation, group: Group, traits: Traits, *, batch: bool) -> str:
    """Whether an allocation counts, is ignored, or failed. That a stopped one may count is the trap."""
    if allocation.disable_placement:
        return "counts"
    if allocation.server_terminal:
        spared = not traits.stopped_complete_counts or (traits.disconnect_defuses and group.lost_after_s is not None)
        return "counts" if batch and allocation.ran_successfully and not spared else "ignore"
    if allocation.client_status == "failed":
        return "failed"
    return "ignore" if not batch and allocation.client_terminal else "counts"


def _settle_reconnects(
    reconnecting: list[Allocation], counted: list[Allocation], changes: GroupChanges
) -> list[Allocation]:
    """Of an allocation that is back and its replacement one is kept: the older, unless the job says otherwise."""
    kept = []
    for allocation in reconnecting:
        group = allocation.job.group(allocation.group_name)
        rivals = [other for other in counted if other.index == allocation.index and not other.terminal]
        keep_new = group is not None and group.reconcile_strategy == "keep_replacement"
        if allocation.client_status == "failed" or (keep_new and rivals):
            changes.stops.append(Stop(allocation, RECONNECTED))
            continue
        for rival in rivals:
            counted.remove(rival)
            changes.stops.append(Stop(rival, RECONNECTED))
        changes.reconnected.append(allocation)
        kept.append(allocation)
    return kept


def _settle_disconnects(
    group: Group, classes: Mapping[str, list[Allocation]], view: View, changes: GroupChanges
) -> list[Allocation]:
    """Marks what is out of reach as unknown; it still counts only where nobody wants it replaced."""
    for allocation in classes["disconnecting"]:
        own = allocation.job.group(allocation.group_name) or group
        changes.unknown.append((allocation, len(changes.later)))
        until = view.now + (own.lost_after_s or 0.0)
        changes.later.append(Later(until, "max-disconnect-timeout", "created for delayed disconnect timeout"))
    return [] if group.replace_disconnected else [*classes["disconnecting"], *classes["away"]]


def _to_replace(group: Group, classes: Mapping[str, list[Allocation]]) -> list[Allocation]:
    return classes["disconnecting"] if group.replace_disconnected else []


def _stop_lost(group: Group, lost: list[Allocation], view: View, changes: GroupChanges) -> bool:
    """Stops what is lost; says whether its replacement has to wait until the agent itself must have stopped it."""
    delayed = False
    for allocation in lost:
        own = allocation.job.group(allocation.group_name) or group
        followup = None
        if own.stop_after_s is not None:
            delayed = True
            followup = len(changes.later)
            at = view.now + own.stop_after_s + max(own.kill_timeout_s, 5.0)
            changes.later.append(Later(at, "alloc-failure", "created for delayed rescheduling"))
        changes.stops.append(Stop(allocation, LOST, "lost", followup))
    return delayed


def _stop_surplus(
    group: Group, counted: list[Allocation], moving: list[Allocation], changes: GroupChanges
) -> list[Allocation]:
    """Stops as many as there are too many. What is over cannot be stopped, so the living pay for the dead."""
    surplus = len(counted) + len(moving) - group.count
    if surplus <= 0:
        return counted
    living = [allocation for allocation in counted if not allocation.terminal]
    doomed = moving[::-1][:surplus]
    for allocation in doomed:
        moving.remove(allocation)
    doomed += sorted(living, key=lambda a: -a.index)[: surplus - len(doomed)]
    changes.stops += [Stop(allocation, NOT_NEEDED) for allocation in doomed]
    gone = {allocation.id for allocation in doomed}
    return [allocation for allocation in counted if allocation.id not in gone]


def _update(job: Job, group: Group, kept: list[Allocation], view: View, changes: GroupChanges) -> None:
    """Brings what stays to the job's current version, in place where that is possible."""
    for allocation in list(kept):
        same = allocation.job.job_modify_index == job.job_modify_index
        if same or allocation.terminal or allocation.client_status == "unknown":
            changes.ignored += 1
        elif not needs_new_allocation(allocation.job.spec, job.spec, group.name) and view.fits_in_place(
            allocation, group
        ):
            changes.in_place.append(allocation)
        else:
            changes.destructive += 1
            stop = Stop(allocation, UPDATING)
            changes.places.append(Place(group, allocation.index, allocation, stop_first=stop))


def _migrate(job: Job, group: Group, moving: list[Allocation], changes: GroupChanges) -> None:
    """Moves what its node or an operator wants gone; a drained batch allocation is not placed anew where the server
    says so.
    """
    for allocation in moving:
        changes.migrating += 1
        stop = Stop(allocation, MIGRATING)
        if allocation.disable_placement and job.type == "batch":
            changes.stops.append(stop)
        else:
            changes.places.append(Place(group, allocation.index, allocation, stop_first=stop, stop_anyway=True))


def _fill(group: Group, existing: int, taken: set[int], replaced: list[Allocation], changes: GroupChanges) -> None:
    """Places what is missing: replacements of the lost first, then new ones under names that are free."""
    missing = group.count - existing
    for allocation in replaced[: max(0, missing)]:
        taken.add(allocation.index)
        missing -= 1
        changes.places.append(Place(group, allocation.index, allocation))
    free = (index for index in range(group.count + len(taken)) if index not in taken)
    for index, _ in zip(free, range(missing), strict=False):
        changes.places.append(Place(group, index))
