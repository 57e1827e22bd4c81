"""The cluster's objects as Nomad's JSON shows them.

Events leave out the empty fields of allocations and evaluations and carry no job inside an allocation; the API's
answers name every field. Times are nanoseconds since the epoch or RFC 3339 text, durations nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

from poseidon_reconciler.twin.events import Batch, Event
from poseidon_reconciler.twin.jobspec import NANOSECONDS
from poseidon_reconciler.twin.placement import node_attributes
from poseidon_reconciler.twin.records import Allocation, Drain, Evaluation, Job, Node, NodeEvent, TaskEvent, TaskState
from poseidon_reconciler.twin.traits import Traits

Document: TypeAlias = dict[str, Any]

_EMPTY_TASK_EVENT = {
    "DiskLimit": 0, "DownloadError": "", "DriverError": "", "DriverMessage": "", "ExitCode": 0, "FailedSibling": "",
    "FailsTask": False, "GenericSource": "", "KillError": "", "KillReason": "", "KillTimeout": 0, "Message": "",
    "RestartReason": "", "SetupError": "", "Signal": 0, "StartDelay": 0, "TaskSignal": "", "TaskSignalReason": "",
    "ValidationError": "", "VaultError": "",
}  # fmt: skip
_NETWORK = {
    "CIDR": "127.0.0.1/32", "DNS": None, "Device": "lo", "DynamicPorts": None, "IP": "127.0.0.1", "MBits": 1000,
    "Mode": "host", "ReservedPorts": None,
}  # fmt: skip
_NODE_NETWORK = {
    "Addresses": [
        {"Address": "127.0.0.1", "Alias": "default", "Family": "ipv4", "Gateway": "", "ReservedPorts": ""}
    ],
    "Device": "lo", "MacAddress": "", "Mode": "host", "Speed": 1000,
}  # fmt: skip
_OWN_MESSAGE = frozenset({"Task Setup", "Driver"})


def nanoseconds(at: float) -> int:
    """Seconds since the epoch as Nomad counts them."""
    return round(at * 1_000_000) * 1000


def iso(at: float | None) -> str | None:
    """Seconds since the epoch as RFC 3339 text."""
    if at is None:
        return None
    text = datetime.fromtimestamp(round(at, 6), UTC).isoformat()
    return text.replace("+00:00", "Z")


def job_document(job: Job) -> Document:
    """A whole job, as events and `/v1/job/:id` show it."""
    return {
        **job.spec,
        "CreateIndex": job.create_index, "JobModifyIndex": job.job_modify_index, "ModifyIndex": job.modify_index,
        "Stable": False, "Status": job.status, "StatusDescription": "", "Stop": job.stop,
        "SubmitTime": nanoseconds(job.submitted_at), "Version": job.version,
    }  # fmt: skip


def allocation_document(allocation: Allocation, *, with_job: bool = True) -> Document:
    """An allocation as `/v1/allocation/:id` shows it: every field, and its job."""
    group = allocation.job.group(allocation.group_name)
    tasks = group.raw["Tasks"] if group is not None else ()
    disk_mb = group.disk_mb if group is not None else 0
    return {
        "AllocModifyIndex": allocation.alloc_modify_index,
        "AllocatedResources": {
            "Shared": {"DiskMB": disk_mb, "Networks": None, "Ports": None},
            "TaskLifecycles": {task["Name"]: task["Lifecycle"] for task in tasks},
            "Tasks": {task["Name"]: _allocated(task["Resources"]) for task in tasks},
        },
        "ClientDescription": allocation.client_description, "ClientStatus": allocation.client_status,
        "CreateIndex": allocation.create_index, "CreateTime": nanoseconds(allocation.created_at),
        "DeploymentID": "", "DeploymentStatus": None, "DesiredDescription": allocation.desired_description,
        "DesiredStatus": allocation.desired_status, "DesiredTransition": _transition(allocation),
        "EvalID": allocation.evaluation_id, "FollowupEvalID": allocation.followup_evaluation_id,
        "ID": allocation.id, "Job": job_document(allocation.job) if with_job else None, "JobID": allocation.job.id,
        "Metrics": allocation.metrics, "ModifyIndex": allocation.modify_index,
        "ModifyTime": nanoseconds(allocation.modified_at), "Name": allocation.name,
        "Namespace": allocation.job.namespace,
        "NetworkStatus": {"Address": "", "DNS": None, "InterfaceName": ""} if allocation.reported else None,
        "NextAllocation": allocation.next_id, "NodeID": allocation.node_id, "NodeName": allocation.node_name,
        "PreemptedAllocations": None, "PreemptedByAllocation": "", "PreviousAllocation": allocation.previous_id,
        "RescheduleTracker": _tracker(allocation), "Resources": _resources(group_total(allocation)),
        "SharedResources": _resources((0, 0, disk_mb)), "TaskGroup": allocation.group_name,
        "TaskResources": {task["Name"]: task["Resources"] for task in tasks},
        "TaskStates": task_states(allocation.task_states),
    }  # fmt: skip


def evaluation_document(evaluation: Evaluation) -> Document:
    """An evaluation as `/v1/evaluation/:id` shows it: every field."""
    return {
        "BlockedEval": evaluation.blocked_id, "ClassEligibility": evaluation.class_eligibility or None,
        "CreateIndex": evaluation.create_index, "CreateTime": nanoseconds(evaluation.created_at),
        "DeploymentID": "", "EscapedComputedClass": False, "FailedTGAllocs": evaluation.failed_groups,
        "ID": evaluation.id, "JobID": evaluation.job_id, "JobModifyIndex": evaluation.job_modify_index,
        "ModifyIndex": evaluation.modify_index, "ModifyTime": nanoseconds(evaluation.modified_at),
        "Namespace": evaluation.namespace, "NextEval": evaluation.next_id, "NodeID": evaluation.node_id,
        "NodeModifyIndex": evaluation.node_modify_index, "PreviousEval": evaluation.previous_id,
        "Priority": evaluation.priority, "QueuedAllocations": evaluation.queued,
        "QuotaLimitReached": "", "SnapshotIndex": evaluation.snapshot_index, "Status": evaluation.status,
        "StatusDescription": evaluation.status_description, "TriggeredBy": evaluation.triggered_by,
        "Type": evaluation.type, "WaitUntil": iso(evaluation.wait_until),
    }  # fmt: skip


def node_document(node: Node) -> Document:
    """A node as events and `/v1/node/:id` show it."""
    spec = node.spec
    resources = {
        "CPU": spec.cpu_mhz, "Cores": 0, "Devices": None, "DiskMB": spec.disk_mb, "IOPS": 0,
        "MemoryMB": spec.memory_mb, "MemoryMaxMB": 0, "Networks": [_NETWORK],
    }  # fmt: skip
    return {
        "Attributes": node_attributes(node), "CSIControllerPlugins": None, "CSINodePlugins": None,
        "ComputedClass": node.computed_class, "CreateIndex": node.create_index, "Datacenter": spec.datacenter,
        "Drain": node.drain is not None, "DrainStrategy": _drain(node.drain), "Drivers": drivers(node),
        "Events": [_node_event(event) for event in node.events],
        "HTTPAddr": f"127.0.0.1:{spec.port}", "HostVolumes": None, "ID": node.id, "LastDrain": last_drain(node),
        "Links": None, "Meta": dict(spec.meta), "ModifyIndex": node.modify_index, "Name": spec.name,
        "NodeClass": spec.node_class,
        "NodeResources": {
            "Cpu": {"CpuShares": spec.cpu_mhz, "ReservableCpuCores": [0, 1], "TotalCpuCores": 2}, "Devices": None,
            "Disk": {"DiskMB": spec.disk_mb}, "Memory": {"MemoryMB": spec.memory_mb}, "Networks": [_NETWORK],
            "NodeNetworks": [_NODE_NETWORK],
        },
        "Reserved": _resources((0, 0, 0)),
        "ReservedResources": {
            "Cpu": {"CpuShares": 0, "ReservedCpuCores": None}, "Disk": {"DiskMB": 0}, "Memory": {"MemoryMB": 0},
            "Networks": {"ReservedHostPorts": ""},
        },
        "Resources": resources, "SchedulingEligibility": eligibility(node), "SecretID": "", "Status": node.status,
        "StatusDescription": "", "StatusUpdatedAt": int(node.updated_at), "TLSEnabled": False,
    }  # fmt: skip


def frame(batch: Batch, events: Iterable[Event], traits: Traits) -> Document:
    """One line of the event stream, with those events of a batch that somebody asked for."""
    return {"Index": batch.index, "Events": [event_document(event, traits) for event in events]}


def event_document(event: Event, traits: Traits) -> Document:
    """One event of the stream."""
    payload: Document = {event.topic: _payload(event)}
    if event.topic == "Job" and event.deleted and traits.marks_deleted:
        payload["Deleted"] = True
    return {
        "FilterKeys": list(event.filter_keys) if event.filter_keys is not None else None, "Index": event.index,
        "Key": event.key, "Namespace": event.namespace, "Payload": payload, "Topic": event.topic, "Type": event.type,
    }  # fmt: skip


def _payload(event: Event) -> Document:
    match event.payload:
        case Job():
            return job_document(event.payload)
        case Allocation():
            return without_empty(allocation_document(event.payload, with_job=False))
        case Evaluation():
            return without_empty(evaluation_document(event.payload))
        case Node():
            return node_document(event.payload)


def without_empty(document: Document) -> Document:
    """A document without the fields that hold nothing."""
    return {name: value for name, value in document.items() if value}


def task_states(states: Mapping[str, TaskState]) -> Document | None:
    """`TaskStates` of an allocation."""
    return {name: _task_state(state) for name, state in states.items()} or None


def _task_state(state: TaskState) -> Document:
    return {
        "Events": [_task_event(event) for event in state.events], "Failed": state.failed,
        "FinishedAt": iso(state.finished_at), "LastRestart": iso(state.last_restart_at),
        "Restarts": state.restarts, "StartedAt": iso(state.started_at), "State": state.state, "TaskHandle": None,
    }  # fmt: skip


def _task_event(event: TaskEvent) -> Document:
    own = event.message if event.type in _OWN_MESSAGE else ""
    details: Document = {"message": own} if own else {}
    if event.type == "Terminated":
        code, signal = event.fields.get("ExitCode", 0), event.fields.get("Signal", 0)
        details = {"exit_code": str(code), "oom_killed": "false", "signal": str(signal)}
    return {
        **_EMPTY_TASK_EVENT, "Message": own, **event.fields, "Details": details, "DisplayMessage": event.message,
        "Time": nanoseconds(event.at), "Type": event.type,
    }  # fmt: skip


def _node_event(event: NodeEvent) -> Document:
    return {
        "CreateIndex": event.index, "Details": event.details, "Message": event.message,
        "Subsystem": event.subsystem, "Timestamp": iso(event.at),
    }  # fmt: skip


def _transition(allocation: Allocation) -> Document | None:
    if not (allocation.migrate or allocation.force_reschedule):
        return None
    transition: Document = {
        "ForceReschedule": allocation.force_reschedule or None, "Migrate": allocation.migrate or None,
        "Reschedule": None,
    }  # fmt: skip
    if allocation.disable_placement:
        transition["MigrateDisablePlacement"] = True
    return transition


def _tracker(allocation: Allocation) -> Document | None:
    if not allocation.reschedulings:
        return None
    return {
        "Events": [
            {
                "Delay": round(past.delay_s * NANOSECONDS), "PrevAllocID": past.previous_allocation_id,
                "PrevNodeID": past.previous_node_id, "RescheduleTime": nanoseconds(past.at),
            }
            for past in allocation.reschedulings
        ]
    }  # fmt: skip


def group_total(allocation: Allocation) -> tuple[int, int, int]:
    """MHz, MB of memory and MB of disk of an allocation."""
    group = allocation.job.group(allocation.group_name)
    return (group.cpu_mhz, group.memory_mb, group.disk_mb) if group is not None else (0, 0, 0)


def _allocated(resources: Mapping[str, Any]) -> Document:
    return {
        "Cpu": {"CpuShares": resources["CPU"], "ReservedCores": None}, "Devices": None,
        "Memory": {"MemoryMB": resources["MemoryMB"], "MemoryMaxMB": resources["MemoryMaxMB"]}, "Networks": None,
    }  # fmt: skip


def _resources(total: tuple[int, int, int]) -> Document:
    cpu, memory, disk = total
    return {
        "CPU": cpu, "Cores": 0, "Devices": None, "DiskMB": disk, "IOPS": 0, "MemoryMB": memory, "MemoryMaxMB": memory,
        "Networks": None,
    }  # fmt: skip


def eligibility(node: Node) -> str:
    """`SchedulingEligibility` of a node."""
    return "eligible" if node.eligible else "ineligible"


def drivers(node: Node) -> Document:
    """`Drivers` of a node."""
    return {
        name: {
            "Attributes": {f"driver.{name}": "true"}, "Detected": True, "HealthDescription": "Healthy", "Healthy": True,
            "UpdateTime": iso(node.events[0].at if node.events else node.updated_at),
        }
        for name in node.spec.drivers
    }  # fmt: skip


def _drain(drain: Drain | None) -> Document | None:
    if drain is None:
        return None
    forced = drain.requested_s < 0
    return {
        "Deadline": -1 if forced else round(drain.requested_s * NANOSECONDS),
        "ForceDeadline": None if forced else iso(drain.deadline_at),
        "IgnoreSystemJobs": drain.ignore_system_jobs, "StartedAt": iso(drain.started_at),
    }  # fmt: skip


def last_drain(node: Node) -> Document | None:
    """`LastDrain` of a node."""
    last = node.last_drain
    if last is None:
        return None
    return {
        "AccessorID": "", "Meta": None, "StartedAt": iso(last.started_at), "Status": last.status,
        "UpdatedAt": iso(last.updated_at),
    }  # fmt: skip
