"""From verdicts to actions: what each pool lacks, and how much of it may be done now.

Level-triggered: the plan looks at what is, not at what happened, and asking twice without a change asks for nothing.
In order: protect what is at risk (never held back, because it prevents the losses that everything else repairs), then
environments, then runners for the emptiest pools first, then the removal of what is dead for good or too much.
"""

from __future__ import annotations

from poseidon_reconciler.core.decisions import Decisions
from poseidon_reconciler.core.desk import Desk
from poseidon_reconciler.core.diagnosis import Change, Diagnosis, Pool
from poseidon_reconciler.core.events import UNKNOWN
from poseidon_reconciler.core.ids import template_id
from poseidon_reconciler.core.ledger import Action, ActionKind, ActionOutcome, Ledger
from poseidon_reconciler.core.model import Model
from poseidon_reconciler.core.pace import RateLimit, StormWatch
from poseidon_reconciler.core.pauses import Pauses
from poseidon_reconciler.core.protection import Protection
from poseidon_reconciler.core.records import UNREACHABLE, Job
from poseidon_reconciler.core.refill import Refill
from poseidon_reconciler.core.retries import Patience, Retries
from poseidon_reconciler.core.surplus import Surplus
from poseidon_reconciler.policy import Policy


class Planner:
    """Decides on actions. It owns what it needs to remember of its own decisions, and nothing of the cluster.

    Attributes:
        desk: what all parts of the plan look at.
        protection, refill, surplus: which jobs are protected, created, and stopped.
        storm, revivals, retries: what holds decisions back, and until when.
        decisions: what was decided lately, to be told; kept over a new epoch, because it was decided all the same.
    """

    def __init__(self, model: Model, diagnosis: Diagnosis, policy: Policy) -> None:
        self.desk = Desk(model, diagnosis, policy)
        self.protection = Protection(self.desk)
        self.refill = Refill(self.desk)
        self.surplus = Surplus(self.desk)
        self.storm = StormWatch(policy.pace)
        self._removes = RateLimit(policy.pace.max_creates_per_second)
        # Environments for which something may have to be done, now or later.
        self._open: dict[str, None] = {}
        self._losses: set[str] = set()
        self.retries = Retries()
        self.revivals = Patience()
        self.decisions = Decisions()

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
        for part in (self.protection, self.refill, self.surplus):
            part.clear()
        self.storm = StormWatch(self.desk.policy.pace)
        self._open.clear()
        self._losses.clear()
        self.retries = Retries()
        self.revivals = Patience()

    def change_policy(self, policy: Policy) -> None:
        """Plans by another policy from now on."""
        self.desk.policy = self.pauses.policy = policy
        self.storm.change_policy(policy.pace)
        self.protection.rate.change(policy.pace.max_protects_per_second)
        for rate in (self.refill.rate, self._removes, self.surplus.rate):
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
            self.decisions.forget(job.id)
            self.refill.poison.forget(job.id)
            self.protection.forget(job.id)
            self._losses.discard(job.id)

    def next_due(self) -> float | None:
        """When the plan would change if nothing else happened; None if never."""
        return min((at for at in (self.desk.alarm.at, self.retries.next_at()) if at is not None), default=None)

    # --- what became of actions ----------------------------------------------------------------------------------

    def take_outcome(self, action: Action, outcome: ActionOutcome, now: float) -> None:
        """Takes note of what became of an action.

        One that did not come about may be decided on again, after a while that grows, or at once if it was not even
        begun. Where nobody knows whether it did, a creation is asked for again under its name, whatever has changed
        or failed meanwhile: under another it could be there twice.
        """
        self.decisions.ended(action, outcome, now)
        self.ledger.written_index = max(self.ledger.written_index, outcome.index)
        if outcome.trouble:
            self.refill.poison.explain(action.environment_id, outcome.trouble)
        if outcome.result == "unknown" and action.kind == "create-runner":
            self.ledger.doubt(action.job_id)
        if outcome.result == "withdrawn":
            self._allow_again(action)
            return
        if outcome.result != "done":
            self.retries.failed(action, outcome.detail, now)
            return
        self.retries.succeeded(action)
        if action.kind == "create-runner":
            # By that index every list shows it.
            self.ledger.confirm(action.job_id, outcome.index if outcome.index != UNKNOWN else self._model.index)

    def _allow_again(self, action: Action) -> None:
        if self.ledger.is_in_doubt(action.job_id):
            self.refill.repeat_later(action)
        elif action.kind == "create-runner":
            # One that is expected no more was seen.
            if self.ledger.is_expected(action.job_id) and action.replaces is not None:
                self.ledger.undo("create-runner", action.replaces)
            self.ledger.settle(action.job_id)
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
            if change.before is not None and change.before.state == "gone":
                # Whoever brought it back has undone that.
                self.ledger.undo("stop-surplus", job.id)
                self.ledger.undo("remove-job", job.id)
            spoiled = self.refill.poison.observe(change, now)
            self.surplus.observe(change)
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
        actions = self._plan(now)
        self.decisions.note(actions)
        return actions

    def _plan(self, now: float) -> list[Action]:
        for waited in self.retries.due(now):
            self._allow_again(waited.action)
        touched, alarm = self._diagnosis.touched, self.desk.alarm
        if not (touched or self.protection or self.refill.repeats or (alarm.at is not None and alarm.at <= now)):
            return []
        for environment_id in touched:
            self._assess(environment_id, now)
        self._diagnosis.touched = {}
        alarm.clear()
        actions = self.protection.plan(now)
        if self.storm.since is not None:
            alarm.set(self.storm.until)
            return actions
        actions += self.refill.repeat(now)
        if self._open:
            actions += self._repair(now)
        return actions

    def deficit(self, environment_id: str) -> int:
        """How many runners an environment lacks, those that are asked for not counted as lacking."""
        deficit = self.refill.lacking(environment_id)
        return deficit.size if deficit is not None else 0

    def is_wanting(self) -> bool:
        """Whether anything is to be done that is not protection, now or later."""
        return bool(self._open)

    def _assess(self, environment_id: str, now: float) -> None:
        """Brings up to date what an environment lacks, and whether anything is to be done about it."""
        pool = self._diagnosis.pools.get(environment_id)
        if pool is None:
            self._open.pop(environment_id, None)
            self.refill.forget_environment(environment_id)
            self.surplus.forget_environment(environment_id)
            self.retries.forget_environment(environment_id)
            self.ledger.forget_environment(environment_id)
            self.revivals.forget(environment_id)
            return
        self.refill.assess(environment_id, now)
        self.surplus.assess(environment_id, now)
        mending = self.environment_action(environment_id) is not None
        lacking = self.deficit(environment_id) > 0
        if lacking or pool.lost or mending or self.surplus.is_wanted(environment_id):
            self._open[environment_id] = None
        else:
            self._open.pop(environment_id, None)

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

    # --- what is done --------------------------------------------------------------------------------------------

    def _repair(self, now: float) -> list[Action]:
        actions: list[Action] = []
        wanting = [environment_id for environment_id in self._open if not self.desk.is_paused(environment_id, now)]
        for environment_id in wanting:
            actions += self._mend_environment(environment_id, now)
        actions += self.refill.plan(wanting, now)
        for environment_id in wanting:
            actions += self._remove(self._diagnosis.pools[environment_id], now)
            actions += self.surplus.plan(environment_id, now)
            self._assess(environment_id, now)
        return actions

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
    """The Raft index at which a job's present life began: of its version, or of an allocation that was placed later.
    Once that one is over, what was told of it last: where its stop has brought no other one, more is to be done.
    """
    current = template.current
    if current is None:
        return template.job_modify_index
    began = current.data.create_index if current.placed else current.data.modify_index
    return max(template.job_modify_index, began)


def may_still_serve(job: Job) -> bool:
    """Whether a lost runner that was claimed may still run somewhere beyond reach, with a learner at work."""
    return job.used and job.current is not None and job.current.placed
