"""Turns one evaluation into a plan: what to stop, what to place and where, what to look at again later.

Nothing is written here, so the same code serves real evaluations and dry runs.
"""

from __future__ import annotations

from msgspec import Struct, field
from msgspec.structs import replace

from poseidon_reconciler.twin import reconcile as rec
from poseidon_reconciler.twin.jobspec import Group
from poseidon_reconciler.twin.kernel import Kernel
from poseidon_reconciler.twin.placement import Chooser, unmet_constraint
from poseidon_reconciler.twin.records import Allocation, Evaluation, Job, JsonObject
from poseidon_reconciler.twin.reschedule import tracked
from poseidon_reconciler.twin.state import State, Usage
from poseidon_reconciler.twin.traits import Traits


class Rules(Struct, frozen=True):
    """How nodes are chosen (`spread` or `binpack`), and which version's scheduler this is."""

    algorithm: str
    traits: Traits


class Plan(Struct):
    """The outcome of an evaluation. `updates` counts, per group, what a dry run shows."""

    stops: list[Allocation] = field(default_factory=list)
    changes: list[Allocation] = field(default_factory=list)
    places: list[Allocation] = field(default_factory=list)
    followups: list[Evaluation] = field(default_factory=list)
    failed: dict[str, JsonObject] = field(default_factory=dict)
    eligibility: dict[str, bool] = field(default_factory=dict)
    queued: dict[str, int] | None = None
    updates: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return not (self.stops or self.changes or self.places)


def schedule(state: State, evaluation: Evaluation, job: Job | None, rules: Rules) -> Plan:
    """What an evaluation of that job comes to, by the tables as they are."""
    return _Scheduling(state, evaluation, job, rules).run()


class _Scheduling:
    def __init__(self, state: State, evaluation: Evaluation, job: Job | None, rules: Rules) -> None:
        self._state = state
        self._kernel: Kernel = state.kernel
        self._evaluation = evaluation
        self._job = job
        self._plan = Plan()
        self._traits = rules.traits
        self._balance: dict[str, Usage] = {}
        self._freed: set[str] = set()
        self._chooser = Chooser(rules.algorithm, self._kernel.rng, self._used_on)
        self._view = rec.View(self._kernel.now, state.nodes, evaluation.id, rules.traits, self._fits_in_place)

    def run(self) -> Plan:
        allocations = self._state.allocations_of(self._evaluation.job_key)
        job = self._job
        for stop in rec.stopping_on_dead_nodes(allocations, self._view):
            self._stop(stop, [])
        if job is None or job.stop:
            stops = rec.stop_all(allocations, self._view)
            for stop in stops:
                self._stop(stop, [])
            self._plan.queued = None if job is None else {group.name: 0 for group in job.groups}
            self._plan.updates = {g.name: self._counts(stop=len(stops)) for g in job.groups} if job else {}
            return self._plan
        by_group: dict[str, list[Allocation]] = {group.name: [] for group in job.groups}
        for allocation in allocations:
            by_group.setdefault(allocation.group_name, []).append(allocation)
        for name, members in by_group.items():
            group = job.group(name)
            if group is None:
                for stop in rec.stop_all(members, self._view):
                    self._stop(stop, [])
            else:
                self._apply(rec.reconcile(job, group, members, self._view), job)
        if self._plan.queued is None:
            self._plan.queued = {group.name: 0 for group in job.groups}
        return self._plan

    def _apply(self, changes: rec.GroupChanges, job: Job) -> None:
        plan = self._plan
        later = [self._followup(item) for item in changes.later]
        plan.followups += later
        for stop in changes.stops:
            self._stop(stop, later)
        for allocation, which in changes.delayed:
            plan.changes.append(replace(allocation, followup_evaluation_id=later[which].id))
        for allocation, which in changes.unknown:
            plan.changes.append(
                replace(
                    allocation, client_status="unknown", client_description=rec.UNKNOWN,
                    followup_evaluation_id=later[which].id, unknown_at=self._kernel.now,
                )
            )  # fmt: skip
        for allocation in changes.reconnected:
            plan.changes.append(replace(allocation, unknown_at=None, followup_evaluation_id=""))
        for allocation in changes.in_place:
            plan.changes.append(replace(allocation, job=job, evaluation_id=self._evaluation.id))
        for place in changes.places:
            self._place(place, job)
        plan.updates[changes.group_name] = self._counts(
            ignore=changes.ignored,
            place=sum(1 for place in changes.places if place.stop_first is None or place.rescheduled),
            migrate=changes.migrating,
            stop=len(changes.stops) + sum(1 for place in changes.places if place.rescheduled),
            in_place=len(changes.in_place),
            destructive=changes.destructive,
        )

    def _stop(self, stop: rec.Stop, later: list[Evaluation]) -> None:
        allocation = stop.allocation
        lost = stop.client_status == "lost"
        self._free(allocation)
        self._plan.stops.append(
            replace(
                allocation,
                desired_status="stop",
                desired_description=stop.description,
                client_status=stop.client_status or allocation.client_status,
                followup_evaluation_id=(
                    later[stop.followup].id if stop.followup is not None else allocation.followup_evaluation_id
                ),
                lost_at=self._kernel.now if lost else allocation.lost_at,
            )
        )

    def _place(self, place: rec.Place, job: Job) -> None:
        plan, group, previous = self._plan, place.group, place.previous
        plan.queued = plan.queued or {}
        plan.queued.setdefault(group.name, 0)
        if place.stop_first is not None:
            self._free(place.stop_first.allocation)
        avoid = frozenset(
            {previous.node_id, *(past.previous_node_id for past in previous.reschedulings)}
            if previous is not None and place.rescheduled
            else ()
        )
        choice = self._chooser.choose(job, group, self._state.nodes.values(), avoid)
        if choice.node is None:
            plan.failed[group.name] = choice.metrics
            plan.eligibility.update(choice.eligibility)
            plan.queued[group.name] += 1
            if place.stop_first is not None and place.stop_anyway:
                self._stop(place.stop_first, [])
            elif place.stop_first is not None:
                self._take_back(place.stop_first.allocation)
            return
        if place.stop_first is not None:
            self._stop(place.stop_first, [])
        allocation = Allocation(
            id=self._kernel.new_id(), job=job, group_name=group.name, index=place.index,
            evaluation_id=self._evaluation.id, node_id=choice.node.id, node_name=choice.node.spec.name,
            metrics=choice.metrics, create_index=0, modify_index=0, alloc_modify_index=0,
            created_at=self._kernel.now, modified_at=self._kernel.now,
            previous_id=previous.id if previous is not None else "",
            reschedulings=tracked(previous, group.reschedule, self._kernel.now)
            if previous is not None and place.rescheduled else (),
        )  # fmt: skip
        plan.places.append(allocation)
        self._occupy(allocation, +1)

    def _followup(self, later: rec.Later) -> Evaluation:
        ours, job = self._evaluation, self._job
        return Evaluation(
            id=self._kernel.new_id(), namespace=ours.namespace, job_id=ours.job_id, type=ours.type,
            priority=ours.priority, triggered_by=later.triggered_by, create_index=0, modify_index=0,
            created_at=self._kernel.now, modified_at=self._kernel.now, status_description=later.description,
            job_modify_index=job.modify_index if job is not None else 0, wait_until=later.at,
            previous_id=ours.id, snapshot_index=self._state.index,
        )  # fmt: skip

    def _fits_in_place(self, allocation: Allocation, group: Group) -> bool:
        node, job = self._state.nodes.get(allocation.node_id), self._job
        return node is not None and job is not None and unmet_constraint(job, group, node) is None

    def _used_on(self, node_id: str) -> Usage:
        cpu, memory, disk = self._state.used_on(node_id)
        own_cpu, own_memory, own_disk = self._balance.get(node_id, (0, 0, 0))
        return cpu + own_cpu, memory + own_memory, disk + own_disk

    def _free(self, allocation: Allocation) -> None:
        if not allocation.terminal and allocation.id not in self._freed:
            self._freed.add(allocation.id)
            self._occupy(allocation, -1)

    def _take_back(self, allocation: Allocation) -> None:
        if allocation.id in self._freed:
            self._freed.remove(allocation.id)
            self._occupy(allocation, +1)

    def _occupy(self, allocation: Allocation, sign: int) -> None:
        group = allocation.job.group(allocation.group_name)
        if group is not None:
            cpu, memory, disk = self._balance.get(allocation.node_id, (0, 0, 0))
            self._balance[allocation.node_id] = (
                cpu + sign * group.cpu_mhz, memory + sign * group.memory_mb, disk + sign * group.disk_mb,
            )  # fmt: skip

    def _counts(
        self,
        *,
        ignore: int = 0,
        place: int = 0,
        migrate: int = 0,
        stop: int = 0,
        in_place: int = 0,
        destructive: int = 0,
    ) -> dict[str, int]:
        counts = {
            "Canary": 0, "DestructiveUpdate": destructive, "Ignore": ignore, "InPlaceUpdate": in_place,
            "Migrate": migrate, "Place": place, "Preemptions": 0, "Stop": stop,
        }  # fmt: skip
        if self._traits.plans_count_disconnects:
            counts |= dict.fromkeys(("Disconnect", "Reconnect", "RescheduleLater", "RescheduleNow"), 0)
        return counts
