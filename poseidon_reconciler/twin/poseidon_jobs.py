"""Jobs laid out as Poseidon's: an execution environment, and runners that are copies of it.

An environment is the job `template-<number>`, a runner `<number>-<uuid1>`. What Poseidon knows about them stands in
the `Meta` of a group that never runs: whether a runner is used, and how many idle ones an environment should have.
"""

from __future__ import annotations

import copy
from random import Random
from typing import Any

from msgspec import Struct

from poseidon_reconciler.twin.jobspec import NANOSECONDS


class Work(Struct, frozen=True):
    """What the container of a runner does and needs; durations in seconds, numbers of attempts as in the policies.

    `volume` is the type of the volume that each runner claims (`csi` or `host`), if it claims one; every node has room.
    """

    command: tuple[str, ...] = ("sleep", "infinity")
    driver: str = "raw_exec"
    cpu_mhz: int = 20
    memory_mb: int = 10
    restarts: int = 3
    restart_delay_s: float = 15.0
    reschedules: int = 3
    reschedule_delay_s: float = 60.0
    delay_function: str = "exponential"
    max_delay_s: float = 240.0
    stop_after_s: float | None = None
    lost_after_s: float | None = None
    volume: str = ""
    kernel: str = ""


IDLE = Work()
"""What an idle runner does: sleep."""


def environment_id(number: int) -> str:
    """The job id of an environment."""
    return f"template-{number}"


def runner_id(number: int, rng: Random) -> str:
    """A new job id for a runner of an environment, in the shape of a time-based UUID."""
    return f"{number}-{rng.getrandbits(32):08x}-{rng.getrandbits(16):04x}-11f1-9c5d-02fc00000001"


def environment_job(number: int, pool_size: int, work: Work = IDLE) -> dict[str, Any]:
    """An environment's job."""
    return _job(environment_id(number), work, {"prewarmingPoolSize": str(pool_size), "used": "false"})


def runner_job(job_id: str, work: Work = IDLE) -> dict[str, Any]:
    """An idle runner's job."""
    return _job(job_id, work, {"used": "false"})


def with_config(job: dict[str, Any], **meta: str) -> dict[str, Any]:
    """The same job with other keys in the `Meta` of its group `config`: a new version in place."""
    changed = copy.deepcopy(job)
    for group in changed["TaskGroups"]:
        if group["Name"] == "config":
            group["Meta"] = {**(group.get("Meta") or {}), **meta}
    return changed


def config_of(job: dict[str, Any]) -> dict[str, str]:
    """The `Meta` of a job's group `config`."""
    metas = (group.get("Meta") or {} for group in job["TaskGroups"] if group["Name"] == "config")
    return next(metas, {})


def _job(job_id: str, work: Work, meta: dict[str, str]) -> dict[str, Any]:
    constraints = [{"LTarget": "${attr.kernel.name}", "Operand": "=", "RTarget": work.kernel}] if work.kernel else None
    return {
        "ID": job_id, "Name": job_id, "Type": "batch", "Datacenters": ["dc1"], "Constraints": constraints,
        "TaskGroups": [_default_group(work), _config_group(meta)],
    }  # fmt: skip


def _default_group(work: Work) -> dict[str, Any]:
    hour = 3600 * NANOSECONDS
    group: dict[str, Any] = {
        "Name": "default-group", "Count": 1, "EphemeralDisk": {"SizeMB": 10},
        "Constraints": [{"LTarget": "${attr.os.signals}", "Operand": "set_contains", "RTarget": "SIGKILL"}],
        "RestartPolicy": {
            "Attempts": work.restarts, "Delay": _nanoseconds(work.restart_delay_s), "Interval": hour, "Mode": "fail",
        },
        "ReschedulePolicy": {
            "Attempts": work.reschedules, "Delay": _nanoseconds(work.reschedule_delay_s), "Interval": 6 * hour,
            "DelayFunction": work.delay_function, "MaxDelay": _nanoseconds(work.max_delay_s), "Unlimited": False,
        },
        "Spreads": [{"Attribute": "${node.unique.name}", "SpreadTarget": None, "Weight": 100}],
        "Tasks": [{
            "Name": "default-task", "Driver": work.driver, "KillSignal": "SIGKILL",
            "Config": {"command": work.command[0], "args": list(work.command[1:])},
            "LogConfig": {"MaxFileSizeMB": 1, "MaxFiles": 1},
            "Resources": {"CPU": work.cpu_mhz, "MemoryMB": work.memory_mb},
        }],
    }  # fmt: skip
    if work.stop_after_s is not None:
        group["StopAfterClientDisconnect"] = _nanoseconds(work.stop_after_s)
    if work.lost_after_s is not None:
        group["MaxClientDisconnect"] = _nanoseconds(work.lost_after_s)
    if work.volume:
        group["Volumes"] = {"workspace": {"Name": "workspace", "Type": work.volume, "Source": "workspace"}}
    return group


def _config_group(meta: dict[str, str]) -> dict[str, Any]:
    return {
        "Name": "config", "Count": 0, "Meta": meta, "EphemeralDisk": {"SizeMB": 10},
        "Tasks": [{
            "Name": "config", "Driver": "exec", "Config": {"command": "true"},
            "LogConfig": {"MaxFileSizeMB": 1, "MaxFiles": 1}, "Resources": {"CPU": 1, "MemoryMB": 10},
        }],
    }  # fmt: skip


def _nanoseconds(seconds: float) -> int:
    return round(seconds * NANOSECONDS)
