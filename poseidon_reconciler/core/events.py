"""What Nomad says of its objects, as typed values, for the live stream and for recordings alike.

Only the fields that are in use are named; the decoder skips the rest of a payload without building it, which is
what makes reading a stream of whole jobs affordable. Nomad leaves empty fields out of allocations and
evaluations, and list stubs lack more: every field but the identifying ones has a default, and `UNKNOWN` marks a
number that the sender did not give.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from poseidon_reconciler.policy import LATEST_INSTANT_S

UNKNOWN: Final = -1
_MAX_INT: Final = 2**63 - 1

Index = Annotated[int, Meta(ge=0, le=_MAX_INT)]
Seconds = Annotated[float, Meta(ge=0, le=LATEST_INSTANT_S)]
Nanoseconds = Annotated[int, Meta(ge=-(2**63), le=_MAX_INT)]


def wire_name(name: str) -> str:
    """`job_modify_index` → `JobModifyIndex`, `node_id` → `NodeID`, `failed_tg_allocs` → `FailedTGAllocs`."""
    special = {"id": "ID", "tg": "TG"}
    return "".join(special.get(part, part.capitalize()) for part in name.split("_"))


class Wire(Struct, rename=wire_name, gc=False, omit_defaults=True):
    """A part of a payload, by Nomad's own field names."""


class Task(Wire):
    kill_timeout: Nanoseconds | None = None


class Disconnect(Wire):
    """The `disconnect` block (Nomad 1.8+), the successor of two settings of the group."""

    stop_on_client_after: Nanoseconds | None = None
    lost_after: Nanoseconds | None = None


class Volume(Wire):
    type: str = ""


class TaskGroup(Wire):
    name: str
    count: int = 0
    meta: dict[str, str] | None = None
    stop_after_client_disconnect: Nanoseconds | None = None
    max_client_disconnect: Nanoseconds | None = None
    disconnect: Disconnect | None = None
    tasks: list[Task] | None = None
    volumes: dict[str, Volume] | None = None


class JobPayload(Wire):
    """A job, whole or as a list's stub (which has neither task groups nor, on older servers, a version)."""

    id: str
    status: str
    type: str | None = None
    stop: bool = False
    version: Index = UNKNOWN
    create_index: Index = UNKNOWN
    modify_index: Index = UNKNOWN
    job_modify_index: Index = UNKNOWN
    submit_time: Nanoseconds = 0
    task_groups: list[TaskGroup] | None = None


class TaskState(Wire):
    state: str = ""
    restarts: int = 0


class DesiredTransition(Wire):
    migrate: bool | None = None
    migrate_disable_placement: bool | None = None


class AllocationPayload(Wire):
    id: str
    job_id: str
    client_status: str
    desired_status: str
    desired_description: str | None = None
    node_id: str = ""
    node_name: str = ""
    task_group: str = ""
    previous_allocation: str | None = None
    next_allocation: str | None = None
    followup_eval_id: str | None = None
    desired_transition: DesiredTransition | None = None
    job_version: Index = UNKNOWN
    create_index: Index = UNKNOWN
    modify_index: Index = UNKNOWN
    alloc_modify_index: Index = UNKNOWN
    modify_time: Nanoseconds = 0
    task_states: dict[str, TaskState] | None = None


class PlacementFailure(Wire):
    """Why the scheduler found no node for a group (`FailedTGAllocs`)."""

    nodes_evaluated: int = 0
    nodes_filtered: int = 0
    nodes_exhausted: int = 0
    constraint_filtered: dict[str, int] | None = None
    dimension_exhausted: dict[str, int] | None = None


class EvaluationPayload(Wire):
    id: str
    job_id: str
    status: str
    wait_until: str | None = None
    failed_tg_allocs: dict[str, PlacementFailure] | None = None
    create_index: Index = UNKNOWN
    modify_index: Index = UNKNOWN
    modify_time: Nanoseconds = 0


class NodePayload(Wire):
    id: str
    status: str
    name: str = ""
    drain: bool = False
    drain_strategy: dict[str, Any] | None = None
    modify_index: Index = UNKNOWN
    status_updated_at: Nanoseconds = 0  # in seconds, unlike every other time

    @property
    def draining(self) -> bool:
        """Whether the node is being emptied; older servers say it with a flag, newer ones with a strategy."""
        return self.drain or self.drain_strategy is not None


class Payload(Wire):
    job: JobPayload | None = None
    allocation: AllocationPayload | None = None
    evaluation: EvaluationPayload | None = None
    node: NodePayload | None = None
    deleted: bool = False


class Event(Wire):
    topic: str
    type: str
    payload: Payload | None = None
    namespace: str = ""


class Frame(Wire):
    """One line of the stream: the events of one Raft index."""

    index: Index = UNKNOWN
    events: list[Event] | None = None


class Snapshot(Wire):
    """Lists read from the API, with the index each is true at. An absent list was not read."""

    jobs: list[JobPayload] | None = None
    allocations: list[AllocationPayload] | None = None
    nodes: list[NodePayload] | None = None
    evaluations: list[EvaluationPayload] | None = None
    indexes: dict[str, Index] = {}


SNAPSHOT_TABLES: Final[tuple[tuple[str, type[Wire]], ...]] = (
    ("jobs", JobPayload),
    ("allocations", AllocationPayload),
    ("nodes", NodePayload),
    ("evaluations", EvaluationPayload),
)


def parse_time(text: str | None) -> float | None:
    """A time as Nomad writes it, in seconds since the epoch; None for an absent or zero time, or one that is none."""
    if not text or text.startswith("0001-01-01"):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def server_time_s(frame: Frame) -> float | None:
    """The newest time that the payloads of a frame carry, in seconds: the clock of a raw recording."""
    latest = 0.0
    for event in frame.events or ():
        payload = event.payload
        if payload is None:
            continue
        if payload.allocation is not None:
            latest = max(latest, payload.allocation.modify_time / 1e9)
        elif payload.evaluation is not None:
            latest = max(latest, payload.evaluation.modify_time / 1e9)
        elif payload.node is not None:
            latest = max(latest, float(payload.node.status_updated_at))
        elif payload.job is not None and event.type == "JobRegistered":
            latest = max(latest, payload.job.submit_time / 1e9)
    return latest if 0 < latest < 2**33 else None
