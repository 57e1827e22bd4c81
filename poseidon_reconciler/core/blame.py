"""Which agent to look at: losses grouped by the node that they came from, and by what had last happened to it.

A hundred lost runners are a hundred verdicts, and mostly two agents that somebody restarted. What happens to a node
from the moment it stops being ready until it is ready again is one disturbance; a loss belongs to the last one of the
node on which its fatal allocation ran.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from poseidon_reconciler.core.diagnosis import Change, is_killer
from poseidon_reconciler.core.model import Model
from poseidon_reconciler.core.records import UNREACHABLE, Allocation, Job, NodeChange
from poseidon_reconciler.core.wording import counted
from poseidon_reconciler.policy import format_duration

KEPT_S: Final = 86_400.0
# A loss that comes later than this after a disturbance has another reason.
_REACH_S: Final = 600.0
# Restarts of tasks, and losses on a node to which nothing happened, are told apart only by longer pauses.
_TOGETHER_S: Final = 60.0
_MAX_GROUPS: Final = 1_000
_MAX_JOB_IDS: Final = 20
_TASKS_RESTARTED: Final = "tasks restarted"
_WORDS: Final = {"down": "went down", "disconnected": "was disconnected", "gone": "was removed"}


class NodeLosses(Struct, frozen=True):
    """What was lost with a node at one time.

    Attributes:
        node: its name, or its id where that was never told; None for jobs that never had a node.
        at: when the disturbance began, in seconds; without one, when the first of these losses was found.
        what: the disturbance in words, the way from its beginning to its end.
        causes: how many were lost for which cause.
        job_ids: the first of them.
    """

    node: str | None
    node_id: str | None
    at: float
    what: str
    losses: int
    causes: dict[str, int]
    job_ids: list[str]


class _Disturbance(Struct, gc=False):
    began_at: float
    words: list[str]
    ended_at: float | None = None

    def add(self, word: str) -> None:
        if word not in self.words:
            self.words.append(word)

    def overlaps(self, other: _Disturbance) -> bool:
        """Whether the two lasted at the same time."""
        began_at, ended_at = max(self.began_at, other.began_at), [self.ended_at, other.ended_at]
        return all(end is None or began_at < end for end in ended_at)

    def explains(self, at: float, reach_s: float) -> bool:
        """Whether it lasts, or had ended shortly before."""
        return self.ended_at is None or at - self.ended_at <= reach_s


class _Tally(Struct):
    losses: int = 0
    causes: dict[str, int] = {}
    job_ids: list[str] = []

    def add(self, other: _Tally) -> None:
        self.losses += other.losses
        for cause, number in other.causes.items():
            self.causes[cause] = self.causes.get(cause, 0) + number
        self.job_ids += other.job_ids[: _MAX_JOB_IDS - len(self.job_ids)]


class _Group(Struct):
    node_id: str
    node: str
    at: float
    last_at: float
    disturbance: _Disturbance | None
    # How many other nodes had their own trouble meanwhile: one alone is survived, because others take over.
    others: int = 0
    tallies: dict[str, _Tally] = {}


class Blame:
    """Keeps the losses of the last `kept_s` seconds, whatever became of the jobs since."""

    def __init__(self, model: Model, kept_s: float = KEPT_S) -> None:
        self._model = model
        self._kept_s = kept_s
        self._node_states: dict[str, tuple[str, bool]] = {}
        self._disturbances: dict[str, _Disturbance] = {}
        self._lost: dict[str, _Group] = {}
        # By node and beginning; those with the latest loss stand last.
        self._groups: dict[tuple[str, float], _Group] = {}

    def begin_anew(self) -> None:
        """A new epoch of the cluster began: what was lost stays lost, and nothing else is known any more."""
        self._node_states.clear()
        self._disturbances.clear()
        self._lost.clear()

    def forget(self, jobs: Iterable[Job]) -> None:
        """Drops the way from jobs that the model has forgotten to what they were lost with."""
        for job in jobs:
            self._lost.pop(job.id, None)

    def observe(self, changes: Iterable[Change], now: float) -> None:
        """Takes note of the nodes that changed, and of verdicts that became different."""
        for node in self._model.nodes_changed.values():
            self._note_node(node, now)
        for change in changes:
            self._note_change(change, now)
        while self._groups and next(iter(self._groups.values())).last_at < now - self._kept_s:
            del self._groups[next(iter(self._groups))]
        if len(self._node_states) > len(self._model.nodes):
            self._forget_nodes()

    def rows(self, environment_id: str | None = None) -> list[NodeLosses]:
        """Who lost how much, those who lost most first; of one environment, or of all."""
        rows = [self._row(group, environment_id) for group in self._groups.values()]
        return sorted((row for row in rows if row.losses), key=lambda row: (-row.losses, row.at, row.node_id or ""))

    def of(self, job_id: str) -> NodeLosses | None:
        """What a lost job was lost with; None for one that is not lost."""
        group = self._lost.get(job_id)
        return self._row(group, None) if group is not None else None

    def _row(self, group: _Group, environment_id: str | None) -> NodeLosses:
        total = _Tally()
        for id_, tally in group.tallies.items():
            if environment_id in (None, id_):
                total.add(tally)
        if group.disturbance is not None:
            others = [f"{counted(group.others, 'other node')} too"] if group.others else []
            what = ", ".join(group.disturbance.words + others)
        else:
            what = "nothing had happened to the node" if group.node_id else "never had a node"
        return NodeLosses(
            group.node or None, group.node_id or None, group.at, what, total.losses, total.causes, total.job_ids
        )

    # --- nodes ---------------------------------------------------------------------------------------------------

    def _note_node(self, node: NodeChange, now: float) -> None:
        before = self._node_states.get(node.id)
        state = self._node_states[node.id] = (node.status, node.draining)
        disturbance = self._disturbances.get(node.id)
        calm = state == ("ready", False)
        if disturbance is not None and disturbance.ended_at is None:
            if not calm:
                _tell(disturbance, node)
                return
            after = format_duration(round(now - disturbance.began_at, 1))
            disturbance.add(f"ready again after {after}")
            disturbance.ended_at = now
        elif not calm and (before is not None or node.status in UNREACHABLE or node.draining):
            disturbance = self._disturbances[node.id] = _Disturbance(now, [])
            _tell(disturbance, node)

    def _note_restart(self, node_id: str, now: float) -> None:
        """A task was restarted where it was: by its agent, or because it had ended."""
        disturbance = self._disturbances.get(node_id)
        if disturbance is None or not disturbance.explains(now, _TOGETHER_S):
            disturbance = self._disturbances[node_id] = _Disturbance(now, [], now)
        disturbance.add(_TASKS_RESTARTED)
        if disturbance.ended_at is not None:
            disturbance.ended_at = now

    def _forget_nodes(self) -> None:
        for node_id in self._node_states.keys() - self._model.nodes.keys():
            del self._node_states[node_id]
            self._disturbances.pop(node_id, None)

    # --- jobs ----------------------------------------------------------------------------------------------------

    def _note_change(self, change: Change, now: float) -> None:
        job, verdict = change.job, change.verdict
        if verdict.state == "lost":
            # Looked at once more by Nomad, a dead job is not lost a second time.
            if job.id not in self._lost:
                self._lose(job, verdict.cause or "", now)
            return
        if verdict.state != "recovering":
            self._lost.pop(job.id, None)
        if verdict.rule == "restarting" and job.current is not None:
            self._note_restart(job.current.data.node_id, now)

    def _lose(self, job: Job, cause: str, now: float) -> None:
        fatal = fatal_allocation(job)
        group = self._lost[job.id] = self._group(fatal.data.node_id if fatal is not None else "", now)
        tally = group.tallies.setdefault(job.environment_id, _Tally())
        tally.add(_Tally(1, {cause: 1}, [job.id]))

    def _group(self, node_id: str, now: float) -> _Group:
        disturbance = self._disturbances.get(node_id)
        if disturbance is not None and disturbance.explains(now, _REACH_S):
            key = (node_id, disturbance.began_at)
        else:
            disturbance = None
            recent = [
                group.at
                for group in self._groups.values()
                if group.node_id == node_id and group.disturbance is None and group.last_at >= now - _TOGETHER_S
            ]
            key = (node_id, recent[-1] if recent else now)
        group = self._groups.pop(key, None)
        if group is None:
            node = self._model.nodes.get(node_id)
            name = (node.name if node is not None else "") or node_id
            group = _Group(node_id, name, key[1], now, disturbance, self._others(disturbance))
            if len(self._groups) >= _MAX_GROUPS:
                del self._groups[next(iter(self._groups))]
        group.last_at = now
        self._groups[key] = group
        return group

    def _others(self, disturbance: _Disturbance | None) -> int:
        if disturbance is None:
            return 0
        everybody = self._disturbances.values()
        return sum(other is not disturbance and other.overlaps(disturbance) for other in everybody)


def fatal_allocation(job: Job) -> Allocation | None:
    """The allocation that a lost job was lost by: the newest of those that pass for its success, if one does; else the
    one that stands for the job. None for a job that never had any.
    """
    # The one that Nomad stopped last was healthy: an older one had made it believe that the work was done.
    killers = [a for a in job.allocations.values() if a is not job.current and is_killer(job, a.data)]
    return max(killers, key=lambda a: (a.data.create_index, a.data.id), default=job.current)


def _tell(disturbance: _Disturbance, node: NodeChange) -> None:
    if node.draining:
        disturbance.add("was drained")
    if node.status != "ready":
        disturbance.add(_WORDS.get(node.status, "its agent restarted"))
