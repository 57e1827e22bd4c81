"""The servers' queue of evaluations: who comes when, what waits for a time or for capacity, and how plans become
writes.

A job has at most one evaluation in work. Each takes a little while, so that what agents report in the meantime is seen
by the later ones: with a hundred jobs that little while decides which of them die after an outage.
"""

from __future__ import annotations

import heapq
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from poseidon_reconciler.twin.records import Evaluation, JobKey
from poseidon_reconciler.twin.scheduler import Plan, Rules, schedule
from poseidon_reconciler.twin.state import State, Write

Place: TypeAlias = tuple[int, int, int, str]


class Pace(Struct, frozen=True):
    """How fast the servers work: evaluations at a time, and seconds for one (half before, half after its plan)."""

    workers: int = 1
    evaluation_s: float = 0.006


class Evaluator:
    """Queue, workers, delays and blocked evaluations."""

    def __init__(self, state: State, pace: Pace, rules: Rules) -> None:
        self._state = state
        self._kernel = state.kernel
        self.pace = pace
        self.rules = rules
        self._term = 0
        self.reset()

    def reset(self) -> None:
        """Forgets all that is queued and in work, as a new leader does, and takes up what the tables say."""
        self._term += 1
        self._ready: list[Place] = []
        self._waiting: dict[JobKey, list[Place]] = {}
        self._in_work: dict[JobKey, str] = {}
        self._blocked: dict[JobKey, str] = {}
        self._asked = 0
        self.paused = False
        for evaluation in self._state.evaluations.values():
            if evaluation.live:
                self.enqueue(evaluation)

    @property
    def blocked(self) -> list[str]:
        """The evaluations that wait for capacity."""
        return list(self._blocked.values())

    @property
    def idle(self) -> bool:
        """Whether nothing is queued or in work; what waits for a time or for capacity does not count."""
        return not (self._ready or self._waiting or self._in_work)

    def create(self, write: Write, key: JobKey, triggered_by: str, **fields: object) -> Evaluation:
        """A new evaluation of a job, put into a write; `enqueue` it after the commit."""
        namespace, job_id = key
        job = self._state.jobs.get(key)
        evaluation = replace(
            Evaluation(
                id=self._kernel.new_id(), namespace=namespace, job_id=job_id,
                type=job.type if job is not None else "batch",
                priority=job.priority if job is not None else 50, triggered_by=triggered_by,
                create_index=write.index, modify_index=write.index,
                created_at=self._kernel.now, modified_at=self._kernel.now,
            ),
            **fields,
        )  # fmt: skip
        write.put_evaluation(evaluation)
        return evaluation

    def enqueue(self, evaluation: Evaluation) -> None:
        """Takes an evaluation in: now, when its time comes, or when there is capacity."""
        if evaluation.status == "blocked":
            self._block(evaluation)
        elif evaluation.wait_until is not None and evaluation.wait_until > self._kernel.now:
            term = self._term
            self._kernel.at(evaluation.wait_until, lambda: self._when_due(evaluation, term))
        else:
            self._queue(evaluation)

    def _when_due(self, evaluation: Evaluation, term: int) -> None:
        if term == self._term and evaluation.id in self._state.evaluations:
            self._queue(evaluation)

    def unblock(self, computed_class: str) -> None:
        """Capacity on nodes of a class: what waits and could run there is looked at again."""
        for key, identity in list(self._blocked.items()):
            evaluation = self._state.evaluations.get(identity)
            if evaluation is None or not evaluation.live:
                del self._blocked[key]
            elif not evaluation.class_eligibility or evaluation.class_eligibility.get(computed_class, True):
                del self._blocked[key]
                self._queue(evaluation)

    def forget_blocked(self, key: JobKey) -> None:
        """What a job waits for no longer matters."""
        self._blocked.pop(key, None)

    def _block(self, evaluation: Evaluation) -> None:
        older = self._blocked.get(evaluation.job_key)
        self._blocked[evaluation.job_key] = evaluation.id
        if older is not None and older != evaluation.id:
            term = self._term
            self._kernel.after(self._kernel.spread(0.001), lambda: self._cancel(older, term))

    def _cancel(self, identity: str, term: int) -> None:
        evaluation = self._state.evaluations.get(identity)
        if evaluation is not None and evaluation.status == "blocked" and term == self._term:
            text = f'existing blocked evaluation exists for job "{evaluation.job_id}"'
            write = self._state.begin("EvaluationUpdated")
            write.put_evaluation(
                replace(evaluation, status="canceled", status_description=text, modified_at=self._kernel.now)
            )
            write.commit()

    def _queue(self, evaluation: Evaluation) -> None:
        self._asked += 1
        place = (-evaluation.priority, evaluation.create_index, self._asked, evaluation.id)
        heapq.heappush(self._ready, place)
        self.resume()

    def resume(self) -> None:
        """Gives idle workers something to do, unless the servers have no leader."""
        term = self._term
        while self._ready and len(self._in_work) < self.pace.workers and not self.paused:
            place = heapq.heappop(self._ready)
            evaluation = self._state.evaluations.get(place[3])
            if evaluation is None or not evaluation.live:
                continue
            if evaluation.job_key in self._in_work:
                heapq.heappush(self._waiting.setdefault(evaluation.job_key, []), place)
                continue
            self._in_work[evaluation.job_key] = evaluation.id
            half_s = self._kernel.spread(self.pace.evaluation_s / 2)
            self._kernel.after(half_s, lambda e=evaluation: self._process(e, term))  # type: ignore[misc]

    def _process(self, evaluation: Evaluation, term: int) -> None:
        if term != self._term:
            return
        plan = schedule(self._state, evaluation, self._state.jobs.get(evaluation.job_key), self.rules)
        seen = self._state.index
        for followup in plan.followups:
            write = self._state.begin("EvaluationUpdated")
            stored = replace(followup, create_index=write.index)
            write.put_evaluation(stored)
            write.commit()
            self.enqueue(stored)
        blocked = ""
        if plan.failed and evaluation.status != "blocked":
            blocked = self._make_blocked(evaluation, plan, seen)
        self._apply(evaluation, plan)
        half_s = self._kernel.spread(self.pace.evaluation_s / 2)
        self._kernel.after(half_s, lambda: self._finish(evaluation, plan, blocked, seen, term))

    def _make_blocked(self, evaluation: Evaluation, plan: Plan, seen: int) -> str:
        write = self._state.begin("EvaluationUpdated")
        blocked = replace(
            evaluation, id=self._kernel.new_id(), status="blocked", triggered_by="queued-allocs",
            status_description="created to place remaining allocations", previous_id=evaluation.id,
            node_id="", node_modify_index=0, wait_until=None, failed_groups=plan.failed, snapshot_index=seen,
            class_eligibility=plan.eligibility or None, queued=None, create_index=write.index,
            created_at=self._kernel.now, modified_at=self._kernel.now,
        )  # fmt: skip
        write.put_evaluation(blocked)
        write.commit()
        self.enqueue(blocked)
        return blocked.id

    def _apply(self, evaluation: Evaluation, plan: Plan) -> None:
        if plan.empty:
            return
        write = self._state.begin("PlanResult")
        write.put_evaluation(evaluation)
        for allocation in plan.stops + plan.changes:
            write.plan_allocation(allocation)
        for allocation in plan.places:
            write.plan_allocation(replace(allocation, create_index=write.index))
        write.commit()

    def _finish(self, evaluation: Evaluation, plan: Plan, blocked: str, seen: int, term: int) -> None:
        if term != self._term:
            return
        current = self._state.evaluations.get(evaluation.id)
        if current is not None and evaluation.status == "blocked" and plan.failed:
            self._blocked[evaluation.job_key] = evaluation.id
        elif current is not None:
            write = self._state.begin("EvaluationUpdated")
            write.put_evaluation(
                replace(
                    current, status="complete", status_description="", blocked_id=blocked, snapshot_index=seen,
                    failed_groups=plan.failed or None, queued=plan.queued, modified_at=self._kernel.now,
                )
            )  # fmt: skip
            write.commit()
            if not plan.failed:
                self.forget_blocked(evaluation.job_key)
        del self._in_work[evaluation.job_key]
        waiting = self._waiting.get(evaluation.job_key)
        if waiting:
            heapq.heappush(self._ready, heapq.heappop(waiting))
        if not waiting:
            self._waiting.pop(evaluation.job_key, None)
        self.resume()
