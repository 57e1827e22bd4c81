"""Job documents laid out as Poseidon lays them out, as a server gives them."""

from __future__ import annotations

from typing import Any

TEMPLATE = "template-10"
RUNNER = "10-57e2b1f4-ecff-11f1-b606-02fc00000001"
OTHER = "10-67b5e11c-ecff-11f1-b606-02fc00000001"


def document(job_id: str, meta: dict[str, str] | None, **group: Any) -> dict[str, Any]:
    """A job whose group `config` has this Meta; `group` goes to the group that runs."""
    return {
        "ID": job_id,
        "Name": job_id,
        "Namespace": "default",
        "Type": "batch",
        "Priority": 50,
        "Meta": None,
        "TaskGroups": [
            {
                "Name": "default-group",
                "Count": 1,
                "Meta": None,
                "StopAfterClientDisconnect": None,
                "Tasks": [
                    {
                        "Name": "default-task",
                        "Driver": "docker",
                        "Config": {"command": "sleep", "args": ["infinity"], "force_pull": True},
                        "KillTimeout": 5_000_000_000,
                    }
                ],
                **group,
            },
            {"Name": "config", "Count": 0, "Meta": meta, "Tasks": [{"Name": "config", "Driver": "exec"}]},
        ],
    }


def template(size: int = 5, **group: Any) -> dict[str, Any]:
    return document(TEMPLATE, {"used": "false", "prewarmingPoolSize": str(size)}, **group)


def runner(job_id: str = RUNNER, used: str = "false") -> dict[str, Any]:
    return document(job_id, {"used": used})


def config_meta(job: dict[str, Any]) -> dict[str, str]:
    meta: dict[str, str] = next(group["Meta"] for group in job["TaskGroups"] if group["Name"] == "config")
    return meta
