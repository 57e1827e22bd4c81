"""Lists into the model: the truth after every (re)connect, and the only way to learn of what no event told.

Each list is true at its index. It confirms or corrects what is older, says nothing about what is newer, and an
object that is older than the list and not in it is gone. A list that was not read says nothing at all.

A list whose index lies before one that the cluster had already passed is of another history: the cluster was
restored from a snapshot, or it is another one. Then nothing that is remembered may be acted upon.
"""

from __future__ import annotations

from collections.abc import Iterable

from poseidon_reconciler.core.events import UNKNOWN, AllocationPayload, JobPayload, NodePayload, Snapshot
from poseidon_reconciler.core.model import Model
from poseidon_reconciler.core.records import LIST, LIVE_EVALUATION, Job, Origin


class SnapshotReader:
    """Merges snapshots into a model, and notices when the cluster's history starts again.

    Attributes:
        epoch: how often the history started again.
        drift: how many objects the lists knew better than the stream, over all lists but an epoch's first.
    """

    def __init__(self, model: Model) -> None:
        self.epoch = 0
        self.drift = 0
        self._model = model
        # The index that every list read from now on must have reached, by table.
        self._passed: dict[str, int] = {}

    def connection_opened(self, written_index: int) -> None:
        """A stream was opened: lists that are read after this are newer than every event before it, and than every job
        that we have registered by now, of which the last stream may have told nothing.
        """
        highest_indexes = self._highest_indexes()
        highest_indexes["Jobs"] = max(highest_indexes["Jobs"], written_index)
        for table, highest in highest_indexes.items():
            self._passed[table] = max(highest, self._passed.get(table, UNKNOWN))

    def merge(self, snapshot: Snapshot, now: float) -> bool:
        """Merges what was read; returns whether that begins a new epoch (the model is then cleared before)."""
        went_back = any(snapshot.indexes.get(table, passed) < passed for table, passed in self._passed.items())
        new_epoch = went_back or self._contradicts(snapshot)
        if new_epoch:
            self._model.clear()
            self._passed.clear()
            self.epoch += 1
        first = not self._passed
        news = (
            self._merge_nodes(snapshot, now)
            + self._merge_jobs(snapshot, now)
            + self._merge_allocations(snapshot, now)
            + self._merge_evaluations(snapshot, now)
            # Last, because a node may be known by the allocations on it alone.
            + self._end_unlisted_nodes(snapshot, now)
        )
        self._passed.update(snapshot.indexes)
        if not first:
            self.drift += news
        return new_epoch

    def _contradicts(self, snapshot: Snapshot) -> bool:
        """Whether a list shows an object older than it was known to be at an index that the list has passed, or another
        one of the same index: a restored cluster's indexes may long have overtaken the old ones.
        """
        indexes = snapshot.indexes
        return (
            self._jobs_contradict(snapshot.jobs or (), indexes.get("Jobs", UNKNOWN))
            or self._allocations_contradict(snapshot.allocations or (), indexes.get("Allocations", UNKNOWN))
            or self._nodes_contradict(snapshot.nodes or (), indexes.get("Nodes", UNKNOWN))
        )

    def _jobs_contradict(self, listed: Iterable[JobPayload], index: int) -> bool:
        for data in listed:
            job = self._model.jobs.get(data.id)
            if job is None or data.modify_index == UNKNOWN:
                continue
            # One Raft entry may change a job twice, so that another status at the same index says nothing.
            if data.modify_index < job.modify_index <= index:
                return True
            if job.gone is not None and data.modify_index <= job.gone_index <= index and not data.stop:
                return True
        return False

    def _allocations_contradict(self, listed: Iterable[AllocationPayload], index: int) -> bool:
        for data in listed:
            owner = self._model.jobs.get(data.job_id)
            known = owner.allocations.get(data.id) if owner is not None else None
            if known is not None:
                told = known.data
                same = (told.client_status, told.desired_status) == (data.client_status, data.desired_status)
                if _contradict(data.modify_index, told.modify_index, index, same=same):
                    return True
        return False

    def _nodes_contradict(self, listed: Iterable[NodePayload], index: int) -> bool:
        for data in listed:
            node = self._model.nodes.get(data.id)
            if node is not None:
                same = (data.status, data.draining) == (node.status, node.draining)
                if _contradict(data.modify_index, node.modify_index, index, same=same):
                    return True
        return False

    def _highest_indexes(self) -> dict[str, int]:
        """The highest index at which an object of each table was seen to change."""
        jobs = self._model.jobs.values()
        return {
            "Jobs": max((max(job.modify_index, job.gone_index) for job in jobs), default=UNKNOWN),
            "Allocations": max(
                (a.data.modify_index for job in jobs for a in job.allocations.values()), default=UNKNOWN
            ),
            "Evaluations": max(
                (e.data.modify_index for job in jobs for e in job.evaluations.values()), default=UNKNOWN
            ),
            "Nodes": max((node.modify_index for node in self._model.nodes.values()), default=UNKNOWN),
        }

    def _merge_nodes(self, snapshot: Snapshot, now: float) -> int:
        if snapshot.nodes is None:
            return 0
        origin = Origin(snapshot.indexes.get("Nodes", UNKNOWN), LIST)
        news = sum([self._model.take_node(data, origin, now) for data in snapshot.nodes])
        self._model.node_floor = max(self._model.node_floor, origin.index)
        return news

    def _end_unlisted_nodes(self, snapshot: Snapshot, now: float) -> int:
        """A node that was known, or had an allocation, before a list of all nodes that does not have it, is gone."""
        if snapshot.nodes is None:
            return 0
        origin = Origin(snapshot.indexes.get("Nodes", UNKNOWN), LIST)
        listed = {data.id for data in snapshot.nodes}
        unlisted = [node for node in self._model.nodes.values() if node.id not in listed and node.status != "gone"]
        ended = [node for node in unlisted if UNKNOWN < node.known_index <= origin.index]
        for node in ended:
            node.origin = origin
            self._model.set_node(node, "gone", now, draining=False)
        return len(ended)

    def _merge_jobs(self, snapshot: Snapshot, now: float) -> int:
        if snapshot.jobs is None:
            return 0
        origin = Origin(snapshot.indexes.get("Jobs", UNKNOWN), LIST)
        news = sum([self._model.take_job(data, origin, now, newest=False) for data in snapshot.jobs])
        listed = {data.id for data in snapshot.jobs}
        for job in self._model.jobs.values():
            if job.id not in listed and job.gone is None and UNKNOWN < job.known_index <= origin.index:
                self._model.end(job, "vanished", origin, now)
                news += 1
        self._model.job_floor = max(self._model.job_floor, origin.index)
        return news

    def _merge_allocations(self, snapshot: Snapshot, now: float) -> int:
        if snapshot.allocations is None:
            return 0
        origin = Origin(snapshot.indexes.get("Allocations", UNKNOWN), LIST)
        news = sum([self._model.take_allocation(data, origin, now) for data in snapshot.allocations])
        listed = {data.id for data in snapshot.allocations}
        for job in self._model.jobs.values():
            absent = [
                id_ for id_, a in job.allocations.items() if id_ not in listed and a.data.modify_index <= origin.index
            ]
            for id_ in absent:
                # Of a dead job, the last allocation tells why it died, whether or not it was collected.
                if job.status != "dead" or job.allocations[id_] is not job.current:
                    del job.allocations[id_]
            if absent:
                job.choose_current()
                self._model.changed[job.id] = job
        self._model.allocation_floor = max(self._model.allocation_floor, origin.index)
        return news

    def _merge_evaluations(self, snapshot: Snapshot, now: float) -> int:
        if snapshot.evaluations is None:
            return 0
        origin = Origin(snapshot.indexes.get("Evaluations", UNKNOWN), LIST)
        news = sum([self._model.take_evaluation(data, origin, now) for data in snapshot.evaluations])
        listed = {data.id for data in snapshot.evaluations}
        for job in self._model.jobs.values():
            news += self._drop_collected_evaluations(job, listed, origin.index, now)
        self._model.evaluation_floor = max(self._model.evaluation_floor, origin.index)
        return news

    def _drop_collected_evaluations(self, job: Job, listed: set[str], index: int, now: float) -> int:
        """Drops what the list no longer has; returns how many of them were believed to be live."""
        absent = [e.data for e in job.evaluations.values() if e.data.id not in listed and e.data.modify_index <= index]
        live = sum(data.status in LIVE_EVALUATION for data in absent)
        for data in absent:
            job.drop_evaluation(data.id)
        if live:
            job.quiet_since = now
            self._model.changed[job.id] = job
        return live


def _contradict(listed: int, told: int, list_index: int, *, same: bool) -> bool:
    """Whether an object in a list cannot be of the history in which it was told of, by when it was last changed."""
    return UNKNOWN < listed <= told <= list_index and not (same and listed == told)
