"""The tables that the servers agree on: every write has an index, and tells what it changed.

A job's status is never set by hand: it follows from its allocations and evaluations at the end of each write, as in
Nomad's own state store. It is the source of the odd moments of the real stream, such as a job that is `dead` and
`pending` at the same index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from poseidon_reconciler.twin.events import Batch, Payload, event_of
from poseidon_reconciler.twin.kernel import Kernel
from poseidon_reconciler.twin.records import Allocation, Evaluation, Job, JobKey, Node

KEPT_VERSIONS = 6
FIRST_INDEX = 7
TABLES = ("jobs", "allocs", "evals", "nodes")

Usage: TypeAlias = tuple[int, int, int]
"""MHz, MB of memory, MB of disk."""


class Snapshot(Struct, frozen=True):
    """All tables at one index, for a restore."""

    index: int
    table_index: dict[str, int]
    jobs: dict[JobKey, Job]
    versions: dict[JobKey, tuple[Job, ...]]
    allocations: dict[str, Allocation]
    evaluations: dict[str, Evaluation]
    nodes: dict[str, Node]


class State:
    """The tables. `publish` is called with the batch of each write that has events.

    `on_wanted` is called when what is wanted of an allocation changed, which includes that it is forgotten.
    """

    def __init__(self, kernel: Kernel, publish: Callable[[Batch], None]) -> None:
        self.kernel = kernel
        self.publish = publish
        self.on_wanted: Callable[[Allocation], None] = lambda _: None
        self.index = FIRST_INDEX
        self.writes = 0
        self.table_index = dict.fromkeys(TABLES, FIRST_INDEX)
        self._clear()

    def _clear(self) -> None:
        self.jobs: dict[JobKey, Job] = {}
        self.versions: dict[JobKey, tuple[Job, ...]] = {}
        self.allocations: dict[str, Allocation] = {}
        self.evaluations: dict[str, Evaluation] = {}
        self.nodes: dict[str, Node] = {}
        self._of_job: dict[JobKey, dict[str, None]] = {}
        self._of_node: dict[str, dict[str, None]] = {}
        self._evaluations_of: dict[JobKey, dict[str, None]] = {}
        self._live_allocations: Counter[JobKey] = Counter()
        self._live_evaluations: Counter[JobKey] = Counter()
        self._used: dict[str, Usage] = {}

    def begin(self, kind: str | None, *, same_index: bool = False) -> Write:
        """Starts a write of that kind (`None`: without events), at the next index unless it continues the last one."""
        self.writes += 1
        if not same_index:
            self.index += 1
        return Write(self, kind, self.index)

    def allocations_of(self, key: JobKey) -> list[Allocation]:
        """A job's allocations, oldest first."""
        return [self.allocations[identity] for identity in self._of_job.get(key, ())]

    def allocations_on(self, node_id: str) -> list[Allocation]:
        """A node's allocations, oldest first."""
        return [self.allocations[identity] for identity in self._of_node.get(node_id, ())]

    def evaluations_of(self, key: JobKey) -> list[Evaluation]:
        """A job's evaluations, oldest first."""
        return [self.evaluations[identity] for identity in self._evaluations_of.get(key, ())]

    def used_on(self, node_id: str) -> Usage:
        """What the allocations that may still run take of a node."""
        return self._used.get(node_id, (0, 0, 0))

    def status_of(self, key: JobKey) -> str:
        """What a job's status is by its allocations and evaluations."""
        if self._live_allocations[key] > 0:
            return "running"
        if self._live_evaluations[key] > 0:
            return "pending"
        return "dead" if self._of_job.get(key) or self._evaluations_of.get(key) else "pending"

    def snapshot(self) -> Snapshot:
        """All tables as they are now."""
        return Snapshot(
            self.index, dict(self.table_index), dict(self.jobs), dict(self.versions),
            dict(self.allocations), dict(self.evaluations), dict(self.nodes),
        )  # fmt: skip

    def restore(self, snapshot: Snapshot) -> None:
        """Makes the tables what they were; the indexes go backwards with them."""
        self._clear()
        self.writes += 1
        self.index = snapshot.index
        self.table_index = dict(snapshot.table_index)
        self.jobs, self.versions = dict(snapshot.jobs), dict(snapshot.versions)
        self.nodes = dict(snapshot.nodes)
        for allocation in snapshot.allocations.values():
            self.store_allocation(allocation)
        for evaluation in snapshot.evaluations.values():
            self.store_evaluation(evaluation)

    def store_allocation(self, allocation: Allocation) -> None:
        """Puts an allocation into its table and indexes. Only writes and restores do."""
        known = self.allocations.get(allocation.id)
        if known is not None:
            self._account(known, -1)
        else:
            self._of_job.setdefault(allocation.job_key, {})[allocation.id] = None
            self._of_node.setdefault(allocation.node_id, {})[allocation.id] = None
        self.allocations[allocation.id] = allocation
        self._account(allocation, +1)

    def store_evaluation(self, evaluation: Evaluation) -> None:
        """Puts an evaluation into its table and indexes. Only writes and restores do."""
        known = self.evaluations.get(evaluation.id)
        if known is None:
            self._evaluations_of.setdefault(evaluation.job_key, {})[evaluation.id] = None
        self._live_evaluations[evaluation.job_key] += int(evaluation.live) - int(known is not None and known.live)
        self.evaluations[evaluation.id] = evaluation

    def drop_allocation(self, identity: str) -> None:
        """Forgets an allocation without a trace."""
        allocation = self.allocations.pop(identity)
        self._account(allocation, -1)
        self._of_job[allocation.job_key].pop(identity)
        self._of_node[allocation.node_id].pop(identity)

    def drop_evaluation(self, identity: str) -> None:
        """Forgets an evaluation without a trace."""
        evaluation = self.evaluations.pop(identity)
        self._live_evaluations[evaluation.job_key] -= int(evaluation.live)
        self._evaluations_of[evaluation.job_key].pop(identity)

    def _account(self, allocation: Allocation, sign: int) -> None:
        if allocation.terminal:
            return
        self._live_allocations[allocation.job_key] += sign
        group = allocation.job.group(allocation.group_name)
        if group is not None:
            cpu, memory, disk = self._used.get(allocation.node_id, (0, 0, 0))
            self._used[allocation.node_id] = (
                cpu + sign * group.cpu_mhz, memory + sign * group.memory_mb, disk + sign * group.disk_mb,
            )  # fmt: skip


class Write:
    """One write: objects put in are visible at once; `commit` settles the jobs' statuses and publishes the events."""

    def __init__(self, state: State, kind: str | None, index: int) -> None:
        self._state = state
        self._kind = kind
        self._changes: dict[tuple[str, str | JobKey], Payload] = {}
        self._jobs: dict[JobKey, None] = {}
        self._dropped: set[str | JobKey] = set()
        self.index = index

    def _record(self, table: str, key: str | JobKey, payload: Payload) -> None:
        # The last put of an object counts, also for its place among the events.
        self._changes.pop((table, key), None)
        self._changes[table, key] = payload
        self._state.table_index[table] = self.index

    def put_job(self, job: Job) -> None:
        """Stores a job; a version that is new is kept among its versions."""
        state = self._state
        known = state.versions.get(job.key, ())
        if known and known[-1].version == job.version and known[-1].create_index == job.create_index:
            known = known[:-1]
        elif known and known[-1].create_index != job.create_index:
            known = ()
        state.versions[job.key] = (*known, job)[-KEPT_VERSIONS:]
        state.jobs[job.key] = job
        self._record("jobs", job.key, job)

    def drop_job(self, key: JobKey, *, told: bool) -> None:
        """Deletes a job; `told` says whether the stream hears of it."""
        job = self._state.jobs.pop(key, None)
        self._state.versions.pop(key, None)
        self._state.table_index["jobs"] = self.index
        if job is not None and told:
            self._dropped.add(key)
            self._record("jobs", key, job)

    def put_evaluation(self, evaluation: Evaluation) -> None:
        """Stores an evaluation. One that was fully placed cancels what still waits for the same job."""
        evaluation = replace(evaluation, modify_index=self.index)
        self._state.store_evaluation(evaluation)
        self._record("evals", evaluation.id, evaluation)
        self._jobs[evaluation.job_key] = None
        if evaluation.status == "complete" and not evaluation.failed_groups:
            self._cancel_blocked(evaluation)

    def _cancel_blocked(self, done: Evaluation) -> None:
        for other in self._state.evaluations_of(done.job_key):
            if other.status == "blocked":
                text = f'evaluation "{done.id}" successful'
                self.put_evaluation(replace(other, status="canceled", status_description=text))

    def put_allocation(self, allocation: Allocation) -> None:
        """Stores an allocation as its agent told of it: nothing else is touched."""
        allocation = replace(allocation, modify_index=self.index, modified_at=self._state.kernel.now)
        self._state.store_allocation(allocation)
        self._record("allocs", allocation.id, allocation)
        self._jobs[allocation.job_key] = None

    def plan_allocation(self, allocation: Allocation) -> None:
        """Stores an allocation as the scheduler wants it, and links (writes anew) the one that it replaces."""
        self.put_allocation(replace(allocation, alloc_modify_index=self.index))
        self._state.on_wanted(allocation)
        previous = self._state.allocations.get(allocation.previous_id)
        if previous is not None:
            self.put_allocation(replace(previous, next_id=allocation.id))

    def put_node(self, node: Node) -> None:
        """Stores a node."""
        node = replace(node, modify_index=self.index)
        self._state.nodes[node.id] = node
        self._record("nodes", node.id, node)

    def drop_node(self, node_id: str) -> None:
        """Forgets a node."""
        self._state.nodes.pop(node_id, None)
        self._state.table_index["nodes"] = self.index

    def drop(self, allocations: Iterable[str], evaluations: Iterable[str]) -> None:
        """Forgets allocations and evaluations: no event tells of it."""
        for identity in allocations:
            self._state.on_wanted(self._state.allocations[identity])
            self._state.drop_allocation(identity)
            self._state.table_index["allocs"] = self.index
        for identity in evaluations:
            self._state.drop_evaluation(identity)
            self._state.table_index["evals"] = self.index

    def commit(self, *, settle: bool = True) -> None:
        """Ends the write. Without `settle` the jobs' statuses stay as they are, as for some of Nomad's writes."""
        state = self._state
        for key in self._jobs if settle else ():
            job = state.jobs.get(key)
            if job is not None and job.status != (status := state.status_of(key)):
                self.put_job(replace(job, status=status, modify_index=self.index, modified_at=state.kernel.now))
        if self._changes and self._kind is not None:
            events = tuple(
                event_of(self._kind, self.index, payload, deleted=key in self._dropped)
                for (_, key), payload in self._changes.items()
            )
            state.publish(Batch(self.index, events))
