"""What is remembered of each object of the cluster: the last that Nomad said of it, and when we heard it.

Times are ours (when a line was received), never the payload's: clocks of servers and agents differ, and a
grace period must not depend on which of them was right. All records are without the collector's bookkeeping
(`gc=False`): they hold no cycles, and with 100 000 runners its passes would cost more than the work itself.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from poseidon_reconciler.core.events import (
    UNKNOWN,
    AllocationPayload,
    EvaluationPayload,
    JobPayload,
    TaskGroup,
    parse_time,
)
from poseidon_reconciler.core.ids import Kind

GoneCause = Literal["stopped", "purged", "collected", "vanished"]

LIST: Final = "list"
LIVE_EVALUATION: Final = frozenset({"pending", "blocked"})
MAX_TARGET: Final = 1_000_000

_PLACED_CLIENT: Final = frozenset({"running", "pending", "unknown"})
_CONFIG_GROUP: Final = "config"
_MAIN_TASK: Final = "default-task"


class Origin(Struct, gc=False, frozen=True):
    """Where a fact came from: an event of the stream (its Raft index and type), or a list (type `list`)."""

    index: int
    type: str


class Allocation(Struct, gc=False):
    """An allocation of one of our jobs.

    Attributes:
        since: when its statuses last changed.
        placed: whether Nomad wants it to run and it has not ended.
        ran: whether its main task was ever seen running.
    """

    data: AllocationPayload
    origin: Origin
    first_seen: float
    since: float
    placed: bool = False
    ran: bool = False

    def take(self, data: AllocationPayload, origin: Origin) -> None:
        """Takes over what a payload says."""
        self.data, self.origin = data, origin
        self.placed = data.desired_status == "run" and data.client_status in _PLACED_CLIENT
        if data.client_status == "running" and not self.ran:
            self.ran = self.main_task_state in ("running", "")

    @property
    def main_task_state(self) -> str:
        """The state of the task that learners' code runs in; empty if the sender did not tell any."""
        states = self.data.task_states
        if not states:
            return ""
        main = states.get(_MAIN_TASK)
        if main is not None:
            return main.state
        return "pending" if any(task.state == "pending" for task in states.values()) else "running"

    @property
    def restarts(self) -> int:
        states = self.data.task_states
        return max([task.restarts for task in states.values()]) if states else 0


class Evaluation(Struct, gc=False):
    """An evaluation of one of our jobs. `waits_until` is the time that a delayed one waits for, in seconds."""

    data: EvaluationPayload
    origin: Origin
    first_seen: float
    waits_until: float | None = None


class Job(Struct, gc=False):
    """An environment's or a runner's job with all that hangs on it.

    Attributes:
        seen: whether the job itself was ever seen; its allocations may come first.
        whole: whether its task groups were seen (a list's stub has none).
        used: the mark that Poseidon sets when it hands the runner to a learner.
        target: the pool's target size (environments); None where unknown or no number.
        stop_after_s, kill_timeout_s: how long an agent without a server leaves the task running (None: for ever),
            and how long the task may take to end.
        holds_volume: whether it claims a volume, which its old copy may hold for longer than it runs.
        gone, gone_index: why the job is no more, and the index at which that was known.
        quiet_since: when anything last happened that could bring the job (back) to life.
        statuses: the statuses seen at `modify_index`, in order: two lines may tell of one index.
        evaluations: ended ones are kept for a while to recognize late repeats of them.
        live_evaluations: those of them that Nomad still works on.
    """

    id: str
    kind: Kind
    environment_id: str
    seen: bool = False
    whole: bool = False
    status: str = ""
    stop: bool = False
    version: int = UNKNOWN
    create_index: int = UNKNOWN
    modify_index: int = UNKNOWN
    job_modify_index: int = UNKNOWN
    used: bool = False
    target: int | None = None
    stop_after_s: float | None = None
    kill_timeout_s: float = 5.0
    holds_volume: bool = False
    origin: Origin = Origin(UNKNOWN, "")
    statuses: tuple[str, ...] = ()
    gone: GoneCause | None = None
    gone_index: int = UNKNOWN
    gone_at: float = 0.0
    first_seen: float = 0.0
    quiet_since: float = 0.0
    allocations: dict[str, Allocation] = {}
    allocation_floor: int = UNKNOWN
    evaluations: dict[str, Evaluation] = {}
    live_evaluations: dict[str, Evaluation] = {}
    evaluation_floor: int = UNKNOWN
    current: Allocation | None = None

    def take(self, data: JobPayload, origin: Origin) -> None:
        """Takes over what a payload says; what a list's stub lacks stays as it was."""
        self.seen = True
        self.status, self.stop, self.origin = data.status, data.stop, origin
        self.create_index, self.modify_index = data.create_index, data.modify_index
        if data.version != UNKNOWN:
            self.version = data.version
        # The groups change with the version only; reading them again at each change of status would be waste.
        registered = data.job_modify_index not in (UNKNOWN, self.job_modify_index)
        if data.task_groups is not None and (registered or not self.whole):
            self.take_groups(data.task_groups)
        elif registered:
            # A stub tells that there is a new version, not what is in it.
            self.whole = False
        if data.job_modify_index != UNKNOWN:
            self.job_modify_index = data.job_modify_index

    def take_groups(self, groups: list[TaskGroup]) -> None:
        self.whole = True
        for group in groups:
            if group.name == _CONFIG_GROUP:
                meta = group.meta or {}
                self.used = self.kind == "runner" and meta.get("used") == "true"
                self.target = _pool_size(meta.get("prewarmingPoolSize"))
            else:
                disconnect = group.disconnect
                stop_after = disconnect.stop_on_client_after if disconnect else None
                stop_after = stop_after or group.stop_after_client_disconnect
                self.stop_after_s = stop_after / 1e9 if stop_after else None
                self.holds_volume = bool(group.volumes)
                self.kill_timeout_s = max(((task.kill_timeout or 0) / 1e9 for task in group.tasks or ()), default=0.0)

    def begin_anew(self, now: float) -> None:
        """The same id was registered again: nothing of the earlier job counts any more."""
        self.first_seen = now
        self.allocations, self.current = {}, None
        self.evaluations, self.live_evaluations = {}, {}
        self.used, self.target, self.whole = False, None, False
        self.version = self.job_modify_index = UNKNOWN

    def drop_oldest_allocation(self) -> None:
        """Makes room; what is as old as what was dropped is not taken in again."""
        others = [a.data for a in self.allocations.values() if a is not self.current]
        oldest = min(others, key=lambda data: (data.create_index, data.id))
        self.allocation_floor = max(self.allocation_floor, oldest.create_index)
        del self.allocations[oldest.id]

    def drop_oldest_evaluation(self) -> None:
        """Makes room, by one that has ended if there is one."""
        ended = [e.data for e in self.evaluations.values() if e.data.id not in self.live_evaluations]
        everything = [e.data for e in self.evaluations.values()]
        oldest = min(ended or everything, key=lambda data: (data.create_index, data.id))
        self.evaluation_floor = max(self.evaluation_floor, oldest.create_index)
        self.drop_evaluation(oldest.id)

    def put_evaluation(self, evaluation: Evaluation) -> None:
        """Takes in an evaluation, or what became of it."""
        data = evaluation.data
        self.evaluations[data.id] = evaluation
        if data.status in LIVE_EVALUATION:
            evaluation.waits_until = parse_time(data.wait_until) if data.wait_until else None
            self.live_evaluations[data.id] = evaluation
        else:
            self.live_evaluations.pop(data.id, None)

    def drop_evaluation(self, evaluation_id: str) -> None:
        del self.evaluations[evaluation_id]
        self.live_evaluations.pop(evaluation_id, None)

    def choose_current(self) -> None:
        """Finds the allocation that stands for the job: the newest that is meant to run, one in sight before one that
        its servers have lost sight of; else the newest.
        """
        if len(self.allocations) == 1:
            (self.current,) = self.allocations.values()
            return
        best: Allocation | None = None
        best_rank = (False, False, UNKNOWN, "")
        for allocation in self.allocations.values():
            data = allocation.data
            rank = (allocation.placed, data.client_status != "unknown", data.create_index, data.id)
            if best is None or rank > best_rank:
                best, best_rank = allocation, rank
        self.current = best

    @property
    def known_index(self) -> int:
        """The highest index at which the job was known to exist; of one that was never seen, by its allocations."""
        if self.seen:
            return self.modify_index
        return max((a.data.modify_index for a in self.allocations.values()), default=UNKNOWN)

    def is_current_version(self, allocation: AllocationPayload) -> bool:
        """Whether an allocation belongs to the job's current version, by what its sender told; yes in doubt."""
        if UNKNOWN not in (allocation.job_version, self.version):
            return allocation.job_version == self.version
        if allocation.alloc_modify_index != UNKNOWN:
            return allocation.alloc_modify_index >= self.job_modify_index
        return True


UNREACHABLE: Final = frozenset({"down", "disconnected", "gone"})
"""The statuses of a node to which no order arrives."""


class Node(Struct, gc=False):
    """A client node. `status` is Nomad's, `gone` when it was removed, empty when it was never seen itself.
    `since` is when status or draining last changed; `jobs` are those that were placed there.
    """

    id: str
    name: str = ""
    status: str = ""
    draining: bool = False
    modify_index: int = UNKNOWN
    origin: Origin = Origin(UNKNOWN, "")
    since: float = 0.0
    jobs: dict[str, Job] = {}

    @property
    def known_index(self) -> int:
        """The highest index at which the node was known to exist; of one that was never seen, by its allocations."""
        if self.modify_index != UNKNOWN:
            return self.modify_index
        return max((allocation.data.create_index for allocation in self.stood_on()), default=UNKNOWN)

    def stood_on(self) -> list[Allocation]:
        """The allocations that are known to stand here."""
        placed = (a for job in self.jobs.values() for a in job.allocations.values())
        return [allocation for allocation in placed if allocation.data.node_id == self.id]


class NodeChange(Struct, gc=False, frozen=True):
    """A node whose status or draining became another one; `status_before` is empty where it was never seen itself."""

    id: str
    name: str
    status: str
    draining: bool
    status_before: str
    draining_before: bool


class Environment(Struct, gc=False):
    """An execution environment: its own job, if any is known, and its runners.

    `claimed_at`: when a runner was last heard to be marked used, whatever had become of it by then.
    """

    id: str
    template: Job | None = None
    runners: dict[str, Job] = {}
    claimed_at: float = float("-inf")


def _pool_size(text: str | None) -> int | None:
    """The target that a template asks for; a negative one is none, an absurd one is bounded."""
    try:
        return min(max(int(text or ""), 0), MAX_TARGET)
    except ValueError:
        return None
