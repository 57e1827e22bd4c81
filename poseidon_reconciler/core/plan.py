"""From verdicts to actions: what each pool lacks, and how much of it may be done now.

Level-triggered: the plan looks at what is, not at what happened, and asking twice without a change asks for nothing.
In order: protect what is at risk (never held back, because it prevents the losses that everything else repairs), then
environments, then runners for the emptiest pools first, then the removal of what is dead for good or too much.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from msgspec.structs import replace

from poseidon_reconciler.core.deficit import Deficit
from poseidon_reconciler.core.desk import Desk
from poseidon_reconciler.core.diagnosis import Change, Diagnosis, Pool
from poseidon_reconciler.core.events import UNKNOWN
from poseidon_reconciler.core.facts import UNREACHABLE
from poseidon_reconciler.core.ids import refill_id, replacement_id, template_id
from poseidon_reconciler.core.ledger import Action, ActionKind, ActionOutcome, Ledger
from poseidon_reconciler.core.model import Model
from poseidon_reconciler.core.pace import RateLimit, StormWatch
from poseidon_reconciler.core.pauses import Pauses
from poseidon_reconciler.core.poison import Poison
from poseidon_reconciler.core.protection import Protection
from poseidon_reconciler.core.records import Job
from poseidon_reconciler.core.retries import Patience, Retries
from poseidon_reconciler.core.surplus import Surplus
from poseidon_reconciler.policy import Policy


class Planner:
    """Decides on actions. It owns what it needs to remember of its own decisions, and nothing of the cluster.

    Attributes:
        desk: what all parts of the plan look at.
        protection: which jobs are protected.
        imagines: whether nothing of what is decided is carried out (a dry run): what is asked for never starts, and
            must not take the room of what else would be asked for.
        storm, poison, surplus, revivals, retries, creates: what holds decisions back, and why.
    """

    def __init__(self, model: Model, diagnosis: Diagnosis, policy: Policy) -> None:
        self.desk = Desk(model, diagnosis, policy)
        self.imagines = False
        self.protection = Protection(self.desk)
        self.surplus = Surplus(self.desk)
        pace = policy.pace
        self.storm = StormWatch(pace)
        self.creates = RateLimit(pace.max_creates_per_second)
        self._removes = RateLimit(pace.max_creates_per_second)
        self._deficits: dict[str, Deficit] = {}
        # Environments for which something may have to be done, now or later.
        self._open: dict[str, None] = {}
        self._losses: set[str] = set()
        self.poison = Poison()
        self.retries = Retries()
        self.revivals = Patience()
        # Creations of which nobody knows whether they came about, to be asked for once more.
        self._repeats: dict[str, Action] = {}

    @property
    def ledger(self) -> Ledger:
        """What was asked for and not seen yet."""
        return self.desk.ledger

    @property
    def pauses(self) -> Pauses:
        """What is to be left alone; whoever changes them asks for a plan of everything (`reconsider`)."""
        return self.desk.pauses

    def clear(self) -> None:
        """A new epoch of the cluster began: nothing that was decided before holds any more."""
        self.desk.ledger = Ledger()
        self.desk.alarm.clear()
        self.protection.clear()
        self.surplus.clear()
        self.storm = StormWatch(self.desk.policy.pace)
        self._deficits.clear()
        self._open.clear()
        self._losses.clear()
        self.poison = Poison()
        self.retries = Retries()
        self.revivals = Patience()
        self._repeats.clear()

    def change_policy(self, policy: Policy) -> None:
        """Plans by another policy from now on."""
        self.desk.policy = self.pauses.policy = policy
        self.storm.change_policy(policy.pace)
        self.protection.rate.change(policy.pace.max_protects_per_second)
        for rate in (self.creates, self._removes, self.surplus.rate):
            rate.change(policy.pace.max_creates_per_second)
        self.reconsider()

    def reconsider(self) -> None:
        """Has the next plan look at every environment again."""
        self._diagnosis.touched.update(dict.fromkeys(self._diagnosis.pools))
        self.protection.consider(self._diagnosis.at_risk.values())
        self.desk.alarm.set(0.0)

    def forget(self, jobs: list[Job]) -> None:
        """Drops what is remembered of jobs that the model has forgotten."""
        for job in jobs:
            self.ledger.forget(job.id)
            self.poison.forget(job.id)
            self.protection.forget(job.id)
            self._losses.discard(job.id)

    def next_due(self) -> float | None:
        """When the plan would change if nothing else happened; None if never."""
        return min((at for at in (self.desk.alarm.at, self.retries.next_at()) if at is not None), default=None)

    # --- what became of actions ----------------------------------------------------------------------------------

    def take_outcome(self, action: Action, outcome: ActionOutcome, now: float) -> None:
        """Takes note of what became of an action.

        One that did not come about may be decided on again, after a while that grows. Where nobody knows whether it
        did, a creation is asked for again under its name, whatever has changed meanwhile: under another it could be
        there twice.
        """
        if outcome.trouble:
            self.poison.explain(action.environment_id, outcome.trouble)
        if outcome.result != "done":
            repeat = outcome.result == "unknown" and action.kind == "create-runner"
            self.retries.failed(action, outcome.detail, now, repeat=repeat)
            return
        self.retries.succeeded(action)
        if action.kind == "create-runner":
            # By that index every list shows it.
            self.ledger.confirm(action.job_id, outcome.index if outcome.index != UNKNOWN else self._model.index)

    def _allow_again(self, action: Action) -> None:
        if action.kind == "create-runner":
            self.ledger.settle(action.job_id)
            if action.replaces is not None:
                self.ledger.undo("create-runner", action.replaces)
        else:
            self.ledger.undo(action.kind, action.job_id)
            if action.kind == "protect-job" and (job := self._model.jobs.get(action.job_id)) is not None:
                self.protection.consider([job])
        self._diagnosis.touched[action.environment_id] = None

    # --- what is so ----------------------------------------------------------------------------------------------

    def observe(self, changes: list[Change], now: float) -> None:
        """Takes note of verdicts that became different, and of nodes."""
        for change in changes:
            job, verdict = change.job, change.verdict
            self.ledger.settle(job.id)
            spoiled = self.poison.observe(change, now)
            self.surplus.observe(change, now)
            if verdict.at_risk:
                self.protection.consider([job])
            if job.kind == "environment" and verdict.state != "active":
                self.revivals.ended(job.environment_id, change.before.since if change.before else now, now)
            if verdict.state != "lost":
                # Looked at once more by Nomad, a dead job is not lost a second time.
                if verdict.state != "recovering":
                    self._losses.discard(job.id)
            elif job.id not in self._losses:
                self._losses.add(job.id)
                if not spoiled:
                    self.storm.runner_lost(job.id, now)
        if self._model.nodes_changed:
            for node in self._model.nodes_changed.values():
                self.storm.node_changed(node.id, lost=node.status in UNREACHABLE, now=now)
            self._model.nodes_changed.clear()
            # There may be room now where there was none.
            self.desk.alarm.set(now)
        if self.storm.needs_update(now):
            self.storm.update(self._diagnosis.runners, self._known_nodes(), now)

    def plan(self, now: float) -> list[Action]:
        """The actions to take at `now`."""
        for waited in self.retries.due(now):
            if waited.repeat:
                self._repeats[waited.action.job_id] = waited.action
            else:
                self._allow_again(waited.action)
        touched, alarm = self._diagnosis.touched, self.desk.alarm
        if not (touched or self.protection or self._repeats or (alarm.at is not None and alarm.at <= now)):
            return []
        for environment_id in touched:
            self._assess(environment_id, now)
        self._diagnosis.touched = {}
        alarm.clear()
        actions = self.protection.plan(now)
        if self.storm.since is not None:
            alarm.set(self.storm.until)
            return actions
        if self._repeats:
            actions += self._repeat(now)
        if self._open:
            actions += self._repair(now)
        return actions

    def deficit(self, environment_id: str) -> int:
        """How many runners an environment lacks, those that are asked for not counted as lacking."""
        deficit = self._deficits.get(environment_id)
        return deficit.size if deficit is not None else 0

    def lacking(self, environment_id: str) -> Deficit | None:
        """What an environment lacks, by age; None if nothing."""
        deficit = self._deficits.get(environment_id)
        return deficit if deficit is not None and deficit.size else None

    def is_wanting(self) -> bool:
        """Whether anything is to be done that is not protection, now or later."""
        return bool(self._open)

    def _assess(self, environment_id: str, now: float) -> None:
        """Brings up to date what an environment lacks, and whether anything is to be done about it."""
        self.poison.look(environment_id, now)
        self.surplus.assess(environment_id, now)
        pool = self._diagnosis.pools.get(environment_id)
        if pool is None:
            self._deficits.pop(environment_id, None)
            self._open.pop(environment_id, None)
            return
        target = self.desk.target(environment_id)
        lacking = self._lacking(pool, target) if target is not None else 0
        deficit = self._deficits.get(environment_id)
        if deficit is None:
            deficit = self._deficits[environment_id] = Deficit()
        if lacking != deficit.size:
            deficit.set(lacking, now)
        mending = self.environment_action(environment_id) is not None
        if lacking or pool.lost or mending or self.surplus.is_wanted(environment_id):
            self._open[environment_id] = None
        else:
            self._open.pop(environment_id, None)

    def _lacking(self, pool: Pool, target: int) -> int:
        """How many runners to order: what is missing, and within the surge what Nomad has yet to bring back."""
        return max(0, self._limit(pool, target) - pool.counting - self.ledger.expected_in(pool.environment_id))

    def _limit(self, pool: Pool, target: int) -> int:
        """How many runners may be idle or coming by our doing."""
        return target + min(self.desk.policy_of(pool.environment_id).surge, pool.count("recovering"))

    def environment_action(self, environment_id: str) -> ActionKind | None:
        """What an environment's own job needs."""
        state, _, cause = self._diagnosis.environment_state(environment_id)
        if state not in ("lost", "missing"):
            return None
        template = self.desk.template_of(environment_id)
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

    def room_to_start(self) -> int:
        """How many more runners may be starting at once, over all environments."""
        nodes = [node for node in self._model.nodes.values() if node.status]
        ready = sum(node.status == "ready" and not node.draining for node in nodes) if nodes else 1
        starting = sum(pool.count("starting") for pool in self._diagnosis.pools.values())
        expected = self.ledger.expected_total if not self.imagines else 0
        return self.desk.policy.pace.max_starting_per_node * ready - starting - expected

    def room_in(self, environment_id: str) -> int:
        """How many more runners an environment may have in existence, dead ones and expected ones counted."""
        pool, target = self._diagnosis.pools[environment_id], self.desk.target(environment_id) or 0
        existing = sum(number for state, number in pool.states.items() if state not in ("gone", "used"))
        most = self.desk.policy_of(environment_id).most_jobs(target)
        return most - existing - self.ledger.expected_in(environment_id)

    # --- what is done --------------------------------------------------------------------------------------------

    def _repeat(self, now: float) -> list[Action]:
        """Asks once more for what may have been created, where it is still lacking, within the same bounds."""
        actions = []
        for action in list(self._repeats.values()):
            if self.ledger.is_expected(action.job_id):
                if self.desk.is_paused(action.environment_id, now):
                    continue
                if self._is_too_much(action.environment_id):
                    # If it is there, it is too much; if the next list does not have it, it was never made.
                    self.ledger.confirm(action.job_id, self._model.index)
                elif self.room_to_start() < 0:
                    continue
                elif not self.creates.take(now):
                    self.desk.alarm.set(self.creates.next_at())
                    break
                else:
                    actions.append(replace(action, at=now))
            del self._repeats[action.job_id]
        return actions

    def _is_too_much(self, environment_id: str) -> bool:
        target = self.desk.target(environment_id)
        pool = self._diagnosis.pools.get(environment_id)
        if target is None or pool is None:
            return True
        return pool.counting + self.ledger.expected_in(environment_id) > self._limit(pool, target)

    def _repair(self, now: float) -> list[Action]:
        actions: list[Action] = []
        wanting = [environment_id for environment_id in self._open if not self.desk.is_paused(environment_id, now)]
        for environment_id in wanting:
            actions += self._mend_environment(environment_id, now)
        for pool in sorted(map(self._diagnosis.pools.__getitem__, wanting), key=self._fullness):
            actions += self._create(pool, now)
        for environment_id in wanting:
            actions += self._remove(self._diagnosis.pools[environment_id], now)
            actions += self.surplus.plan(environment_id, now)
            self._assess(environment_id, now)
        return actions

    def _fullness(self, pool: Pool) -> tuple[float, str]:
        return pool.count("idle") / max(1, self.desk.target(pool.environment_id) or 0), pool.environment_id

    def _mend_environment(self, environment_id: str, now: float) -> list[Action]:
        kind = self.environment_action(environment_id)
        if kind is None:
            return []
        job_id = template_id(environment_id)
        job = self._model.jobs[job_id]
        if kind == "revive-environment":
            ready_at = self.revivals.ready_at(environment_id)
            if now < ready_at:
                self.desk.alarm.set(ready_at)
                return []
            self.revivals.tried(environment_id, now)
            self.ledger.do_once(kind, job_id, _life(job))
            reason = f"the environment's own job is lost and not stopped: {self._diagnosis.verdicts[job_id].cause}"
        else:
            self.ledger.do_once(kind, job_id, job.gone_index)
            reason = f"the environment's own job was dead and is {job.gone}, its runners are still there"
        return [Action(now, kind, environment_id, job_id, reason)]

    def _create(self, pool: Pool, now: float) -> list[Action]:
        environment_id = pool.environment_id
        deficit = self._deficits[environment_id]
        settle_s = self.desk.policy_of(environment_id).settle_s
        ready = deficit.older_than(settle_s, now)
        if deficit.size > ready:
            self.desk.alarm.set(deficit.next_at(settle_s, now))
        room = min(self.room_to_start(), self.room_in(environment_id), self._trust(pool, now)) if ready else 0
        actions: list[Action] = []
        losses = self._unreplaced(pool) if ready else []
        free_ids = self._free_refill_ids(environment_id)
        while len(actions) < min(ready, room):
            if not self.creates.take(now):
                self.desk.alarm.set(self.creates.next_at())
                break
            if losses:
                actions.append(self._replacement(losses.pop(), now))
            else:
                reason = f"the pool is {deficit.size} short of its target {self.desk.target(environment_id)}"
                actions.append(Action(now, "create-runner", environment_id, next(free_ids), reason))
            self.ledger.expect(actions[-1].job_id, environment_id)
            deficit.fill()
        return actions

    def _trust(self, pool: Pool, now: float) -> int:
        """How many runners an environment is trusted with: one at a time while its new ones fail, else all."""
        poisoning = self.poison.of(pool.environment_id)
        if poisoning is None:
            return self.room_in(pool.environment_id)
        if now < poisoning.ready_at:
            self.desk.alarm.set(poisoning.ready_at)
            return 0
        self.desk.alarm.set(self.poison.proven_at(pool.environment_id))
        return 1 - self.on_trial(pool)

    def on_trial(self, pool: Pool) -> int:
        """How many runners of a poisoned environment have yet to show that they run."""
        coming = sum(pool.count(state) for state in ("starting", "recovering", "blocked"))
        young = self.poison.proven_at(pool.environment_id) is not None
        return coming + young + self.ledger.expected_in(pool.environment_id)

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

    def _remove(self, pool: Pool, now: float) -> list[Action]:
        actions = []
        for job in pool.lost.values():
            if self.ledger.is_done("remove-job", job.id, job.create_index) or may_still_serve(job):
                continue
            if not self._removes.take(now):
                self.desk.alarm.set(self._removes.next_at())
                break
            self.ledger.do_once("remove-job", job.id, job.create_index)
            reason = f"lost for good: {self._diagnosis.verdicts[job.id].cause}"
            actions.append(Action(now, "remove-job", pool.environment_id, job.id, reason))
        return actions

    # --- what it looks at ----------------------------------------------------------------------------------------

    @property
    def _model(self) -> Model:
        return self.desk.model

    @property
    def _diagnosis(self) -> Diagnosis:
        return self.desk.diagnosis

    def _known_nodes(self) -> int:
        return sum(bool(node.status) and node.status != "gone" for node in self._model.nodes.values())


def _life(template: Job) -> int:
    """The Raft index at which a job's present life began: of its version, or of an allocation that was placed later."""
    current = template.current
    return max(template.job_modify_index, current.data.create_index if current is not None else UNKNOWN)


def may_still_serve(job: Job) -> bool:
    """Whether a lost runner that was claimed may still run somewhere beyond reach, with a learner at work."""
    return job.used and job.current is not None and job.current.placed
