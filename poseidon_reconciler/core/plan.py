"""From verdicts to actions: what each pool lacks, and how much of it may be done now.

Level-triggered: the plan looks at what is, not at what happened, and asking twice without a change asks for nothing.
In order: protect what is at risk (never held back, because it prevents the losses that everything else repairs), then
environments, then runners for the emptiest pools first, then the removal of what is dead for good.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from poseidon_reconciler.core.deficit import Deficit
from poseidon_reconciler.core.diagnosis import Change, Diagnosis, Pool
from poseidon_reconciler.core.events import UNKNOWN
from poseidon_reconciler.core.facts import UNREACHABLE, may_still_run
from poseidon_reconciler.core.ids import refill_id, replacement_id, template_id
from poseidon_reconciler.core.ledger import Action, ActionKind, Ledger
from poseidon_reconciler.core.model import Model
from poseidon_reconciler.core.pace import RateLimit, StormWatch
from poseidon_reconciler.core.pauses import Pauses
from poseidon_reconciler.core.records import Job
from poseidon_reconciler.core.retries import Patience, Retries
from poseidon_reconciler.policy import Policy, format_duration

_REFILLABLE: Final = frozenset({"active", "starting", "recovering", "blocked", "disconnected", "lost"})


class Hold(Struct, frozen=True, gc=False):
    """Something that is wanted and not done. `until` in seconds, None if time alone does not end it; without an
    environment it holds for all.
    """

    environment_id: str | None
    reason: str
    until: float | None


class Planner:
    """Decides on actions. It owns what it needs to remember of its own decisions, and nothing of the cluster.

    Attributes:
        pauses: what is to be left alone; whoever changes them asks for a plan of everything (`reconsider`).
        protects: whether jobs at risk are protected where their policy says so; off for servers that do not end them.
    """

    def __init__(self, model: Model, diagnosis: Diagnosis, policy: Policy) -> None:
        self.ledger = Ledger()
        self.pauses = Pauses(policy)
        self.protects = True
        self._model = model
        self._diagnosis = diagnosis
        self._policy = policy
        pace = policy.pace
        self._storm = StormWatch(pace)
        self._protects = RateLimit(pace.max_protects_per_second)
        self._creates = RateLimit(pace.max_creates_per_second)
        self._removes = RateLimit(pace.max_creates_per_second)
        self._deficits: dict[str, Deficit] = {}
        # Environments for which something may have to be done, now or later.
        self._open: dict[str, None] = {}
        self._to_protect: dict[str, Job] = {}
        self._losses: set[str] = set()
        self._retries = Retries()
        self._revivals = Patience()
        # Creations of which nobody knows whether they came about, to be asked for once more.
        self._repeats: dict[str, Action] = {}
        self._due_at: float | None = None

    def clear(self) -> None:
        """A new epoch of the cluster began: nothing that was decided before holds any more."""
        self.ledger = Ledger()
        self._storm = StormWatch(self._policy.pace)
        self._deficits.clear()
        self._open.clear()
        self._to_protect.clear()
        self._losses.clear()
        self._retries = Retries()
        self._revivals = Patience()
        self._repeats.clear()
        self._due_at = None

    def change_policy(self, policy: Policy) -> None:
        """Plans by another policy from now on."""
        self._policy = self.pauses.policy = policy
        self._storm.policy = policy.pace
        self._protects.change(policy.pace.max_protects_per_second)
        self._creates.change(policy.pace.max_creates_per_second)
        self._removes.change(policy.pace.max_creates_per_second)
        self.reconsider()

    def reconsider(self) -> None:
        """Has the next plan look at every environment again."""
        self._diagnosis.touched.update(dict.fromkeys(self._diagnosis.pools))
        self._to_protect.update(self._diagnosis.at_risk)

    def forget(self, jobs: list[Job]) -> None:
        """Drops what is remembered of jobs that the model has forgotten."""
        for job in jobs:
            self.ledger.forget(job.id)
            self._losses.discard(job.id)
            self._to_protect.pop(job.id, None)

    def next_due(self) -> float | None:
        """When the plan would change if nothing else happened; None if never."""
        retry_at = self._retries.next_at()
        if self._due_at is None or (retry_at is not None and retry_at < self._due_at):
            return retry_at
        return self._due_at

    def succeeded(self, action: Action, index: int) -> None:
        """An action was carried out, or found done; `index` is the Raft index by which every list shows it."""
        self._retries.succeeded(action)
        if action.kind == "create-runner":
            self.ledger.confirm(action.job_id, index)

    def failed(self, action: Action, detail: str, now: float, *, may_be_done: bool = False) -> None:
        """An action did not come about: it may be decided on again, after a while that grows.

        `may_be_done`: nobody knows. A creation is then asked for again under its name, whatever has changed meanwhile:
        under another it could be there twice.
        """
        self._retries.failed(action, detail, now, repeat=may_be_done and action.kind == "create-runner")

    def _allow_again(self, action: Action) -> None:
        if action.kind == "create-runner":
            self.ledger.settle(action.job_id)
            if action.replaces is not None:
                self.ledger.undo("create-runner", action.replaces)
        else:
            self.ledger.undo(action.kind, action.job_id)
            if action.kind == "protect-job" and (job := self._model.jobs.get(action.job_id)) is not None:
                self._to_protect[job.id] = job
        self._diagnosis.touched[action.environment_id] = None

    def observe(self, changes: list[Change], now: float) -> None:
        """Takes note of verdicts that became different, and of nodes."""
        for change in changes:
            job, verdict = change.job, change.verdict
            self.ledger.settle(job.id)
            if verdict.at_risk:
                self._to_protect[job.id] = job
            if job.kind == "environment" and verdict.state != "active":
                self._revivals.ended(job.environment_id, change.before.since if change.before else now, now)
            if verdict.state != "lost":
                # Looked at once more by Nomad, a dead job is not lost a second time.
                if verdict.state != "recovering":
                    self._losses.discard(job.id)
            elif job.id not in self._losses:
                self._losses.add(job.id)
                self._storm.runner_lost(job.id, now)
        if self._model.nodes_changed:
            for node in self._model.nodes_changed.values():
                self._storm.node_changed(node.id, lost=node.status in UNREACHABLE, now=now)
            self._model.nodes_changed.clear()
            # There may be room now where there was none.
            self._due_at = now
        if self._storm.needs_update(now):
            self._storm.update(self._diagnosis.runners, self._known_nodes(), now)

    def plan(self, now: float) -> list[Action]:
        """The actions to take at `now`."""
        for action, repeat in self._retries.due(now):
            if repeat:
                self._repeats[action.job_id] = action
            else:
                self._allow_again(action)
        touched = self._diagnosis.touched
        due = self._due_at is not None and self._due_at <= now
        if not (touched or due or self._to_protect or self._repeats):
            return []
        for environment_id in touched:
            self._assess(environment_id, now)
        self._diagnosis.touched = {}
        self._due_at = None
        actions = self._protect(now)
        if self._storm.since is not None:
            self._wake_at(self._storm.until)
            return actions
        if self._repeats:
            actions += self._repeat(now)
        if self._open:
            actions += self._repair(now)
        return actions

    def holds(self, now: float) -> list[Hold]:
        """What is wanted and not done at `now`, and until when."""
        holds = []
        if self._storm.since is not None and self._open:
            holds.append(Hold(None, "storm: many runners or nodes were lost together", self._storm.until))
        for environment_id in self._diagnosis.pools:
            holds += self._environment_holds(environment_id, now)
        for action, detail, until in self._retries.waiting():
            holds.append(Hold(action.environment_id, f"{action.kind} {action.job_id}: {detail}", until))
        return holds

    @property
    def storm(self) -> tuple[float, float] | None:
        """When the present storm began and when it ends if nothing else happens; None while there is none."""
        since, until = self._storm.since, self._storm.until
        return (since, until) if since is not None and until is not None else None

    def deficit(self, environment_id: str) -> int:
        """How many runners an environment lacks, those that are asked for not counted as lacking."""
        deficit = self._deficits.get(environment_id)
        return deficit.size if deficit is not None else 0

    # --- what is wanted ------------------------------------------------------------------------------------------

    def target(self, environment_id: str) -> int | None:
        """The target of a pool that is to be kept; None if it is not (stopped, missing) or has none."""
        environment = self._model.environments.get(environment_id)
        template = environment.template if environment is not None else None
        if template is None or self._diagnosis.environment_state(environment_id)[0] not in _REFILLABLE:
            return None
        return template.target

    def _assess(self, environment_id: str, now: float) -> None:
        """Brings up to date what an environment lacks, and whether anything is to be done about it."""
        pool = self._diagnosis.pools.get(environment_id)
        if pool is None:
            self._deficits.pop(environment_id, None)
            self._open.pop(environment_id, None)
            return
        target = self.target(environment_id)
        lacking = 0
        if target is not None:
            lacking = max(0, target - pool.counting - self.ledger.expected_in(environment_id))
        deficit = self._deficits.get(environment_id)
        if deficit is None:
            deficit = self._deficits[environment_id] = Deficit()
        if lacking != deficit.size:
            deficit.set(lacking, now)
        if lacking or pool.lost or self._environment_action(environment_id) is not None:
            self._open[environment_id] = None
        else:
            self._open.pop(environment_id, None)

    def _environment_action(self, environment_id: str) -> ActionKind | None:
        """What an environment's own job needs."""
        state, _, cause = self._diagnosis.environment_state(environment_id)
        if state not in ("lost", "missing"):
            return None
        environment = self._model.environments.get(environment_id)
        template = environment.template if environment is not None else None
        if template is None:
            return None
        if state == "lost":
            done = self.ledger.is_done("revive-environment", template.id, _life(template))
            return None if done else "revive-environment"
        # A purge is somebody's will. Only a job that was dead and then cleared away left by no will at all.
        cleared = cause == "collected" or (cause == "vanished" and template.status == "dead")
        if not cleared or not template.whole:
            return None
        done = self.ledger.is_done("restore-environment", template.id, template.gone_index)
        return None if done else "restore-environment"

    # --- what is done --------------------------------------------------------------------------------------------

    def _protect(self, now: float) -> list[Action]:
        actions = []
        for job in sorted(self._to_protect.values(), key=lambda job: job.kind):  # environments first
            if self._wants_protection(job):
                if self._is_paused(job.environment_id, now) or self._would_double(job, now):
                    continue
                if not self._protects.take(now):
                    self._wake_at(self._protects.next_at())
                    break
                self.ledger.do_once("protect-job", job.id, job.job_modify_index)
                reason = "Nomad would end it at its next evaluation, for an old allocation that passes for its success"
                actions.append(Action(now, "protect-job", job.environment_id, job.id, reason))
            del self._to_protect[job.id]
        return actions

    def _would_double(self, job: Job, now: float) -> bool:
        """Whether a new version would have Nomad place the job while an old copy of it may run, where that must not be.

        Nomad itself waits for the old copy's stop; the evaluation of a new version does not.
        """
        facts = self._diagnosis.facts(job, now)
        if facts.policy.disconnect_policy != "exactly" or facts.placed or not may_still_run.holds(facts):
            return False
        self._wake_at(facts.old_copies_end_at)
        return True

    def _wants_protection(self, job: Job) -> bool:
        return (
            self.protects
            and job.id in self._diagnosis.at_risk
            and self._policy.for_environment(job.environment_id).protect
            and not self.ledger.is_done("protect-job", job.id, job.job_modify_index)
        )

    def _repeat(self, now: float) -> list[Action]:
        """Asks once more for what may have been created, where it is still lacking, within the same bounds."""
        actions = []
        for action in list(self._repeats.values()):
            if self.ledger.is_expected(action.job_id):
                if self._is_paused(action.environment_id, now):
                    continue
                if self._is_too_much(action.environment_id):
                    # If it is there, it is too much; if the next list does not have it, it was never made.
                    self.ledger.confirm(action.job_id, self._model.index)
                elif self._room_to_start() < 0:
                    continue
                elif not self._creates.take(now):
                    self._wake_at(self._creates.next_at())
                    break
                else:
                    actions.append(replace(action, at=now))
            del self._repeats[action.job_id]
        return actions

    def _is_too_much(self, environment_id: str) -> bool:
        target = self.target(environment_id)
        pool = self._diagnosis.pools.get(environment_id)
        if target is None or pool is None:
            return True
        return pool.counting + self.ledger.expected_in(environment_id) > target

    def _repair(self, now: float) -> list[Action]:
        actions: list[Action] = []
        wanting = [environment_id for environment_id in self._open if not self._is_paused(environment_id, now)]
        for environment_id in wanting:
            actions += self._mend_environment(environment_id, now)
        for pool in sorted(map(self._diagnosis.pools.__getitem__, wanting), key=self._fullness):
            actions += self._create(pool, self._room_to_start(), now)
        for environment_id in wanting:
            actions += self._remove(self._diagnosis.pools[environment_id], now)
            self._assess(environment_id, now)
        return actions

    def _is_paused(self, environment_id: str, now: float) -> bool:
        pause = self.pauses.of(environment_id, now)
        if pause is not None:
            self._wake_at(pause.until)
        return pause is not None

    def _fullness(self, pool: Pool) -> tuple[float, str]:
        return pool.count("idle") / max(1, self.target(pool.environment_id) or 0), pool.environment_id

    def _mend_environment(self, environment_id: str, now: float) -> list[Action]:
        kind = self._environment_action(environment_id)
        if kind is None:
            return []
        job_id = template_id(environment_id)
        job = self._model.jobs[job_id]
        if kind == "revive-environment":
            ready_at = self._revivals.ready_at(environment_id)
            if now < ready_at:
                self._wake_at(ready_at)
                return []
            self._revivals.tried(environment_id, now)
            self.ledger.do_once(kind, job_id, _life(job))
            reason = f"the environment's own job is lost and not stopped: {self._diagnosis.verdicts[job_id].cause}"
        else:
            self.ledger.do_once(kind, job_id, job.gone_index)
            reason = f"the environment's own job was dead and is {job.gone}, its runners are still there"
        return [Action(now, kind, environment_id, job_id, reason)]

    def _create(self, pool: Pool, room: int, now: float) -> list[Action]:
        environment_id = pool.environment_id
        deficit = self._deficits[environment_id]
        settle_s = self._policy.for_environment(environment_id).settle_s
        ready = deficit.older_than(settle_s, now)
        if deficit.size > ready:
            self._wake_at(deficit.next_at(settle_s, now))
        actions: list[Action] = []
        losses = self._unreplaced(pool) if ready else []
        free_ids = self._free_refill_ids(environment_id)
        while len(actions) < min(ready, room):
            if not self._creates.take(now):
                self._wake_at(self._creates.next_at())
                break
            if losses:
                actions.append(self._replacement(losses.pop(), now))
            else:
                reason = f"the pool is {deficit.size} short of its target {self.target(environment_id)}"
                actions.append(Action(now, "create-runner", environment_id, next(free_ids), reason))
            self.ledger.expect(actions[-1].job_id, environment_id)
            deficit.fill()
        return actions

    def _replacement(self, lost: Job, now: float) -> Action:
        job_id = replacement_id(lost.environment_id, lost.id, lost.create_index)
        reason = f"replaces a runner that is lost: {self._diagnosis.verdicts[lost.id].cause}"
        self.ledger.do_once("create-runner", lost.id, lost.create_index)
        return Action(now, "create-runner", lost.environment_id, job_id, reason, replaces=lost.id)

    def _unreplaced(self, pool: Pool) -> list[Job]:
        """The losses that nothing stands for yet, the oldest last."""
        losses = [job for job in pool.lost.values() if not job.used and not self._is_replaced(job)]
        return losses[::-1]

    def _is_replaced(self, job: Job) -> bool:
        if self.ledger.is_done("create-runner", job.id, job.create_index):
            return True
        return replacement_id(job.environment_id, job.id, job.create_index) in self._model.jobs

    def _free_refill_ids(self, environment_id: str) -> Iterator[str]:
        """The names of the pool that are not in use: the same for everybody who sees the same."""
        version = self._model.jobs[template_id(environment_id)].job_modify_index
        for number in itertools.count():
            job_id = refill_id(environment_id, version, number)
            if job_id not in self._model.jobs and not self.ledger.is_expected(job_id):
                yield job_id

    def _room_to_start(self) -> int:
        """How many more runners may be starting at once, over all environments."""
        nodes = [node for node in self._model.nodes.values() if node.status]
        ready = sum(node.status == "ready" and not node.draining for node in nodes) if nodes else 1
        starting = sum(pool.count("starting") for pool in self._diagnosis.pools.values())
        return self._policy.pace.max_starting_per_node * ready - starting - self.ledger.expected_total

    def _remove(self, pool: Pool, now: float) -> list[Action]:
        actions = []
        for job in pool.lost.values():
            if self.ledger.is_done("remove-job", job.id, job.create_index) or _may_still_serve(job):
                continue
            if not self._removes.take(now):
                self._wake_at(self._removes.next_at())
                break
            self.ledger.do_once("remove-job", job.id, job.create_index)
            reason = f"lost for good: {self._diagnosis.verdicts[job.id].cause}"
            actions.append(Action(now, "remove-job", pool.environment_id, job.id, reason))
        return actions

    # --- why something is not done -------------------------------------------------------------------------------

    def _environment_holds(self, environment_id: str, now: float) -> list[Hold]:
        state, _, _ = self._diagnosis.environment_state(environment_id)
        pool = self._diagnosis.pools[environment_id]
        pause = self.pauses.of(environment_id, now)
        if pause is not None:
            return [Hold(environment_id, f"paused: {pause.reason}", pause.until)]
        holds = []
        if state == "stopped" and pool.has_runners:
            holds.append(Hold(environment_id, "the environment was stopped by somebody: hands off", None))
        elif state == "missing":
            holds.append(
                Hold(environment_id, "no job of the environment is known: runners are kept, not refilled", None)
            )
        elif now < self._revivals.ready_at(environment_id) and self._environment_action(environment_id) is not None:
            reason = "the environment's own job died again and again: it is revived after longer and longer waits"
            holds.append(Hold(environment_id, reason, self._revivals.ready_at(environment_id)))
        elif state in _REFILLABLE and self.target(environment_id) is None:
            holds.append(Hold(environment_id, "prewarmingPoolSize is unknown or no number", None))
        if self.deficit(environment_id) and self._storm.since is None:
            holds.append(self._deficit_hold(environment_id, now))
        serving = sum(_may_still_serve(job) for job in pool.lost.values())
        if serving:
            holds.append(Hold(environment_id, f"{serving} used runners may still run on nodes out of reach", None))
        return holds

    def _deficit_hold(self, environment_id: str, now: float) -> Hold:
        deficit = self._deficits[environment_id]
        settle_s = self._policy.for_environment(environment_id).settle_s
        if not deficit.older_than(settle_s, now):
            reason = f"{deficit.size} runners short, for less than {format_duration(settle_s)}: Poseidon goes first"
            return Hold(environment_id, reason, deficit.next_at(settle_s, now))
        if self._room_to_start() <= 0:
            return Hold(environment_id, f"{deficit.size} runners short, enough are starting on the ready nodes", None)
        reason = f"{deficit.size} runners short, the next within the rate"
        return Hold(environment_id, reason, max(now, self._creates.next_at()))

    # --- time ----------------------------------------------------------------------------------------------------

    def _known_nodes(self) -> int:
        return sum(bool(node.status) and node.status != "gone" for node in self._model.nodes.values())

    def _wake_at(self, at: float | None) -> None:
        if at is not None and (self._due_at is None or at < self._due_at):
            self._due_at = at


def _life(template: Job) -> int:
    """The Raft index at which a job's present life began: of its version, or of an allocation that was placed later."""
    current = template.current
    return max(template.job_modify_index, current.data.create_index if current is not None else UNKNOWN)


def _may_still_serve(job: Job) -> bool:
    """Whether a lost runner that was claimed may still run somewhere beyond reach, with a learner at work."""
    return job.used and job.current is not None and job.current.placed
