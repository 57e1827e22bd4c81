"""The bytes that the benchmarks read: real recordings made larger, and synthetic pools of any size."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

RECORDINGS = Path(__file__).parent.parent / "tests" / "fixtures" / "event_dumps"

_UUID = re.compile(rb'"([0-9a-f]{8})(-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"')
_JOB_ID = re.compile(rb'"(template-|)(10)(-[0-9a-f-]{36}|)(\.|")')
_INDEX = re.compile(rb'"(Index|CreateIndex|ModifyIndex|JobModifyIndex|AllocModifyIndex)":([0-9]+)')


def recorded_lines(at_least_bytes: int) -> list[bytes]:
    """All frames of the recordings, repeated with distinct ids and rising indexes until they have that many bytes."""
    originals = [_frames(path) for path in sorted(RECORDINGS.glob("*.ndjson.gz")) if "-raw" not in path.name]
    lines: list[bytes] = []
    total = offset = copy = 0
    while total < at_least_bytes:
        for frames in originals:
            copy += 1
            renamed = [_rename(frame, copy, offset) for frame in frames]
            offset += 10_000
            lines += renamed
            total += sum(map(len, renamed))
    return lines


def _frames(path: Path) -> list[bytes]:
    with gzip.open(path) as file:
        documents = [orjson.loads(line) for line in file]
    return [orjson.dumps(document["Frame"]) for document in documents if document.get("Frame")]


def _rename(frame: bytes, copy: int, offset: int) -> bytes:
    environment = str(1000 + copy).encode()
    frame = _UUID.sub(lambda m: b'"%08x%b"' % (int(m[1], 16) ^ copy, m[2]), frame)
    frame = _JOB_ID.sub(lambda m: b'"' + m[1] + environment + m[3] + m[4] if m[1] or m[3] else m[0], frame)
    return _INDEX.sub(lambda m: b'"%b":%d' % (m[1], int(m[2]) + offset), frame)


class PoolWriter:
    """Events of one environment with any number of runners, each shaped like the real ones of a recording."""

    def __init__(self, runners: int) -> None:
        self.runners = runners
        self.index = 1000
        events = [
            event for frame in _frames(RECORDINGS / "startup.ndjson.gz") for event in orjson.loads(frame)["Events"]
        ]
        runner = next(e["Key"] for e in events if e["Topic"] == "Job" and not e["Key"].startswith("template-"))
        self._job = _last(events, "Job", runner)
        self._template = _last(events, "Job", "template-10")
        self._allocation = _last(events, "Allocation", runner)
        self._evaluation = _last(events, "Evaluation", runner)
        self._node = _last(events, "Node", "")

    def registration_lines(self) -> Iterator[bytes]:
        """The template and its nodes, then every runner: registered, placed, running."""
        for number in range(1 + self.runners // 100):
            node = dict(self._node["Payload"]["Node"], ID=_node_id(number), Name=f"agent-{number}", Status="ready")
            yield self._line(self._event(self._node, "Node", node))
        yield self._line(self._event(self._template, "Job", dict(self._template["Payload"]["Job"])))
        for number in range(self.runners):
            ours = {"ID": runner_id(number), "Name": runner_id(number)}
            job = dict(self._job["Payload"]["Job"], Status="running", **ours)
            evaluation = dict(self._evaluation["Payload"]["Evaluation"], ID=_uuid(3, number), JobID=runner_id(number))
            yield self._line(
                self._event(self._job, "Job", job),
                self._event(self._allocation, "Allocation", self._allocation_of(number, "running")),
                self._event(self._evaluation, "Evaluation", evaluation),
            )

    def restart_lines(self, count: int) -> list[bytes]:
        """`count` lines in which runners all over the pool restart in place, one event each."""
        lines = []
        for step in range(count):
            status = "running" if step % 2 else "pending"
            number = step // 2 * 7919 % self.runners
            lines.append(self._line(self._event(self._allocation, "Allocation", self._allocation_of(number, status))))
        return lines

    def _allocation_of(self, number: int, status: str) -> dict[str, object]:
        ours = {"ID": _uuid(1, number), "JobID": runner_id(number), "NodeID": _node_id(number // 100)}
        return dict(self._allocation["Payload"]["Allocation"], ClientStatus=status, CreateIndex=1000, **ours)

    def _event(self, original: dict[str, object], topic: str, body: dict[str, object]) -> dict[str, object]:
        for name in ("ModifyIndex", "AllocModifyIndex"):
            if name in body:
                body[name] = self.index + 1
        return dict(original, Index=self.index + 1, Key=body["ID"], Payload={topic: body})

    def _line(self, *events: dict[str, object]) -> bytes:
        self.index += 1
        return orjson.dumps({"Index": self.index, "Events": events})


def _last(events: list[dict[str, Any]], topic: str, job_id: str) -> dict[str, Any]:
    """The last event of a topic that concerns a job."""
    return [e for e in events if e["Topic"] == topic and job_id in (e["Key"], *(e["FilterKeys"] or ()), "")][-1]


def runner_id(number: int) -> str:
    return f"10-{number:08x}-ece9-11f1-bda2-02fc00000001"


def _node_id(number: int) -> str:
    return _uuid(2, number)


def _uuid(kind: int, number: int) -> str:
    return f"{number:08x}-000{kind}-4000-8000-000000000000"
