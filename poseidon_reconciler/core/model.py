"""The cluster as the events tell it: who exists, in which state, and what changed since somebody last looked.

Events only change the model; they decide nothing. They may come twice, late, or never: every object carries the
index of its last change, and what is older than that is ignored.
"""

from __future__ import annotations

from typing import Final

from poseidon_reconciler.core.events import (
    UNKNOWN,
    AllocationPayload,
    EvaluationPayload,
    Frame,
    JobPayload,
    NodePayload,
    Payload,
)
from poseidon_reconciler.core.records import LIST, Allocation, Evaluation, Job, Node, NodeChange, Origin
from poseidon_reconciler.core.registry import Registry

# Nomad itself keeps a handful of each; a job that fails for days must not fill our memory.
_MAX_ALLOCATIONS: Final = 32
_MAX_EVALUATIONS: Final = 16

_COLLECTED: Final = "JobBatchDeregistered"
_DEREGISTERED: Final = frozenset({"JobDeregistered", _COLLECTED})
_NODE_GONE: Final = "NodeDeregistration"


class Model(Registry):
    """All jobs, allocations, evaluations and nodes of one namespace. `index` is the highest Raft index seen."""

    def clear(self) -> None:
        """Forgets everything: a new epoch of the cluster begins."""
        super().clear()
        self.index = UNKNOWN

    def apply(self, frame: Frame, now: float) -> None:
        """Takes in the events of one line. `now` is when it was received, in seconds; it never goes back."""
        index = frame.index
        newest = index >= self.index
        if newest:
            self.index = index
        origin: Origin | None = None
        for event in frame.events or ():
            payload, topic = event.payload, event.topic
            if payload is None or (event.namespace != self.namespace and topic != "Node"):
                continue
            if origin is None or origin.type != event.type:
                origin = Origin(index, event.type)
            if topic == "Allocation" and payload.allocation is not None:
                self.take_allocation(payload.allocation, origin, now)
            elif topic == "Evaluation" and payload.evaluation is not None:
                if event.type in _DEREGISTERED:
                    self._deregister(payload.evaluation.job_id, origin, now)
                self.take_evaluation(payload.evaluation, origin, now)
            elif topic == "Job" and payload.job is not None:
                if event.type in _DEREGISTERED and _is_end(payload, event.type):
                    self._deregister(payload.job.id, origin, now)
                else:
                    self.take_job(payload.job, origin, now, newest=newest)
            elif topic == "Node" and payload.node is not None:
                self.take_node(payload.node, origin, now)

    # --- one object each; lists come here too ---------------------------------------------------------------

    def take_job(self, data: JobPayload, origin: Origin, now: float, *, newest: bool) -> bool:
        """Takes in a job; `newest` says that nothing newer was seen on this stream. Returns whether it was news."""
        if data.type not in (None, "batch"):
            return False
        job = self.jobs.get(data.id)
        if job is None:
            job = self.track(data.id, now, is_new=_can_be(data.create_index, origin, self.job_floor))
            if job is None:
                return False
        elif not job.seen and not _can_be(data.create_index, origin, self.job_floor):
            return False
        if data.modify_index == UNKNOWN:
            data.modify_index = origin.index
        if not self._is_news(job, data, origin, newest=newest):
            if data.task_groups is not None and not job.whole and data.modify_index == job.modify_index:
                was_used = job.used
                job.take_groups(data.task_groups)
                self._note_claim(job, now, was_used=was_used)
                self.changed[job.id] = job
            return False
        if job.gone is not None:
            self._revoke_end(job, data, now)
        elif job.seen and 0 <= job.create_index < data.create_index:
            job.begin_anew(now)
        if data.status != job.status or data.stop != job.stop or data.job_modify_index != job.job_modify_index:
            job.quiet_since = now
            self.changed[job.id] = job
        elif job.live_evaluations:
            # Said to be dead once more, it has no live evaluation any more.
            self.changed[job.id] = job
        was_used = job.used
        job.take(data, origin)
        self._note_claim(job, now, was_used=was_used)
        return True

    def _note_claim(self, job: Job, now: float, *, was_used: bool) -> None:
        if job.used and not was_used:
            self.environments[job.environment_id].claimed_at = now

    @staticmethod
    def _is_news(job: Job, data: JobPayload, origin: Origin, *, newest: bool) -> bool:
        """Whether a payload is newer than what is known of the job.

        One Raft entry may change a job twice, and both lines carry the same index: the last one wins, but a repeat
        of one of them is no third change. A list was read after all that happened at its index.
        """
        if job.gone is not None:
            # A stop whose evaluation was heard first was taken for a purge.
            stopped_then = data.stop and job.gone == "purged" and data.modify_index == job.gone_index
            return stopped_then or data.modify_index > job.gone_index
        if data.modify_index == job.modify_index and job.seen:
            if job.origin.type == LIST:
                return False
            if origin.type == LIST:
                return data.status != job.status
            if not newest or data.status in job.statuses:
                return False
            job.statuses += (data.status,)
            return True
        if data.modify_index < job.modify_index:
            return False
        job.statuses = (data.status,)
        return True

    def take_allocation(self, data: AllocationPayload, origin: Origin, now: float) -> bool:
        """Takes in an allocation. Returns whether it was news."""
        if data.task_group == "config":
            return False
        job = self.jobs.get(data.job_id)
        if job is None:
            is_new = _can_be(data.create_index, origin, self.allocation_floor)
            job = self.track(data.job_id, now, is_new=is_new and not 0 <= data.create_index <= self.job_floor)
        if job is None or job.gone is not None or UNKNOWN < data.create_index < job.create_index:
            return False
        if data.modify_index == UNKNOWN:
            data.modify_index = origin.index
        allocation = job.allocations.get(data.id)
        if allocation is None:
            if not _can_be(data.create_index, origin, max(self.allocation_floor, job.allocation_floor)):
                return False
            allocation = Allocation(data, origin, first_seen=now, since=now)
            job.allocations[data.id] = allocation
            self.node(data.node_id).jobs[job.id] = job
            changed = True
        else:
            old = allocation.data
            if data.modify_index <= old.modify_index:
                return False
            changed = data.client_status != old.client_status or data.desired_status != old.desired_status
            if not changed and (data.next_allocation != old.next_allocation or data.task_states != old.task_states):
                self.changed[job.id] = job
            if origin.type == LIST or old.job_version != UNKNOWN:
                _keep_what_a_stub_lacks(data, old)
        was_placed = allocation.placed
        allocation.take(data, origin)
        if changed:
            self._statuses_changed(job, allocation, now, was_placed=was_placed)
        return True

    def _statuses_changed(self, job: Job, allocation: Allocation, now: float, *, was_placed: bool) -> None:
        allocation.since = now
        before = job.current
        job.choose_current()
        # What ends once more, or otherwise, cannot bring the job back.
        if job.current is not before or (job.current is allocation and (was_placed or allocation.placed)):
            job.quiet_since = now
        if len(job.allocations) > _MAX_ALLOCATIONS:
            job.drop_oldest_allocation()
        self.changed[job.id] = job

    def take_evaluation(self, data: EvaluationPayload, origin: Origin, now: float) -> bool:
        """Takes in an evaluation. Returns whether it was news."""
        job = self.jobs.get(data.job_id)
        if job is None:
            is_new = _can_be(data.create_index, origin, self.evaluation_floor)
            job = self.track(data.job_id, now, is_new=is_new and not 0 <= data.create_index <= self.job_floor)
        if job is None or job.gone is not None or UNKNOWN < data.create_index < job.create_index:
            return False
        if data.modify_index == UNKNOWN:
            data.modify_index = origin.index
        evaluation = job.evaluations.get(data.id)
        if evaluation is None:
            if not _can_be(data.create_index, origin, max(self.evaluation_floor, job.evaluation_floor)):
                return False
            evaluation = Evaluation(data, origin, first_seen=now)
            job.quiet_since = now
            if len(job.evaluations) >= _MAX_EVALUATIONS:
                job.drop_oldest_evaluation()
        else:
            if data.modify_index <= evaluation.data.modify_index:
                return False
            if data.status != evaluation.data.status:
                job.quiet_since = now
            evaluation.data, evaluation.origin = data, origin
        job.put_evaluation(evaluation)
        # While an allocation is meant to run, evaluations come and go without meaning anything for the job.
        if job.current is None or not job.current.placed:
            self.changed[job.id] = job
        return True

    def take_node(self, data: NodePayload, origin: Origin, now: float) -> bool:
        """Takes in a node. Returns whether it was news."""
        deregistered = origin.type == _NODE_GONE
        if data.modify_index == UNKNOWN or deregistered:
            # A node that is removed is sent as it was, with the index of its last change.
            data.modify_index = origin.index
        if data.id not in self.nodes and data.modify_index <= self.node_floor:
            return False
        node = self.node(data.id)
        if data.modify_index <= node.modify_index:
            return False
        node.modify_index, node.origin, node.name = data.modify_index, origin, data.name or node.name
        self.set_node(node, "gone" if deregistered else data.status, now, draining=data.draining)
        return True

    def set_node(self, node: Node, status: str, now: float, *, draining: bool) -> None:
        """Changes what is known of a node, and has the jobs that are placed on it judged anew."""
        if (status, draining) == (node.status, node.draining):
            return
        told = self.nodes_changed.get(node.id)
        before = (node.status, node.draining) if told is None else (told.status_before, told.draining_before)
        self.nodes_changed[node.id] = NodeChange(node.id, node.name, status, draining, *before)
        if status != node.status:
            node.since = now
        node.status, node.draining = status, draining
        if status == "gone":
            self.forget_node_later(node, now)
        for job in list(node.jobs.values()):
            if any(allocation.data.node_id == node.id for allocation in job.allocations.values()):
                self.changed[job.id] = job
            else:
                del node.jobs[job.id]

    # --- the end of a job ------------------------------------------------------------------------------------

    def _deregister(self, job_id: str, origin: Origin, now: float) -> None:
        """A job was deregistered and no Job event says that it is still there: it was purged or collected.

        A stop without purge sends its Job event (with `Stop`) at the same index, before or after.
        """
        job = self.jobs.get(job_id)
        if job is None or job.gone is not None or origin.index < job.modify_index:
            return
        if job.stop and origin.type == "JobDeregistered" and origin.index == job.modify_index:
            return
        self.end(job, "collected" if origin.type == _COLLECTED else "purged", origin, now)

    def _revoke_end(self, job: Job, data: JobPayload, now: float) -> None:
        """A job that was gone is there: it was registered again, or had only been stopped."""
        if data.create_index != job.create_index:
            job.begin_anew(now)
        job.gone, job.gone_index = None, UNKNOWN


def _is_end(payload: Payload, event_type: str) -> bool:
    """Whether a Job event of a deregistration says that the job is no more; a stop alone leaves it there, stopped.

    Garbage collection names itself; a purge shows the job as it was, and newer servers add `Deleted`.
    """
    assert payload.job is not None
    return event_type == _COLLECTED or payload.deleted or not payload.job.stop


def _can_be(create_index: int, origin: Origin, floor: int) -> bool:
    """Whether an unknown object can exist, seeing that all that were created up to `floor` are known or gone; what a
    list has that is not older than that does exist.
    """
    return create_index > floor or create_index == UNKNOWN or (origin.type == LIST and origin.index >= floor)


def _keep_what_a_stub_lacks(new: AllocationPayload, old: AllocationPayload) -> None:
    """Carries over what a list's stub leaves out; a link between allocations, once made, is never undone."""
    new.next_allocation = new.next_allocation or old.next_allocation
    new.previous_allocation = new.previous_allocation or old.previous_allocation
    if new.alloc_modify_index == UNKNOWN:
        new.alloc_modify_index = old.alloc_modify_index
    elif new.job_version == UNKNOWN and new.alloc_modify_index == old.alloc_modify_index:
        new.job_version = old.job_version
    if new.desired_transition is None:
        new.desired_transition = old.desired_transition
