"""Reads recordings of a real cluster, and what the embedded one sent, into the same few words.

Every object is reduced to the sequence of its *shapes*: what kind of event told of it, and in which statuses. The
steps from one shape to the next that occur in any recording are what a real cluster is known to do.
"""

from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.documents import frame

FOLDER = Path(__file__).parents[1] / "fixtures" / "event_dumps"

_VERSION = re.compile(r"\d+\.\d+\.\d+$")

Frame: TypeAlias = dict[str, Any]
Shape: TypeAlias = tuple[str, ...]
Step: TypeAlias = tuple[str, Shape | None, Shape]


def recorded(name: str) -> list[Frame]:
    """The frames of a recording, without heartbeats."""
    with gzip.open(FOLDER / f"{name}.ndjson.gz") as lines:
        documents = [orjson.loads(line) for line in lines]
    frames = (document.get("Frame", document) for document in documents if "Snapshot" not in document)
    return [frame for frame in frames if frame.get("Events")]


def sent(cluster: Cluster) -> list[Frame]:
    """The frames that a cluster would have sent to somebody who read its stream from the start."""
    return [frame(batch, batch.events, cluster.traits) for batch in cluster.quorum.log]


def recordings_of(version: str = "") -> list[str]:
    """The names of the recordings of a server's version; without one, of 1.1, whose names tell none."""
    names = sorted(path.name.removesuffix(".ndjson.gz") for path in FOLDER.glob("*.ndjson.gz"))
    return [name for name in names if (_VERSION.search(name) or [""])[0] == version]


def events(frames: Iterable[Frame]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Topic, type and object of every event."""
    for one in frames:
        for event in one["Events"]:
            yield event["Topic"], event["Type"], event["Payload"][event["Topic"]]


def final_statuses(frames: Iterable[Frame]) -> dict[str, str]:
    """How every job ended: its last status, `stopped`, or `gone`."""
    statuses: dict[str, str] = {}
    for topic, kind, document in events(frames):
        if topic == "Job":
            statuses[document["ID"]] = "stopped" if document["Stop"] else document["Status"]
        elif kind in {"JobBatchDeregistered", "JobDeregistered"} and document["Status"] == "pending":
            # A stop is told by the job before its evaluation; a purge by the evaluation alone.
            stopped = kind == "JobDeregistered" and statuses.get(document["JobID"]) == "stopped"
            statuses[document["JobID"]] = "stopped" if stopped else "gone"
    return statuses


def counted(statuses: dict[str, str]) -> Counter[tuple[str, str]]:
    """How many environments and runners ended how."""
    kinds = {"template": "environment"}
    return Counter((kinds.get(job.partition("-")[0], "runner"), status) for job, status in statuses.items())


def shape(topic: str, kind: str, document: dict[str, Any]) -> Shape:
    """An event in a few words."""
    match topic:
        case "Job":
            return kind, document["Status"], "stopped" if document["Stop"] else ""
        case "Allocation":
            linked = "linked" if document.get("NextAllocation") else ""
            why = document.get("DesiredDescription", "")
            return kind, document["ClientStatus"], document["DesiredStatus"], why, linked
        case "Evaluation":
            waits = "waits" if document.get("WaitUntil") else ""
            blocked = "blocked" if document.get("BlockedEval") else ""
            return kind, document["Status"], document["TriggeredBy"], waits, blocked
        case _:
            return kind, document["Status"], document["SchedulingEligibility"], "drains" if document["Drain"] else ""


def steps(frames: Iterable[Frame]) -> dict[Step, str]:
    """Every step from one shape of an object to another, with the id of an object that took it.

    The same shape again is no step: agents report what has not changed.
    """
    last: dict[tuple[str, str], Shape] = {}
    taken: dict[Step, str] = {}
    for topic, kind, document in events(frames):
        identity = (topic, document["ID"])
        now = shape(topic, kind, document)
        if last.get(identity) != now:
            taken.setdefault((topic, last.get(identity), now), document["ID"])
        last[identity] = now
    return taken
