"""Reads the jobs that people register: fills in Nomad's defaults, and says what a change of a job does to its tasks.

Nomad stores a job in a canonical form in which no field is missing. Whether a new version restarts the tasks or only
takes note depends on which fields changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

NANOSECONDS = 1_000_000_000

_JOB: dict[str, Any] = {
    "Affinities": None, "AllAtOnce": False, "Constraints": None, "ConsulNamespace": "", "ConsulToken": "",
    "Datacenters": ["dc1"], "Dispatched": False, "Meta": None, "Multiregion": None, "NomadTokenID": "",
    "ParameterizedJob": None, "ParentID": "", "Payload": None, "Periodic": None, "Priority": 50, "Region": "global",
    "Spreads": None, "Stable": False, "StatusDescription": "", "Stop": False, "TaskGroups": [], "Type": "service",
    "VaultNamespace": "", "VaultToken": "",
}  # fmt: skip
_UPDATE = {
    "AutoPromote": False, "AutoRevert": False, "Canary": 0, "HealthCheck": "", "HealthyDeadline": 0, "MaxParallel": 0,
    "MinHealthyTime": 0, "ProgressDeadline": 0, "Stagger": 0,
}  # fmt: skip
_GROUP: dict[str, Any] = {
    "Affinities": None, "Constraints": None, "Consul": {"Namespace": ""}, "Count": 1, "Meta": None, "Migrate": None,
    "Networks": None, "Scaling": None, "Services": None, "ShutdownDelay": None, "Spreads": None,
    "StopAfterClientDisconnect": None, "Tasks": [], "Update": None, "Volumes": None,
}  # fmt: skip
_TASK: dict[str, Any] = {
    "Affinities": None, "Artifacts": None, "CSIPluginConfig": None, "Config": None, "Constraints": None,
    "DispatchPayload": None, "Driver": "", "Env": None, "KillSignal": "", "KillTimeout": 5 * NANOSECONDS, "Kind": "",
    "Leader": False, "Lifecycle": None, "Meta": None, "ScalingPolicies": None, "Services": None, "ShutdownDelay": 0,
    "Templates": None, "User": "", "Vault": None, "VolumeMounts": None,
}  # fmt: skip
_RESOURCES = {
    "CPU": 100, "Cores": 0, "Devices": None, "DiskMB": 0, "IOPS": 0, "MemoryMB": 300, "MemoryMaxMB": 0,
    "Networks": None,
}  # fmt: skip
_DISK = {"Migrate": False, "SizeMB": 300, "Sticky": False}
_LOGS = {"MaxFileSizeMB": 10, "MaxFiles": 10}
_HOUR = 3600 * NANOSECONDS
_RESTART = {"Attempts": 3, "Delay": 15 * NANOSECONDS, "Interval": 24 * _HOUR, "Mode": "fail"}
_RESCHEDULE = {
    "Attempts": 1, "Delay": 5 * NANOSECONDS, "DelayFunction": "constant", "Interval": 24 * _HOUR, "MaxDelay": 0,
    "Unlimited": False,
}  # fmt: skip

ASSIGNED_BY_SERVER = frozenset(
    {"CreateIndex", "JobModifyIndex", "ModifyIndex", "Stable", "Status", "StatusDescription", "SubmitTime", "Version"}
)
"""Fields of a job that the server writes: they are no part of what somebody registered."""

# A group's or a task's fields that make a new allocation necessary when they change.
_GROUP_SHAPE = ("Affinities", "Consul", "EphemeralDisk", "Networks", "Spreads", "Volumes")
_TASK_SHAPE = (
    "Affinities", "Artifacts", "CSIPluginConfig", "Config", "DispatchPayload", "Driver", "Env", "KillSignal", "Kind",
    "Leader", "Lifecycle", "Meta", "Resources", "Templates", "User", "Vault", "VolumeMounts",
)  # fmt: skip


class RestartPolicy(Struct, frozen=True):
    """How often an agent restarts a task in place before it gives up."""

    attempts: int
    delay_s: float
    interval_s: float
    mode: str


class ReschedulePolicy(Struct, frozen=True):
    """How often, and after which delay, the servers replace a failed allocation."""

    attempts: int
    delay_s: float
    delay_function: str
    interval_s: float
    max_delay_s: float
    unlimited: bool


class Group(Struct, frozen=True):
    """What scheduler and agents need of a task group; `raw` is all of it."""

    name: str
    count: int
    raw: Mapping[str, Any]
    cpu_mhz: int
    memory_mb: int
    disk_mb: int
    restart: RestartPolicy
    reschedule: ReschedulePolicy
    kill_timeout_s: float
    stop_after_s: float | None
    lost_after_s: float | None
    replace_disconnected: bool
    reconcile_strategy: str


def canonical(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The job with every field that Nomad would fill in; fields that are not known here are kept."""
    spec = {**_JOB, "Update": dict(_UPDATE), **_given(raw)}
    spec["Name"] = spec.get("Name") or spec["ID"]
    spec["Namespace"] = spec.get("Namespace") or "default"
    spec["Meta"] = spec["Meta"] or None
    spec["TaskGroups"] = [_canonical_group(group, batch=spec["Type"] == "batch") for group in spec["TaskGroups"] or ()]
    return {name: value for name, value in spec.items() if name not in ASSIGNED_BY_SERVER}


def groups_of(spec: Mapping[str, Any]) -> tuple[Group, ...]:
    """The task groups of a canonical job."""
    return tuple(_read_group(raw) for raw in spec["TaskGroups"])


def needs_new_allocation(old: Mapping[str, Any], new: Mapping[str, Any], group_name: str) -> bool:
    """Whether going from one canonical job to the other replaces the allocations of that group.

    The job's and the group's own `Meta` reach the tasks' environment; another group's `Meta`, the priority or a count
    do not.
    """
    before, after = _raw_group(old, group_name), _raw_group(new, group_name)
    if before is None or after is None or (old["Meta"] or None) != (new["Meta"] or None):
        return True
    if (before["Meta"] or None) != (after["Meta"] or None) or _differ(before, after, _GROUP_SHAPE):
        return True
    old_tasks = {task["Name"]: task for task in before["Tasks"]}
    new_tasks = {task["Name"]: task for task in after["Tasks"]}
    return old_tasks.keys() != new_tasks.keys() or any(
        _differ(old_tasks[name], new_tasks[name], _TASK_SHAPE) for name in new_tasks
    )


def _differ(before: Mapping[str, Any], after: Mapping[str, Any], fields: tuple[str, ...]) -> bool:
    return any(before.get(name) != after.get(name) for name in fields)


def _raw_group(spec: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    return next((group for group in spec["TaskGroups"] if group["Name"] == name), None)


def _given(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in raw.items() if value is not None}


def _canonical_group(raw: Mapping[str, Any], *, batch: bool) -> dict[str, Any]:
    group = {**_GROUP, **_given(raw)}
    group["Meta"] = group["Meta"] or None
    group["EphemeralDisk"] = {**_DISK, **_given(raw.get("EphemeralDisk") or {})}
    group["RestartPolicy"] = {**_RESTART, **_given(raw.get("RestartPolicy") or {})}
    unlimited = {"Unlimited": True, "Attempts": 0, "Delay": 30 * NANOSECONDS, "DelayFunction": "exponential",
                 "MaxDelay": _HOUR, "Interval": 0}  # fmt: skip
    defaults = _RESCHEDULE if batch else unlimited
    group["ReschedulePolicy"] = {**defaults, **_given(raw.get("ReschedulePolicy") or {})}
    group["Tasks"] = [_canonical_task(task, group["RestartPolicy"]) for task in group["Tasks"] or ()]
    return group


def _canonical_task(raw: Mapping[str, Any], restart: Mapping[str, Any]) -> dict[str, Any]:
    task = {**_TASK, **_given(raw)}
    task["Meta"] = task["Meta"] or None
    task["LogConfig"] = {**_LOGS, **_given(raw.get("LogConfig") or {})}
    task["Resources"] = {**_RESOURCES, **_given(raw.get("Resources") or {})}
    task["RestartPolicy"] = {**restart, **_given(raw.get("RestartPolicy") or {})}
    return task


def _read_group(raw: Mapping[str, Any]) -> Group:
    tasks = raw["Tasks"]
    disconnect = raw.get("Disconnect") or {}
    restart, reschedule = raw["RestartPolicy"], raw["ReschedulePolicy"]
    return Group(
        name=raw["Name"],
        count=raw["Count"],
        raw=raw,
        cpu_mhz=sum(task["Resources"]["CPU"] for task in tasks),
        memory_mb=sum(task["Resources"]["MemoryMB"] for task in tasks),
        disk_mb=raw["EphemeralDisk"]["SizeMB"],
        restart=RestartPolicy(
            restart["Attempts"], _seconds(restart["Delay"]), _seconds(restart["Interval"]), restart["Mode"]
        ),
        reschedule=ReschedulePolicy(
            reschedule["Attempts"],
            _seconds(reschedule["Delay"]),
            reschedule["DelayFunction"],
            _seconds(reschedule["Interval"]),
            _seconds(reschedule["MaxDelay"]),
            reschedule["Unlimited"],
        ),
        kill_timeout_s=max((_seconds(task["KillTimeout"]) for task in tasks), default=5.0),
        stop_after_s=_optional_seconds(disconnect.get("StopOnClientAfter"), raw.get("StopAfterClientDisconnect")),
        lost_after_s=_optional_seconds(disconnect.get("LostAfter"), raw.get("MaxClientDisconnect")),
        replace_disconnected=disconnect.get("Replace") is not False,
        reconcile_strategy=disconnect.get("Reconcile") or "best_score",
    )


def _seconds(nanoseconds: int) -> float:
    return nanoseconds / NANOSECONDS


def _optional_seconds(*candidates: int | None) -> float | None:
    """The first duration that is set; the older name of a setting comes last, and zero means unset."""
    return next((_seconds(value) for value in candidates if value), None)
