"""What a recording tells, gathered step by step: what happened, what was judged, what would have been done.

Everything that is shown of a replay, on a terminal, as JSON or as a page, is made of this.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from poseidon_reconciler.core.blame import NodeLosses
from poseidon_reconciler.core.evidence import Evidence, evidence_for
from poseidon_reconciler.core.holds import Hold
from poseidon_reconciler.core.ledger import Action
from poseidon_reconciler.core.reconciler import Reconciler, Step
from poseidon_reconciler.core.status import POOL_STATES, EnvironmentRow, environment_rows, target_of
from poseidon_reconciler.core.wording import standing

EntryKind = Literal["verdict", "action", "node", "connection"]


class Entry(Struct, frozen=True):
    """A line of the timeline. Without an environment it concerns all of them."""

    at: float
    kind: EntryKind
    environment_id: str | None
    subject: str
    text: str


class Sample(Struct, frozen=True):
    """A pool's numbers from `at` on, in the order of `POOL_STATES`."""

    at: float
    numbers: tuple[int, ...]
    target: int | None


class NodeChange(Struct, frozen=True):
    at: float
    node_id: str
    name: str
    status: str
    draining: bool


class Loss(Struct, frozen=True):
    """A job that was found lost, with what it was judged on at that time."""

    at: float
    environment_id: str
    job_id: str
    kind: str
    cause: str
    rule: str
    node: str
    evidence: list[Evidence]


class JobRow(Struct, frozen=True):
    """A job at the end, by the names of the contract; times in seconds."""

    kind: str
    environment_id: str
    state: str
    cause: str | None
    at_risk: bool
    rule: str
    since: float
    due_at: float | None
    node: str | None
    evidence: list[Evidence]


class Story(Struct):
    """A replay from beginning to end.

    Attributes:
        started_at, ended_at: times of the first and the last line, in seconds; None if no line told a time.
        settled_at: until when time went on after the last line.
        settle_s: for how long it was allowed to.
        breaks_off: whether a file ends in the middle of a line, so that something is missing.
    """

    frames: int = 0
    events: int = 0
    heartbeats: int = 0
    snapshots: int = 0
    last_index: int | None = None
    malformed: int = 0
    started_at: float | None = None
    ended_at: float | None = None
    settled_at: float | None = None
    settle_s: float = 0.0
    breaks_off: bool = False
    timeline: list[Entry] = []
    samples: dict[str, list[Sample]] = {}
    node_changes: list[NodeChange] = []
    losses: list[Loss] = []
    blame: list[NodeLosses] = []
    actions: list[Action] = []
    holds: list[Hold] = []
    environments: dict[str, EnvironmentRow] = {}
    jobs: dict[str, JobRow] = {}

    def is_after_end(self, at: float) -> bool:
        """Whether the recording had ended by then, and only time passed."""
        return self.ended_at is not None and at > self.ended_at

    def losses_in_words(self) -> str:
        """How many were found lost, and how much of that only because time went on after the end."""
        found, late = len(self.losses), sum(self.is_after_end(loss.at) for loss in self.losses)
        if not late:
            return f"{found} found lost"
        which = f"{late} of them " if late < found else "all of them " if found > 1 else ""
        doubt = " (a mere supposition: the recording breaks off)" if self.breaks_off else ""
        return f"{found} found lost, {which}after its end{doubt}"


class Storyteller:
    """Writes the story of one reconciler's steps."""

    def __init__(self, core: Reconciler) -> None:
        self.story = Story()
        self._core = core
        self._node_states: dict[str, tuple[str, bool]] = {}
        self._targets: dict[str, int | None] = {}

    def tell(self, step: Step, *, nodes_may_have_changed: bool) -> None:
        """Adds what a step brought."""
        if nodes_may_have_changed:
            self._tell_nodes(step.at)
        touched: dict[str, None] = {}
        for change in step.changes:
            job, verdict = change.job, change.verdict
            touched[job.environment_id] = None
            text = standing(verdict.state, verdict.cause, verdict.rule)
            if verdict.at_risk:
                text += ", at risk"
            self._add(step.at, "verdict", job.environment_id, job.id, text)
            if verdict.state == "lost" and (change.before is None or change.before.state != "lost"):
                self._tell_loss(step.at, job.id)
        for action in step.actions:
            touched[action.environment_id] = None
            self.story.actions.append(action)
            self._add(action.at, "action", action.environment_id, action.job_id, f"{action.kind}: {action.reason}")
        for environment_id in self._core.model.environments:
            if self._targets.get(environment_id) != (target := target_of(self._core, environment_id)):
                self._targets[environment_id] = target
                touched[environment_id] = None
        for environment_id in touched:
            self._sample(environment_id, step.at)

    def tell_connection(self, at: float, text: str) -> None:
        """Adds that the stream was opened or closed."""
        self._add(at, "connection", None, "stream", text)

    def conclude(self) -> Story:
        """Adds how everything stands at the end, and returns the story."""
        core, story = self._core, self.story
        story.environments = environment_rows(core)
        story.jobs = {id_: self._job_row(id_) for id_ in sorted(core.diagnosis.verdicts)}
        story.holds = core.holds(core.now)
        story.blame = core.blame.rows()
        return story

    def _add(self, at: float, kind: EntryKind, environment_id: str | None, subject: str, text: str) -> None:
        self.story.timeline.append(Entry(at, kind, environment_id, subject, text))

    def _tell_nodes(self, at: float) -> None:
        for node in self._core.model.nodes.values():
            state = (node.status, node.draining)
            if node.status and self._node_states.get(node.id) != state:
                self._node_states[node.id] = state
                self.story.node_changes.append(NodeChange(at, node.id, node.name, node.status, node.draining))
                text = node.status + (", draining" if node.draining else "")
                self._add(at, "node", None, node.name or node.id, text)

    def _tell_loss(self, at: float, job_id: str) -> None:
        core = self._core
        job = core.model.jobs[job_id]
        verdict = core.diagnosis.verdicts[job_id]
        loss = Loss(
            at=at,
            environment_id=job.environment_id,
            job_id=job_id,
            kind=job.kind,
            cause=verdict.cause or "",
            rule=verdict.rule,
            node=self._node_name(job_id) or "",
            evidence=evidence_for(core.diagnosis, job, at),
        )
        self.story.losses.append(loss)

    def _sample(self, environment_id: str, at: float) -> None:
        pool = self._core.diagnosis.pools.get(environment_id)
        if pool is None:
            return
        sample = Sample(at, tuple(map(pool.count, POOL_STATES)), target_of(self._core, environment_id))
        samples = self.story.samples.setdefault(environment_id, [])
        if samples and samples[-1].at == at:
            samples.pop()
        samples.append(sample)

    def _job_row(self, job_id: str) -> JobRow:
        core = self._core
        job = core.model.jobs[job_id]
        verdict = core.diagnosis.verdicts[job_id]
        return JobRow(
            kind=job.kind,
            environment_id=job.environment_id,
            state=verdict.state,
            cause=verdict.cause,
            at_risk=verdict.at_risk,
            rule=verdict.rule,
            since=verdict.since,
            due_at=verdict.due_at,
            node=self._node_name(job_id),
            evidence=evidence_for(core.diagnosis, job, core.now),
        )

    def _node_name(self, job_id: str) -> str | None:
        current = self._core.model.jobs[job_id].current
        if current is None:
            return None
        node = self._core.model.nodes.get(current.data.node_id)
        return (node.name if node is not None else "") or current.data.node_name or current.data.node_id or None
