"""Job documents laid out as Poseidon's, so that a real scheduler is asked about the jobs that matter.

An environment is a batch job whose group `default-group` runs for ever and whose group `config` (count 0) only
carries `Meta`. A runner is a copy of it under an id of its own. `raw_exec` stands in for docker: `sleep` needs
neither an image nor rights.
"""

from __future__ import annotations

import copy
import uuid
from typing import Any, TypeAlias

Job: TypeAlias = dict[str, Any]

_SECOND_NS = 1_000_000_000
_TASK_GROUP = "default-group"
_CONFIG_GROUP = "config"
_KEY_OF_OURS = "reconciler_protected"


def environment_job(environment_id: int, target: int) -> Job:
    """The template job of an environment whose prewarming pool should hold `target` idle runners."""
    job_id = f"template-{environment_id}"
    return {
        "ID": job_id,
        "Name": job_id,
        "Type": "batch",
        "Datacenters": ["dc1"],
        "TaskGroups": [
            _running_group(),
            _config_group({"used": "false", "prewarmingPoolSize": str(target)}),
        ],
    }


def runner_job(template: Job) -> Job:
    """An idle runner of the environment: the template under a fresh `<environment>-<uuid1>`."""
    job = copy.deepcopy(template)
    environment_id = template["ID"].removeprefix("template-")
    job["ID"] = job["Name"] = f"{environment_id}-{uuid.uuid1()}"
    _group(job, _CONFIG_GROUP)["Meta"] = {"used": "false"}
    return job


def pool(environment_id: int, size: int) -> list[Job]:
    """An environment and `size` idle runners of it, the environment first."""
    template = environment_job(environment_id, size)
    return [template, *(runner_job(template) for _ in range(size))]


def with_config(job: Job, **meta: str) -> Job:
    """The job with other values in the group `config`'s `Meta`: a new version, in place."""
    changed = copy.deepcopy(job)
    group = _group(changed, _CONFIG_GROUP)
    group["Meta"] = {**(group["Meta"] or {}), **meta}
    return changed


def with_config_meta(job: Job, value: str) -> Job:
    """The job with one key of ours changed there."""
    return with_config(job, **{_KEY_OF_OURS: value})


def with_job_meta(job: Job, value: str) -> Job:
    """The job with one key of ours changed in the job's own `Meta`, which reaches the task's environment."""
    changed = copy.deepcopy(job)
    changed["Meta"] = {**(changed.get("Meta") or {}), _KEY_OF_OURS: value}
    return changed


def _group(job: Job, name: str) -> dict[str, Any]:
    groups: list[dict[str, Any]] = job["TaskGroups"]
    return next(group for group in groups if group["Name"] == name)


def _running_group() -> dict[str, Any]:
    return {
        "Name": _TASK_GROUP,
        "Count": 1,
        "EphemeralDisk": {"SizeMB": 10},
        "Spreads": [{"Attribute": "${node.unique.name}", "Weight": 100}],
        "RestartPolicy": {
            "Attempts": 3,
            "Delay": 15 * _SECOND_NS,
            "Interval": 3600 * _SECOND_NS,
            "Mode": "fail",
        },
        "ReschedulePolicy": {
            "Attempts": 3,
            "Delay": 60 * _SECOND_NS,
            "DelayFunction": "exponential",
            "Interval": 6 * 3600 * _SECOND_NS,
            "MaxDelay": 240 * _SECOND_NS,
            "Unlimited": False,
        },
        "Tasks": [
            {
                "Name": "default-task",
                "Driver": "raw_exec",
                "Config": {"command": "sleep", "args": ["infinity"]},
                "KillSignal": "SIGKILL",
                "Resources": {"CPU": 20, "MemoryMB": 10},
                "LogConfig": {"MaxFiles": 1, "MaxFileSizeMB": 1},
            }
        ],
    }


def _config_group(meta: dict[str, str]) -> dict[str, Any]:
    return {
        "Name": _CONFIG_GROUP,
        "Count": 0,
        "Meta": meta,
        "EphemeralDisk": {"SizeMB": 10},
        "Tasks": [
            {
                "Name": "config",
                "Driver": "exec",
                "Config": {"command": "true"},
                "Resources": {"CPU": 1, "MemoryMB": 10},
                "LogConfig": {"MaxFiles": 1, "MaxFileSizeMB": 1},
            }
        ],
    }
