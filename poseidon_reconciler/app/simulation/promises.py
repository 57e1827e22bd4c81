"""Holds reconcilers to their promises: looks at each write of theirs at the moment at which the servers carry it out.

Each is judged by the cluster's truth, and by what its reconciler had been told when it decided: what somebody else did
meanwhile, and what became of a job after it was read for the last time, nobody could know.
"""

from __future__ import annotations

from typing import Any, Final

import orjson
from msgspec import Struct

from poseidon_reconciler.app.simulation.broken import BrokenError
from poseidon_reconciler.app.simulation.life import Deed, Life
from poseidon_reconciler.app.simulation.pace import PaceWatch, TooFastError
from poseidon_reconciler.app.simulation.poison import PoisonWatch
from poseidon_reconciler.app.simulation.trims import TrimWatch
from poseidon_reconciler.app.simulation.truth import NAMESPACE, TEMPLATE, Standing, Truth, environment_of
from poseidon_reconciler.core.ledger import Action
from poseidon_reconciler.nomad.documents import REPLACES, mark_of
from poseidon_reconciler.nomad.outcomes import Answer
from poseidon_reconciler.nomad.transport import Request
from poseidon_reconciler.twin import poseidon_jobs as pj
from poseidon_reconciler.twin.agents import Agent
from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.events import Batch
from poseidon_reconciler.twin.local import LocalAllocation
from poseidon_reconciler.twin.reconcile import NOT_NEEDED, UPDATING
from poseidon_reconciler.twin.records import Allocation, Evaluation, Job, JobKey

_DISTURBING: Final = frozenset({NOT_NEEDED, UPDATING})


class _Before(Struct):
    """What was so right before a write."""

    job: Job | None
    standing: Standing | None
    processes: list[tuple[Agent, LocalAllocation]]
    out_of_sight: bool
    counted: list[JobKey]
    existing: int
    target: int
    epoch: int


class Created(Struct, frozen=True):
    """A runner that one of ours has created."""

    job_id: str
    index: int
    place: str
    replaces: str
    lost_index: int


class Promises:
    """Watches the writes of all reconcilers of a cluster.

    Attributes:
        created: the runners that they created, by id.
        last_write_at: when they last changed anything.
        writes: how often they did what, by the kind of action.
    """

    def __init__(self, cluster: Cluster, truth: Truth) -> None:
        self.created: dict[str, Created] = {}
        self.last_write_at = 0.0
        self.writes: dict[str, int] = {}
        self.restored_at = 0.0
        self._cluster = cluster
        self._truth = truth
        self._evaluations: set[str] = set()
        self._stopped: set[str] = set()
        self._before: _Before | None = None
        self._pace = PaceWatch(cluster)
        self._trims = TrimWatch(cluster, truth)
        self._poison = PoisonWatch(truth, self.created)

    def restored(self, index: int) -> None:
        """The servers were restored: what was created after that index never was."""
        self.restored_at = self._cluster.now
        allocations = self._cluster.state.allocations.values()
        self._stopped = {allocation.id for allocation in allocations if allocation.desired_status != "run"}
        for job_id in [job_id for job_id, made in self.created.items() if made.index > index]:
            del self.created[job_id]

    def decided(self, life: Life, deeds: list[Deed]) -> None:
        """A reconciler has decided. Raises `BrokenError` if that is too much at a time."""
        try:
            self._pace.decided(life, deeds)
        except TooFastError as error:
            raise BrokenError(6, str(error)) from None
        for deed in deeds:
            if deed.policy != life.place.policy and deed.at > life.place.told_at:
                raise BrokenError(2, f"{deed.action.kind} {deed.action.job_id} was decided on by wishes of the past")
            match deed.action.kind:
                case "create-runner":
                    self._poison.decided(deed)
                case "stop-surplus":
                    self._trims.decided(deed)

    def begun(self, life: Life, deed: Deed) -> None:
        """A reconciler begins what it has decided. Raises `BrokenError` if that is too much at a time."""
        try:
            self._pace.begun(life, deed)
        except TooFastError as error:
            raise BrokenError(6, str(error)) from None

    def acted(self, action: Action) -> None:
        """An action has an outcome."""
        self._trims.ended(action)

    # -- a write -----------------------------------------------------------------------------------------------------

    def before(self, request: Request, deed: Deed | None, epoch: int) -> None:
        """A write is about to be carried out, in that epoch of the cluster.

        Raises:
            BrokenError: it must not be.
        """
        job_id = self._job_id_of(request)
        if deed is None:
            raise BrokenError(2, f"{job_id} is written to without a decision")
        if any(request is sent for sent in deed.paused):
            raise BrokenError(2, f"{job_id} is written to although somebody had paused that")
        subject = deed.action.replaces or job_id
        key = (NAMESPACE, job_id)
        environment = str(environment_of(job_id))
        self._before = _Before(
            job=self._cluster.state.jobs.get(key),
            standing=self._truth.jobs.get(key),
            processes=self._truth.processes((NAMESPACE, subject)),
            out_of_sight=self._truth.out_of_sight((NAMESPACE, subject)),
            counted=self._counted(environment, deed, epoch),
            existing=self._existing(environment, deed, epoch),
            target=self._truth.highest_target(environment, deed.seen_index),
            epoch=epoch,
        )
        if request.method == "delete":
            self._check_removal(key, deed, self._before)
        elif request.endpoint == "allocation":
            self._check_stop(request.path[0])

    def after(self, request: Request, deed: Deed, answer: Answer) -> None:
        """A write was answered so.

        Raises:
            BrokenError: it must not have been done.
        """
        before, self._before = self._before, None
        assert before is not None
        if answer.status != 200:
            return
        self.last_write_at = self._cluster.now
        self.writes[deed.action.kind] = self.writes.get(deed.action.kind, 0) + 1
        job_id = self._job_id_of(request)
        self._check_epoch(deed, job_id, before.epoch)
        try:
            self._pace.written(deed, job_id)
        except TooFastError as error:
            raise BrokenError(6, str(error)) from None
        self._evaluations.add(orjson.loads(answer.body)["EvalID"])
        if deed.action.kind == "remove-job":
            self._poison.removed(job_id, deed)
        if request.method == "delete" or request.endpoint == "allocation":
            return
        match deed.action.kind:
            case "create-runner":
                self._check_creation(job_id, deed, before)
            case "stop-surplus":
                self._trims.stopped(job_id, deed, before.standing, before.epoch)
            case "protect-job":
                self._check_mark(job_id, before)
            case "revive-environment":
                self._check_environment(job_id, deed, before)

    def hear(self, batch: Batch) -> None:
        """A change was made. Raises `BrokenError` if a write of ours has led to what it must not."""
        ours = [
            event.payload.id
            for event in batch.events
            if isinstance(event.payload, Evaluation) and event.payload.id in self._evaluations
        ]
        for event in batch.events:
            allocation = event.payload
            if not isinstance(allocation, Allocation) or allocation.desired_status == "run":
                continue
            # Plans name again what was ordered to stop before.
            anew = allocation.id not in self._stopped
            self._stopped.add(allocation.id)
            if ours and anew and event.type == "PlanResult" and self._is_disturbed(allocation):
                raise BrokenError(
                    2, f"{allocation.job.id} was stopped ({allocation.desired_description}) because of a write of ours"
                )

    def _is_disturbed(self, allocation: Allocation) -> bool:
        if allocation.desired_description not in _DISTURBING or allocation.job_key not in self._cluster.state.jobs:
            return False
        job = self._cluster.state.jobs[allocation.job_key]
        return not job.stop and allocation.client_status == "running" and self._truth.process_of(allocation)

    # -- what must not be --------------------------------------------------------------------------------------------

    def _check_epoch(self, deed: Deed, job_id: str, epoch: int) -> None:
        """What was read last must have been read in this history, unless nobody could know that it is another one.

        A loss that was confirmed in it is one, whatever the decision rested on; that a pool is short, or has too many,
        cannot be confirmed by reading one job.
        """
        if deed.epoch == epoch or deed.life.stream_ended_at < self.restored_at or not deed.reads:
            return
        is_loss = deed.action.replaces is not None or deed.action.kind not in ("create-runner", "stop-surplus")
        if is_loss and min(deed.reads.values()) >= self.restored_at:
            return
        if max(deed.reads.values()) > deed.life.stream_ended_at:
            raise BrokenError(2, f"{deed.action.kind} {job_id} was decided on before the servers were restored")

    def _counted(self, environment: str, deed: Deed, epoch: int) -> list[JobKey]:
        """The runners that counted already, and of which its reconciler knew.

        What a restore brought back is news to whoever has not been told of it; whether it should have been told by
        then, is another question.
        """
        counted = []
        policy = deed.policy.for_environment(environment)
        for key, standing in self._truth.runners(environment):
            if self._truth.counts(key, standing, policy):
                at_least = policy.disconnect_policy == "at-least"
                since = standing.counted_since if at_least else standing.there_since
                known = deed.epoch == epoch and (since or 0) <= deed.seen_index
                if known or self._is_own(key, deed):
                    counted.append(key)
        return counted

    def _existing(self, environment: str, deed: Deed, epoch: int) -> int:
        """How many unused runners existed, dead ones too, of which its reconciler knew."""
        jobs, unmarked = self._cluster.state.jobs, self._truth.history.unmarked
        return sum(
            self._is_own(key, deed)
            or (deed.epoch == epoch and max(jobs[key].create_index, unmarked.get(key, 0)) <= deed.seen_index)
            for key, standing in self._truth.runners(environment)
            if not standing.used and not standing.stop
        )

    def _is_own(self, key: JobKey, deed: Deed) -> bool:
        """Whether its reconciler has made a runner since it was last told of anything."""
        made = self.created.get(key[1])
        return made is not None and made.place == deed.life.place.name and made.index > deed.seen_index

    def _check_creation(self, job_id: str, deed: Deed, before: _Before) -> None:
        environment, replaces = deed.action.environment_id, deed.action.replaces
        if before.job is not None:
            raise BrokenError(1, f"{job_id} was created although it existed")
        policy = deed.policy.for_environment(environment)
        limit = before.target + policy.surge
        if len(before.counted) >= limit:
            raise BrokenError(
                3, f"{job_id} was created although environment {environment} had {len(before.counted)} of {limit}"
            )
        most = policy.most_jobs(before.target)
        if before.existing >= most:
            raise BrokenError(3, f"{job_id} was created although {before.existing} exist, and {most} are the most")
        template = self._cluster.state.jobs.get((NAMESPACE, TEMPLATE + environment))
        if template is not None and template.stop and template.job_modify_index <= deed.seen_index:
            raise BrokenError(2, f"{job_id} was created although environment {environment} was stopped")
        if replaces is not None:
            self._check_replacement(job_id, replaces, deed, before)
        lost = self._cluster.state.jobs.get((NAMESPACE, replaces or ""))
        self.created[job_id] = Created(
            job_id,
            self._cluster.state.index,
            deed.life.place.name,
            replaces or "",
            lost.create_index if lost is not None else 0,
        )

    def _check_replacement(self, job_id: str, replaces: str, deed: Deed, before: _Before) -> None:
        job = self._cluster.state.jobs[NAMESPACE, job_id]
        if mark_of(dict(job.spec)).get(REPLACES) != replaces:
            raise BrokenError(1, f"{job_id} does not say that it replaces {replaces}")
        lost = self._cluster.state.jobs.get((NAMESPACE, replaces))
        lost_index = lost.create_index if lost is not None else 0
        for made in self.created.values():
            same_loss = made.replaces == replaces and (lost_index in (0, made.lost_index) or made.lost_index == 0)
            if same_loss and made.job_id != job_id:
                raise BrokenError(1, f"{replaces} was replaced by {made.job_id} and by {job_id}")
        if deed.policy.for_environment(deed.action.environment_id).disconnect_policy != "exactly":
            return
        if (copy := self._obedient(before.processes)) is not None:
            raise BrokenError(5, f"{replaces} was replaced while it still ran on {copy.name}")
        if before.out_of_sight and any(group.raw.get("Volumes") for group in job.groups):
            raise BrokenError(5, f"{replaces} was replaced while its volume may still be claimed for it")

    def _check_mark(self, job_id: str, before: _Before) -> None:
        job = self._cluster.state.jobs[NAMESPACE, job_id]
        assert before.job is not None
        was = pj.config_of(dict(before.job.spec)).get("used")
        now = pj.config_of(dict(job.spec)).get("used")
        if was != now:
            raise BrokenError(2, f"{job_id} was marked used={was}, and protecting it has made that {now}")

    def _check_environment(self, job_id: str, deed: Deed, before: _Before) -> None:
        if before.job is not None and before.job.stop:
            raise BrokenError(2, f"{job_id} was revived although somebody had stopped it")
        policy = deed.policy.for_environment(deed.action.environment_id)
        if policy.disconnect_policy == "exactly" and (copy := self._obedient(before.processes)) is not None:
            raise BrokenError(5, f"{job_id} was revived while it still ran on {copy.name}")

    def _is_wanted(self, local: LocalAllocation) -> bool:
        """Whether the servers want an allocation to run on; else its agent ends it as soon as it hears of that."""
        allocation = self._cluster.state.allocations.get(local.id)
        return allocation is not None and not allocation.terminal

    def _check_removal(self, key: JobKey, deed: Deed, before: _Before) -> None:
        """What is stopped already loses nothing, although somebody may have marked it since: he came too late."""
        standing = before.standing
        if standing is None:
            return
        if standing.is_environment:
            raise BrokenError(2, f"the environment's own job {key[1]} was deregistered")
        if standing.stop or self._is_of_lost_history(key[1], deed):
            return
        if standing.used and any(self._is_wanted(local) for _, local in before.processes):
            raise BrokenError(2, f"{key[1]} was deregistered while it was in use")
        if standing.runs:
            raise BrokenError(2, f"{key[1]} was deregistered although it ran")

    def _is_of_lost_history(self, job_id: str, deed: Deed) -> bool:
        """Whether a job was read, and the servers were restored then, of which its reconciler has had no sign yet."""
        read_at = deed.reads.get(f"job/{job_id}")
        return read_at is not None and max(read_at, deed.life.stream_ended_at) < self.restored_at

    def _obedient(self, processes: list[tuple[Agent, LocalAllocation]]) -> Agent | None:
        """An agent that runs a process and would have stopped it by now, had it been asked to.

        One that is dead or halted itself stops nothing, and nobody can tell from outside. Of what was placed between a
        snapshot and the return to it, the servers themselves know nothing.
        """
        for agent, local in processes:
            forgotten = self.restored_at and local.id not in self._cluster.state.allocations
            if agent.up and not agent.frozen and not forgotten:
                return agent
        return None

    def _check_stop(self, allocation_id: str) -> None:
        allocation = self._cluster.state.allocations.get(allocation_id)
        if allocation is None:
            return
        if not allocation.job.id.startswith(TEMPLATE):
            raise BrokenError(2, f"an allocation of the runner {allocation.job.id} was stopped")
        if allocation.client_status == "running":
            raise BrokenError(2, f"an allocation of {allocation.job.id} was stopped although it ran")

    def _job_id_of(self, request: Request) -> str:
        if request.endpoint == "allocation":
            allocation = self._cluster.state.allocations.get(request.path[0])
            return allocation.job.id if allocation is not None else ""
        if request.method == "delete":
            return request.path[0]
        assert request.body is not None
        document: dict[str, Any] = orjson.loads(request.body)["Job"]
        return str(document["ID"])
