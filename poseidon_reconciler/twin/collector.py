"""Garbage collection: what is over for long enough vanishes, and hardly anybody is told."""

from __future__ import annotations

from msgspec import Struct

from poseidon_reconciler.twin.evaluations import Evaluator
from poseidon_reconciler.twin.records import Allocation, Evaluation, Job, JobKey
from poseidon_reconciler.twin.state import State
from poseidon_reconciler.twin.traits import Traits


class Retention(Struct, frozen=True):
    """How often the servers collect, and for how long what is over is kept, in seconds."""

    interval_s: float = 300.0
    jobs_s: float = 4 * 3600.0
    evaluations_s: float = 3600.0
    nodes_s: float = 24 * 3600.0


class Collector:
    """The servers' garbage collection."""

    def __init__(self, state: State, evaluator: Evaluator, retention: Retention, traits: Traits) -> None:
        self._state = state
        self._evaluator = evaluator
        self._traits = traits
        self.retention = retention
        state.kernel.after(retention.interval_s, self._collect_periodically)

    def collect(self, *, force: bool = False) -> None:
        """Collects jobs, evaluations with their allocations, and nodes; with force, however young they are."""
        self._collect_jobs(force=force)
        self._collect_evaluations(force=force)
        self._collect_nodes(force=force)

    def remove_nodes(self) -> None:
        """Removes the nodes that are down, and nothing else: what somebody does for a machine that never comes back."""
        self._collect_nodes(force=True)

    def _collect_periodically(self) -> None:
        if not self._evaluator.paused:
            self.collect()
        self._state.kernel.after(self.retention.interval_s, self._collect_periodically)

    def _old(self, at: float, retention_s: float, *, force: bool) -> bool:
        return force or at <= self._state.kernel.now - retention_s

    def _collect_jobs(self, *, force: bool) -> None:
        state = self._state
        doomed = [job for job in state.jobs.values() if self._is_collectable(job, force=force)]
        if not doomed:
            return
        for job in doomed:
            self._drop(state.allocations_of(job.key), state.evaluations_of(job.key))
        write = state.begin("JobBatchDeregistered")
        made = []
        for job in doomed:
            if self._traits.gc_sends_evaluations:
                made.append(self._evaluator.create(write, job.key, "job-deregister"))
            write.drop_job(job.key, told=self._traits.gc_sends_job_event)
            self._evaluator.forget_blocked(job.key)
        write.commit()
        for evaluation in made:
            self._evaluator.enqueue(evaluation)

    def _is_collectable(self, job: Job, *, force: bool) -> bool:
        state = self._state
        return (
            job.status == "dead"
            and self._old(job.modified_at, self.retention.jobs_s, force=force)
            and all(not evaluation.live for evaluation in state.evaluations_of(job.key))
            and all(allocation.terminal for allocation in state.allocations_of(job.key))
        )

    def _collect_evaluations(self, *, force: bool) -> None:
        """Of a batch job that is not dead all allocations are kept: without them it would run again."""
        state = self._state
        by_evaluation: dict[str, list[Allocation]] = {}
        for allocation in state.allocations.values():
            by_evaluation.setdefault(allocation.evaluation_id, []).append(allocation)
        evaluations: list[Evaluation] = []
        allocations: list[Allocation] = []
        for evaluation in state.evaluations.values():
            if evaluation.live or not self._old(evaluation.modified_at, self.retention.evaluations_s, force=force):
                continue
            own = by_evaluation.get(evaluation.id, [])
            if self._must_keep(evaluation.job_key, own):
                continue
            evaluations.append(evaluation)
            allocations += own
        self._drop(allocations, evaluations)

    def _must_keep(self, key: JobKey, own: list[Allocation]) -> bool:
        job = self._state.jobs.get(key)
        if any(not (allocation.terminal and allocation.client_terminal) for allocation in own):
            return True
        return job is not None and job.type == "batch" and not (job.stop and job.status == "dead")

    def _drop(self, allocations: list[Allocation], evaluations: list[Evaluation]) -> None:
        if allocations or evaluations:
            write = self._state.begin(None)
            write.drop([a.id for a in allocations], [e.id for e in evaluations])
            write.commit(settle=False)

    def _collect_nodes(self, *, force: bool) -> None:
        state = self._state
        for node in list(state.nodes.values()):
            if node.status != "down" or not self._old(node.updated_at, self.retention.nodes_s, force=force):
                continue
            if any(not allocation.terminal for allocation in state.allocations_on(node.id)):
                continue
            keys = dict.fromkeys(allocation.job_key for allocation in state.allocations_on(node.id))
            write = state.begin(None)
            write.drop_node(node.id)
            write.commit(settle=False)
            self._evaluate(keys, node.id, node.modify_index)

    def _evaluate(self, keys: dict[JobKey, None], node_id: str, node_modify_index: int) -> None:
        known = [key for key in keys if key in self._state.jobs]
        if not known:
            return
        write = self._state.begin("EvaluationUpdated")
        made = [
            self._evaluator.create(write, key, "node-update", node_id=node_id, node_modify_index=node_modify_index)
            for key in known
        ]
        write.commit()
        for evaluation in made:
            self._evaluator.enqueue(evaluation)
