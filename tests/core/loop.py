"""A reconciler at work on a small Nomad: it hears late, twice or not at all, and its own actions go astray.

The cluster knows the truth, so that what is done can be held against it at the moment it is done. As in the program
itself, each action is confirmed against the cluster first; what a fresh view decides must not need that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from poseidon_reconciler.core.ledger import Action, ActionOutcome
from poseidon_reconciler.core.lines import read_line
from poseidon_reconciler.core.reconciler import Reconciler, Step
from poseidon_reconciler.policy import Policy
from tests.core.builders import TEMPLATE, line_of
from tests.core.cluster import Cluster
from tests.core.histories import MOVES, TARGET, Move, Recorder
from tests.core.scheduling import would_place

WAYS: Final = ("hold", "deliver", "repeat", "cut", "crash", "act", "answer-lost", "write-failed")


class Loop:
    """Plays moves and lets the reconciler act.

    Attributes:
        created: the runners that were created, each with what it replaces.
        broken: promises that were broken, one line each.
        refused: what was decided on a fresh view and is not true.
    """

    def __init__(self, policy: Policy, cluster: Cluster | None = None) -> None:
        self.policy = policy
        self.cluster = Recorder(cluster).cluster
        self.core = Reconciler(policy)
        self.created: dict[str, tuple[str | None, int]] = {}
        self.broken: list[str] = []
        self.refused: list[str] = []
        self.under_way: list[Action] = []
        # Of the job that an action is about, as it was known at the decision: when it was created, and how new it was.
        self._known_since: dict[str, int] = {}
        self._known_until: dict[str, int] = {}
        self._delivered = 0
        self._holds_back = False
        self._deliver()

    # --- what happens -----------------------------------------------------------------------------------------

    def play(self, move: Move) -> None:
        """One move of the world, of the line between, or of the actions under way; then all that is due."""
        if move.after_s > 0:
            self._let_nomad_finish(agents_too=move.after_s > 30)
        self.pass_time(move.after_s)
        if move.kind in MOVES:
            MOVES[move.kind](self.cluster, move.pick)
        else:
            self._ways[move.kind](move.pick)
        if not self._holds_back:
            self._deliver()

    def rest(self, seconds: float) -> None:
        """No more faults: agents come back, everything gets through, Nomad does its work, and time passes."""
        for id_ in [id_ for id_ in self.cluster.nodes if self.cluster.is_away(id_)]:
            self.cluster.return_node(id_)
        self._holds_back = False
        self.resync()
        for _ in range(int(seconds // 5)):
            self._let_nomad_finish(agents_too=True)
            while self.under_way:
                self._act(0)
            self._deliver()
            self.pass_time(5.0)

    def pass_time(self, seconds: float) -> None:
        until = self.cluster.now + seconds
        while (due := self.core.next_due()) is not None and due <= until:
            self.cluster.now = max(self.cluster.now, due)
            self._keep(self.core.advance(due))
        self.cluster.now = until

    def resync(self) -> None:
        """The connection is made anew, and all lists are read."""
        self._delivered = len(self.cluster.sent)
        self.core.connection_opened()
        snapshot = line_of({"Snapshot": self.cluster.lists()}).snapshot
        assert snapshot is not None
        self._keep(self.core.feed_snapshot(snapshot, self.cluster.now))

    def _let_nomad_finish(self, *, agents_too: bool) -> None:
        """A scheduler is done long before anything else happens, and no agent takes minutes to start a task."""
        MOVES["schedule-all"](self.cluster, 0)
        if agents_too:
            MOVES["report-all"](self.cluster, 0)
            MOVES["schedule-all"](self.cluster, 0)
        if not self._holds_back:
            self._deliver()

    def _deliver(self) -> None:
        lines, self._delivered = self.cluster.sent[self._delivered :], len(self.cluster.sent)
        for number, (_, data) in enumerate(lines, 1):
            self._keep(self.core.feed_frame(read_line(data), self.cluster.now), fresh=number == len(lines))

    @property
    def _ways(self) -> dict[str, Callable[[int], None]]:
        return {
            "hold": lambda _: setattr(self, "_holds_back", True),
            "deliver": lambda _: setattr(self, "_holds_back", False),
            "repeat": self._repeat,
            "cut": self._cut,
            "crash": self._restart,
            "act": self._act,
            "answer-lost": lambda pick: self._act(pick, answer_lost=True),
            "write-failed": self._fail_write,
        }

    def _repeat(self, pick: int) -> None:
        for _, data in self.cluster.sent[: self._delivered][-1 - pick :]:
            self._keep(self.core.feed_frame(read_line(data), self.cluster.now), fresh=not self._holds_back)

    def _cut(self, pick: int) -> None:
        """What is under way on the line is lost, and lists are read."""
        self._holds_back = False
        self.resync()

    def _restart(self, pick: int) -> None:
        """The process is killed and started again; what it had not sent yet is never sent."""
        self.under_way.clear()
        self.core = Reconciler(self.policy)
        self._holds_back = False
        self.resync()

    # --- what is done -------------------------------------------------------------------------------------------

    def _keep(self, step: Step, *, fresh: bool = True) -> None:
        for action in step.actions:
            about = self.core.model.jobs.get(action.replaces or action.job_id)
            self._known_since[_key(action)] = about.create_index if about is not None else -1
            indexes = [each.data.modify_index for each in about.allocations.values()] if about is not None else []
            self._known_until[_key(action)] = max(indexes, default=-1)
            self.under_way.append(action)
            objection = self._objection(action)
            if fresh and not self._holds_back and objection is not None:
                self.refused.append(f"{action.kind} {action.job_id} ({action.reason}): {objection}")

    def _act(self, pick: int, *, answer_lost: bool = False) -> None:
        if not self.under_way:
            return
        action = self.under_way.pop(pick % len(self.under_way))
        objection = self._objection(action)
        if objection is not None:
            self.core.planner.take_outcome(action, ActionOutcome("not-done", objection), self.cluster.now)
            return
        self._perform(action)
        if answer_lost:
            self.core.planner.take_outcome(action, ActionOutcome("unknown", "no answer"), self.cluster.now)
        else:
            self.core.planner.take_outcome(action, ActionOutcome("done", "", self.cluster.index), self.cluster.now)

    def _fail_write(self, pick: int) -> None:
        if self.under_way:
            action = self.under_way.pop(pick % len(self.under_way))
            self.core.planner.take_outcome(action, ActionOutcome("not-done", "no leader"), self.cluster.now)

    def _objection(self, action: Action) -> str | None:
        """What a confirming read would find against an action."""
        cluster, job_id = self.cluster, action.job_id
        if action.kind == "create-runner":
            template = cluster.jobs.get(TEMPLATE)
            if template is None or template["Stop"]:
                return "its environment is gone or stopped"
            return self._why_not_lost(action, action.replaces) if action.replaces in cluster.jobs else None
        if action.kind == "restore-environment":
            return None
        if job_id not in cluster.jobs:
            return "it is gone"
        if action.kind == "protect-job":
            return None if cluster.has_future(job_id) else "it is dead"
        return self._why_not_lost(action, job_id)

    def _why_not_lost(self, action: Action, job_id: str | None) -> str | None:
        assert job_id is not None
        wire = self.cluster.jobs[job_id]
        if wire["CreateIndex"] != self._known_since[_key(action)]:
            return "it was registered anew"
        if self.cluster.live_evaluations(job_id):
            return "an evaluation of it is live"
        known = self._known_until[_key(action)]
        news = [each for each in self.cluster.allocations_of(job_id) if each["ModifyIndex"] > known]
        if news and self.policy.pool.disconnect_policy == "exactly":
            return "something has happened that the decision did not know of"
        placed = self.cluster.placed(job_id)
        if self.policy.pool.disconnect_policy == "at-least":
            placed = [each for each in placed if not self.cluster.is_away(each["NodeID"])]
        if [each for each in placed if each["ClientStatus"] != "pending"]:
            return "it runs, or may run"
        if action.kind == "remove-job" and self.cluster.is_used(job_id) and self.cluster.placed(job_id):
            return "it is used, and may run out of reach"
        return None

    def _perform(self, action: Action) -> None:
        cluster, job_id = self.cluster, action.job_id
        if action.kind == "create-runner" and job_id not in cluster.jobs:
            self._check_creation(action)
            self.created[job_id] = (action.replaces, self._known_since[_key(action)])
            cluster.register(job_id)
        elif action.kind == "remove-job":
            if cluster.is_used(job_id) and any(cluster.runs(each["ID"]) for each in cluster.placed(job_id)):
                self.broken.append(f"{job_id} is removed under its learner's hands")
            cluster.stop(job_id)
            cluster.purge(job_id)
        elif action.kind == "protect-job":
            target = TARGET if job_id == TEMPLATE else None
            cluster.register(job_id, used=cluster.is_used(job_id), target=target)
        elif action.kind in ("revive-environment", "restore-environment"):
            cluster.register(TEMPLATE, target=TARGET)

    def _check_creation(self, action: Action) -> None:
        pool = [id_ for id_ in self.cluster.jobs if id_ != TEMPLATE and not self.cluster.is_used(id_)]
        alive = [id_ for id_ in pool if self._counts(id_)]
        limit = TARGET + self.policy.pool.surge
        if len(alive) >= limit:
            self.broken.append(f"{action.job_id} is one more than {limit}: {alive}")
        loss = (action.replaces, self._known_since[_key(action)])
        others = [id_ for id_, replaced in self.created.items() if replaced == loss and id_ != action.job_id]
        if action.replaces is not None and others:
            self.broken.append(f"{action.replaces} is replaced twice")
        if self.policy.pool.disconnect_policy == "exactly" and action.replaces is not None:
            allocations = self.cluster.allocations_of(action.replaces)
            copies = [each["ID"] for each in allocations if self.cluster.runs(each["ID"])]
            if copies:
                self.broken.append(f"{action.replaces} still runs: {copies}")

    def _counts(self, job_id: str) -> bool:
        """Whether a runner is idle or will be; one that only an agent out of reach has is not to be relied on."""
        placed = self.cluster.placed(job_id)
        away = placed and all(self.cluster.is_away(each["NodeID"]) for each in placed)
        returns = self.cluster.live_evaluations(job_id) and would_place(self.cluster, job_id)
        return bool(placed or returns) and not away


def _key(action: Action) -> str:
    return f"{action.kind} {action.job_id} {action.replaces}"
