"""Job documents: what we register is what was read, with as little of our own as possible.

Everything of ours stands in the `Meta` of the group `config`, which never runs: a change there is a new version of the
job *in place*. The job's own `Meta` and that of the group that runs would reach the learner's container, and a change
of them restarts it.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Final

Document = dict[str, Any]

CONFIG_GROUP: Final = "config"
CREATOR: Final = "poseidon-reconciler"
CREATED_BY: Final = f"{CREATOR}.created-by"
REPLACES: Final = f"{CREATOR}.replaces"
DECISION: Final = f"{CREATOR}.decision"
TRACE_ID: Final = f"{CREATOR}.trace-id"
PROTECTED: Final = f"{CREATOR}.protected"
REVIVED: Final = f"{CREATOR}.revived"
STOPPED: Final = f"{CREATOR}.stopped"

# What a server says about a job, and does not want to be told.
_SET_BY_SERVER: Final = frozenset(
    {
        "CreateIndex",
        "DispatchIdempotencyToken",
        "Dispatched",
        "JobModifyIndex",
        "ModifyIndex",
        "NomadTokenID",
        "Stable",
        "Status",
        "StatusDescription",
        "Stop",
        "SubmitTime",
        "Version",
        "VersionTag",
    }
)


class DocumentError(ValueError):
    """The job is not laid out as Poseidon lays out its jobs. Says what is missing."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """Who changed a job, and by which decision. `decision` is unique; `trace_id` is that of its trace, if any."""

    decision: str
    trace_id: str | None = None


def runner_from_template(template: Document, job_id: str, stamp: Stamp, *, replaces: str | None = None) -> Document:
    """A new idle runner, as Poseidon copies it from its environment's own job.

    Raises:
        DocumentError: the template has no group `config`.
    """
    document = _unregistered(template)
    # In place of the template's Meta: a pool size, or somebody's mark, is not the runner's.
    _config_group(document)["Meta"] = {"used": "false", **_origin(stamp), **({REPLACES: replaces} if replaces else {})}
    document["ID"] = document["Name"] = job_id
    _allow_cached_images(document)
    return document


def restored(template: Document, stamp: Stamp) -> Document:
    """An environment's own job, to be registered again after it was cleared away.

    Raises:
        DocumentError: the template has no group `config`.
    """
    document = _unregistered(template)
    group = _config_group(document)
    kept = {key: value for key, value in (group.get("Meta") or {}).items() if not key.startswith(CREATOR)}
    group["Meta"] = {**kept, **_origin(stamp)}
    return document


def protected(job: Document, stamp: Stamp) -> Document:
    """The job as it is, with one key of ours changed: a new version, which disowns the allocations of the old one.

    Raises:
        DocumentError: the job has no group `config`.
    """
    return _touched(job, PROTECTED, stamp)


def revived(job: Document, stamp: Stamp) -> Document:
    """The job changed and not stopped: registering a dead job as it is does nothing.

    Raises:
        DocumentError: the job has no group `config`.
    """
    document = _touched(job, REVIVED, stamp)
    document["Stop"] = False
    return document


def stopped(job: Document, stamp: Stamp) -> Document:
    """The job as it is, but stopped: what a deregistration does, only that it can depend on the job's index.

    Raises:
        DocumentError: the job has no group `config`.
    """
    document = _touched(job, STOPPED, stamp)
    document["Stop"] = True
    return document


def with_stop_after(document: Document, stop_after_s: float) -> Document:
    """The job with its agents told to end the task after so long without a server, unless it says something of that.

    The block has another name since Nomad 1.8, and the server's own documents show which one it knows. A group with
    `max_client_disconnect` or `lost_after` cannot have it.
    """
    document = copy.deepcopy(document)
    nanoseconds = round(stop_after_s * 1e9)
    for group in document.get("TaskGroups") or ():
        block = group.get("Disconnect") or {}
        told = (
            group.get("StopAfterClientDisconnect"),
            group.get("MaxClientDisconnect"),
            block.get("StopOnClientAfter"),
            block.get("LostAfter"),
        )
        if group.get("Name") == CONFIG_GROUP or any(told):
            continue
        if "Disconnect" in group:
            group["Disconnect"] = {**block, "StopOnClientAfter": nanoseconds}
        else:
            group["StopAfterClientDisconnect"] = nanoseconds
    return document


def mark_of(document: Document) -> dict[str, str]:
    """The keys of ours in a job: what tells a registration of ours from all others. Empty if there are none."""
    for group in document.get("TaskGroups") or ():
        if group.get("Name") == CONFIG_GROUP:
            return {key: value for key, value in (group.get("Meta") or {}).items() if key.startswith(CREATOR)}
    return {}


def _origin(stamp: Stamp) -> dict[str, str]:
    trace = {TRACE_ID: stamp.trace_id} if stamp.trace_id else {}
    return {CREATED_BY: CREATOR, DECISION: stamp.decision, **trace}


def _touched(job: Document, key: str, stamp: Stamp) -> Document:
    document = copy.deepcopy(job)
    # With the version, so that even a repeated decision is a change.
    _config_meta(document)[key] = f"{stamp.decision} of version {job.get('Version', 0)}"
    return document


def _allow_cached_images(document: Document) -> None:
    """Only the first runners of an environment pull its image in any case: a refill would do it for each runner."""
    for group in document.get("TaskGroups") or ():
        for task in group.get("Tasks") or ():
            config = task.get("Config") or {}
            if config.get("force_pull"):
                config["force_pull"] = False


def _unregistered(job: Document) -> Document:
    return copy.deepcopy({key: value for key, value in job.items() if key not in _SET_BY_SERVER})


def _config_meta(document: Document) -> dict[str, str]:
    group = _config_group(document)
    if group.get("Meta") is None:
        group["Meta"] = {}
    meta: dict[str, str] = group["Meta"]
    return meta


def _config_group(document: Document) -> Document:
    for group in document.get("TaskGroups") or ():
        if group.get("Name") == CONFIG_GROUP:
            config: Document = group
            return config
    raise DocumentError(f"the job {document.get('ID')!r} has no group {CONFIG_GROUP!r}")
