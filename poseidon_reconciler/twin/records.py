"""What the embedded cluster knows about its jobs, allocations, evaluations and nodes.

Events hold on to the very object that they tell of, so these records are immutable: a change makes a new record, and
an event that waits in a buffer still shows the state of its time. Times are seconds since the epoch, durations
seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from poseidon_reconciler.twin.jobspec import Group

JsonObject: TypeAlias = Mapping[str, Any]
JobKey: TypeAlias = tuple[str, str]
"""Namespace and id."""

LIVE_EVALUATION = frozenset({"pending", "blocked"})
CLIENT_TERMINAL = frozenset({"complete", "failed", "lost"})
SERVER_TERMINAL = frozenset({"stop", "evict"})


class Job(Struct, frozen=True):
    """One version of a job; `spec` is the job as registered, in Nomad's canonical form, never changed in place."""

    id: str
    namespace: str
    spec: JsonObject
    groups: tuple[Group, ...]
    version: int
    status: str
    stop: bool
    submitted_at: float
    create_index: int
    modify_index: int
    job_modify_index: int
    modified_at: float

    @property
    def key(self) -> JobKey:
        return self.namespace, self.id

    @property
    def priority(self) -> int:
        return int(self.spec["Priority"])

    @property
    def type(self) -> str:
        return str(self.spec["Type"])

    def group(self, name: str) -> Group | None:
        """The task group of that name, if the job still has it."""
        return next((group for group in self.groups if group.name == name), None)


class TaskEvent(Struct, frozen=True):
    """One line of a task's history as its agent tells it."""

    type: str
    at: float
    message: str = ""
    fields: JsonObject = {}


class TaskState(Struct, frozen=True):
    """A task as its agent last reported it."""

    state: str = "pending"
    failed: bool = False
    restarts: int = 0
    started_at: float | None = None
    finished_at: float | None = None
    last_restart_at: float | None = None
    events: tuple[TaskEvent, ...] = ()


class Rescheduling(Struct, frozen=True):
    """One earlier attempt of an allocation that was replaced because it failed."""

    at: float
    previous_allocation_id: str
    previous_node_id: str
    delay_s: float


class Allocation(Struct, frozen=True):
    """A group of tasks on a node: what the servers want of it, and what its agent says of it."""

    id: str
    job: Job
    group_name: str
    index: int
    evaluation_id: str
    node_id: str
    node_name: str
    metrics: JsonObject
    create_index: int
    modify_index: int
    alloc_modify_index: int
    created_at: float
    modified_at: float
    client_status: str = "pending"
    client_description: str = ""
    desired_status: str = "run"
    desired_description: str = ""
    previous_id: str = ""
    next_id: str = ""
    followup_evaluation_id: str = ""
    migrate: bool = False
    disable_placement: bool = False
    force_reschedule: bool = False
    reported: bool = False
    task_states: Mapping[str, TaskState] = {}
    reschedulings: tuple[Rescheduling, ...] = ()
    lost_at: float | None = None
    unknown_at: float | None = None
    reconnected: bool = False

    @property
    def job_key(self) -> JobKey:
        return self.job.key

    @property
    def name(self) -> str:
        return f"{self.job.id}.{self.group_name}[{self.index}]"

    @property
    def server_terminal(self) -> bool:
        return self.desired_status in SERVER_TERMINAL

    @property
    def client_terminal(self) -> bool:
        return self.client_status in CLIENT_TERMINAL

    @property
    def terminal(self) -> bool:
        return self.desired_status in SERVER_TERMINAL or self.client_status in CLIENT_TERMINAL

    @property
    def ran_successfully(self) -> bool:
        """Whether every task ended without failing; so counts one that was stopped before it ever started."""
        states = self.task_states.values()
        return bool(states) and all(state.state == "dead" and not state.failed for state in states)


class Evaluation(Struct, frozen=True):
    """A request to look at a job again."""

    id: str
    namespace: str
    job_id: str
    type: str
    priority: int
    triggered_by: str
    create_index: int
    modify_index: int
    created_at: float
    modified_at: float
    status: str = "pending"
    status_description: str = ""
    job_modify_index: int = 0
    node_id: str = ""
    node_modify_index: int = 0
    wait_until: float | None = None
    previous_id: str = ""
    next_id: str = ""
    blocked_id: str = ""
    failed_groups: JsonObject | None = None
    class_eligibility: Mapping[str, bool] | None = None
    queued: Mapping[str, int] | None = None
    snapshot_index: int = 0

    @property
    def job_key(self) -> JobKey:
        return self.namespace, self.job_id

    @property
    def live(self) -> bool:
        return self.status in LIVE_EVALUATION


class NodeEvent(Struct, frozen=True):
    """One line of a node's history as the servers keep it."""

    message: str
    at: float
    index: int = 0
    subsystem: str = "Cluster"
    details: JsonObject | None = None


class Drain(Struct, frozen=True):
    """A drain in progress; a deadline of `None` never comes, one of the past is forced."""

    started_at: float
    requested_s: float
    deadline_at: float | None
    ignore_system_jobs: bool = False


class LastDrain(Struct, frozen=True):
    """What became of a node's latest drain."""

    started_at: float
    updated_at: float
    status: str


class NodeSpec(Struct, frozen=True):
    """A machine that an agent runs on."""

    name: str
    datacenter: str = "dc1"
    node_class: str = ""
    cpu_mhz: int = 4000
    memory_mb: int = 6000
    disk_mb: int = 79880
    drivers: tuple[str, ...] = ("docker", "raw_exec")
    attributes: Mapping[str, str] = {}
    meta: Mapping[str, str] = {}
    port: int = 4646


class Node(Struct, frozen=True):
    """An agent as the servers know it."""

    id: str
    spec: NodeSpec
    computed_class: str
    create_index: int
    modify_index: int
    status: str = "initializing"
    eligible: bool = True
    drain: Drain | None = None
    last_drain: LastDrain | None = None
    updated_at: float = 0.0
    events: tuple[NodeEvent, ...] = ()

    @property
    def schedulable(self) -> bool:
        return self.status == "ready" and self.eligible and self.drain is None
