"""The whole core as one value that is fed and asked: lines and time in, changes and actions out.

`run` feeds it from the network and executes what it decides; `replay` feeds it from a file and writes down what it
decides. Both get the same answers to the same input, because nothing else is in here: no clock, no chance, no I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from poseidon_reconciler.core.blame import KEPT_S, Blame
from poseidon_reconciler.core.diagnosis import Change, Diagnosis
from poseidon_reconciler.core.events import Frame, Snapshot
from poseidon_reconciler.core.holds import Hold, current_holds
from poseidon_reconciler.core.ledger import Action
from poseidon_reconciler.core.model import Model
from poseidon_reconciler.core.pauses import Pause
from poseidon_reconciler.core.plan import Planner
from poseidon_reconciler.core.records import Job, NodeChange
from poseidon_reconciler.core.registry import RETENTION_S
from poseidon_reconciler.core.snapshots import SnapshotReader
from poseidon_reconciler.policy import Policy


class Storm(NamedTuple):
    """A storm that began or ended. `until` is when it ends if nothing else happens; None once it is over."""

    since: float
    until: float | None
    reason: str


class Step(NamedTuple):
    """What one input, or the passing of time, led to. `new_epoch`: everything known before was cleared first."""

    at: float
    changes: list[Change]
    actions: list[Action]
    forgotten: list[Job]
    new_epoch: bool = False
    nodes: Sequence[NodeChange] = ()
    storm: Storm | None = None


class Reconciler:
    """Model, diagnosis, plan and what was lost with which node, in step with each other.

    All times are in seconds and never go back: an earlier `now` is taken for the latest one that was given.
    """

    def __init__(self, policy: Policy, *, retention_s: float = RETENTION_S) -> None:
        self.policy = policy
        self.now = 0.0
        self.model = Model(policy.namespace, retention_s)
        self.snapshots = SnapshotReader(self.model)
        self.diagnosis = Diagnosis(self.model, policy)
        self.planner = Planner(self.model, self.diagnosis, policy)
        self.blame = Blame(self.model, max(KEPT_S, retention_s))
        # The storm that was told of and goes on.
        self._storm: Storm | None = None

    def feed_frame(self, frame: Frame, now: float) -> Step:
        """Takes in one line of the event stream, received at `now`."""
        self.now = max(now, self.now)
        self.model.apply(frame, self.now)
        return self._decide()

    def feed_snapshot(self, snapshot: Snapshot, now: float) -> Step:
        """Takes in lists that were read from the API by `now`."""
        self.now = max(now, self.now)
        new_epoch = self.snapshots.merge(snapshot, self.now)
        if new_epoch:
            self.diagnosis.clear()
            self.planner.clear()
            self.blame.begin_anew()
        elif snapshot.jobs is not None and "Jobs" in snapshot.indexes:
            for environment_id in self.planner.ledger.lapse(snapshot.indexes["Jobs"], self.model.jobs):
                self.diagnosis.touched[environment_id] = None
        return self._decide()._replace(new_epoch=new_epoch)

    def change_policy(self, policy: Policy) -> None:
        """Judges and plans by another policy from the next step on; its namespace must be the same."""
        self.policy = policy
        self.diagnosis.change_policy(policy)
        self.planner.change_policy(policy)

    def pause(self, pause: Pause) -> None:
        """Leaves something alone from the next step on."""
        self.planner.pauses.set(pause)
        self.planner.reconsider()

    def resume(self, environment_id: str | None) -> None:
        """Ends a pause that was set, from the next step on."""
        self.planner.pauses.lift(environment_id)
        self.planner.reconsider()

    def connection_opened(self) -> None:
        """A new stream was opened: lists that follow must be newer than all that was seen or done until now."""
        self.snapshots.connection_opened(self.planner.ledger.written_index)

    def advance(self, now: float) -> Step:
        """Lets time pass up to `now`."""
        self.now = max(now, self.now)
        return self._decide()

    def holds(self, now: float) -> list[Hold]:
        """What is wanted and not done at `now`, and why."""
        return current_holds(self.planner, now)

    def next_due(self) -> float | None:
        """When something changes by time alone, if nothing comes in before; None if never."""
        dues = [due for due in (self.diagnosis.next_due(), self.planner.next_due()) if due is not None]
        return min(dues, default=None)

    def _decide(self) -> Step:
        now = self.now
        forgotten = self.model.forget(now)
        if forgotten:
            self.diagnosis.forget(forgotten)
            self.planner.forget(forgotten)
            self.blame.forget(forgotten)
        changes = self.diagnosis.update(now)
        # Before the planner, who takes the nodes' changes as told.
        nodes = tuple(self.model.nodes_changed.values()) if self.model.nodes_changed else ()
        self.blame.observe(changes, now)
        self.planner.observe(changes, now)
        actions = self.planner.plan(now)
        storm = self._storm_news() if self.planner.storm.since is not None or self._storm is not None else None
        return Step(now, changes, actions, forgotten, nodes=nodes, storm=storm)

    def _storm_news(self) -> Storm | None:
        """The storm that has begun, or ended, since this was asked last."""
        told, storm = self._storm, self.planner.storm
        if told is None and storm.since is not None:
            self._storm = Storm(storm.since, storm.until, storm.reason)
            return self._storm
        if told is not None and storm.since is None:
            self._storm = None
            return told._replace(until=None)
        return None
