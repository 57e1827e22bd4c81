"""Who is known at all: found by id, followed from the first word of it, and forgotten when it has been gone for long.

A job that is gone stays as a tombstone for a while, so that late events of it cannot raise it from the dead; then it is
forgotten with all that hangs on it. What is known by hearsay only (an allocation of a job that was never seen) and
never confirmed goes the same way, and so does a node that was removed.
"""

from __future__ import annotations

import heapq
from typing import Final

from poseidon_reconciler.core.events import UNKNOWN
from poseidon_reconciler.core.ids import parse_job_id
from poseidon_reconciler.core.records import Environment, GoneCause, Job, Node, NodeChange, Origin

RETENTION_S: Final = 3600.0


class Registry:
    """The objects of one namespace.

    Attributes:
        retention_s: how long what is gone is remembered, in seconds.
        changed: the jobs that must be judged anew, in the order in which they changed; whoever judges clears it.
        nodes_changed: the nodes whose status or draining changed, by id; whoever plans clears it.
        job_floor, allocation_floor, evaluation_floor, node_floor: what was created up to here and is not known does
            not exist any more, because a whole list did not have it.
    """

    def __init__(self, namespace: str = "default", retention_s: float = RETENTION_S) -> None:
        self.namespace = namespace
        self.retention_s = retention_s
        self.clear()

    def clear(self) -> None:
        """Forgets everything."""
        self.jobs: dict[str, Job] = {}
        self.nodes: dict[str, Node] = {}
        self.environments: dict[str, Environment] = {}
        self.changed: dict[str, Job] = {}
        self.nodes_changed: dict[str, NodeChange] = {}
        self.job_floor = self.allocation_floor = self.evaluation_floor = self.node_floor = UNKNOWN
        self._forget_at: list[tuple[float, str]] = []
        self._forget_nodes_at: list[tuple[float, str]] = []

    def track(self, job_id: str, now: float, *, is_new: bool) -> Job | None:
        """The record of a job, made if the id is one of ours and the job can be new; else None."""
        job = self.jobs.get(job_id)
        if job is None and is_new and (name := parse_job_id(job_id)) is not None:
            job = Job(job_id, name.kind, name.environment_id, first_seen=now, quiet_since=now)
            self.jobs[job_id] = job
            environment = self.environments.get(name.environment_id)
            if environment is None:
                environment = self.environments[name.environment_id] = Environment(name.environment_id)
            if name.kind == "environment":
                environment.template = job
            else:
                environment.runners[job_id] = job
            # Until the job itself is seen, it is only hearsay: forgotten if nothing confirms it.
            heapq.heappush(self._forget_at, (now + self.retention_s, job_id))
        return job

    def node(self, node_id: str) -> Node:
        """The record of a node, made if there is none."""
        node = self.nodes.get(node_id)
        if node is None:
            node = self.nodes[node_id] = Node(node_id)
        return node

    def end(self, job: Job, cause: GoneCause, origin: Origin, now: float) -> None:
        """Turns a job into a tombstone. A job that was stopped before keeps that as its cause."""
        job.gone = "stopped" if job.stop else cause
        job.gone_index, job.gone_at, job.origin = origin.index, now, origin
        heapq.heappush(self._forget_at, (now + self.retention_s, job.id))
        self.changed[job.id] = job

    def forget_node_later(self, node: Node, now: float) -> None:
        """A node was removed; unless it comes back, it is forgotten after the retention."""
        heapq.heappush(self._forget_nodes_at, (now + self.retention_s, node.id))

    def forget(self, now: float) -> list[Job]:
        """Forgets the jobs that have been gone for longer than the retention; returns them."""
        forgotten = []
        self._forget_nodes(now)
        while self._forget_at and self._forget_at[0][0] <= now:
            job = self.jobs.get(heapq.heappop(self._forget_at)[1])
            if job is None:
                continue
            if self._is_forgettable(job, now):
                self._drop(job)
                forgotten.append(job)
            elif not job.seen:
                heapq.heappush(self._forget_at, (now + self.retention_s, job.id))
        return forgotten

    def _forget_nodes(self, now: float) -> None:
        while self._forget_nodes_at and self._forget_nodes_at[0][0] <= now:
            node = self.nodes.get(heapq.heappop(self._forget_nodes_at)[1])
            if node is None or node.status != "gone" or now - node.since < self.retention_s:
                continue
            if node.stood_on():
                # As long as something is remembered to stand there, it must be remembered that this is nowhere.
                self.forget_node_later(node, now)
            else:
                del self.nodes[node.id]

    def _is_forgettable(self, job: Job, now: float) -> bool:
        if job.gone is not None:
            return now - job.gone_at >= self.retention_s
        return not job.seen and (job.current is None or not job.current.placed)

    def _drop(self, job: Job) -> None:
        del self.jobs[job.id]
        self.changed.pop(job.id, None)
        for allocation in job.allocations.values():
            if (node := self.nodes.get(allocation.data.node_id)) is not None:
                node.jobs.pop(job.id, None)
        environment = self.environments[job.environment_id]
        if job.kind == "environment":
            environment.template = None
        else:
            environment.runners.pop(job.id, None)
        if environment.template is None and not environment.runners:
            del self.environments[environment.id]
