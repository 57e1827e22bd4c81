"""Lines of the stream and of recordings, from bytes to typed values.

A field of a wrong type never costs more than its own event: the line is then read again event by event.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from poseidon_reconciler.core.events import (
    SNAPSHOT_TABLES,
    UNKNOWN,
    Event,
    Frame,
    Index,
    Seconds,
    Snapshot,
    Wire,
    wire_name,
)
from poseidon_reconciler.policy import Policy

_MALFORMED_KEPT_BYTES: Final = 200
_TOPICS: Final = frozenset({"Job", "Allocation", "Evaluation", "Node"})


class ToldOutcome(Wire):
    """What became of an action; see `core.ledger`."""

    at: Seconds
    kind: str
    environment_id: str
    job_id: str
    result: str
    reason: str = ""
    replaces: str | None = None
    detail: str = ""
    index: Index = UNKNOWN


class ToldPause(Wire):
    """A pause that was set, or with `lifted` one that was ended; see `core.pauses`."""

    environment_id: str | None = None
    reason: str = ""
    since: Seconds = 0.0
    until: Seconds | None = None
    lifted: bool = False


class Told(Wire):
    """Marks a line of a flight recorder: what a running core was told, and when. Empty where the rest of the line says
    it, or where the core was told the time alone. `policy` is the one by which it judges from here on.
    """

    outcome: ToldOutcome | None = None
    pause: ToldPause | None = None
    protects: bool | None = None
    imagines: bool | None = None
    policy: Policy | None = None


def told_json(told: Told) -> bytes:
    """The mark as it stands in a recording."""
    return msgspec.json.encode(told, enc_hook=lambda policy: policy.model_dump(mode="json"))


def _policy_of(wanted: type, value: object) -> Policy:
    """Raises ValueError where that is no policy."""
    if wanted is not Policy:
        raise NotImplementedError
    return Policy.model_validate(value)


class Line(Frame):
    """A line of a recording: a bare frame as the server sent it, or one of the envelopes of DESIGN §6.

    `faults` counts the events of the line that could not be read; the others are there.
    """

    received_at: Seconds | None = None
    frame: Frame | None = None
    snapshot: Snapshot | None = None
    connection: str | None = None
    reason: str | None = None
    malformed: str | None = None
    told: Told | None = None
    faults: int = 0


class MalformedLineError(ValueError):
    """The line is no JSON, or none of the lines of a stream or recording. Says why, in one line."""


class _LooseFrame(Wire):
    index: Index = UNKNOWN
    events: list[Raw] | None = None


class _LooseSnapshot(Wire):
    jobs: list[Raw] | None = None
    allocations: list[Raw] | None = None
    nodes: list[Raw] | None = None
    evaluations: list[Raw] | None = None
    indexes: dict[str, Index] = msgspec.field(default_factory=dict)


class _LooseLine(_LooseFrame):
    received_at: Seconds | None = None
    frame: _LooseFrame | None = None
    snapshot: _LooseSnapshot | None = None
    told: Told | None = None


class _Topic(Wire):
    topic: str


_line: Final = msgspec.json.Decoder(Line, dec_hook=_policy_of)
_loose: Final = msgspec.json.Decoder(_LooseLine, dec_hook=_policy_of)
_event: Final = msgspec.json.Decoder(Event)
_topic: Final = msgspec.json.Decoder(_Topic)


def read_line(data: bytes) -> Line:
    """Decodes one line of the stream or of a recording.

    Raises:
        MalformedLineError: nothing of the line can be used.
    """
    try:
        line = _line.decode(data)
    except msgspec.ValidationError as error:
        line = _salvage(data, str(error))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise MalformedLineError(str(error)) from None
    if line.index < 0 and not _is_complete(line, data):
        raise MalformedLineError("no line of an event stream or a recording")
    return line


def read_block(block: bytes) -> list[Line]:
    """Decodes whole lines, however many. One that cannot be used is there as a line whose `malformed` has its beginning
    and whose `reason` says why. Blank lines are left out.
    """
    try:
        lines = _line.decode_lines(block)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return _read_each(block)
    for line in lines:
        # Only its bytes can tell a bare heartbeat from some other object.
        if line.index < 0 and not _is_complete(line, b""):
            return _read_each(block)
    return lines


def read_texts(block: bytes) -> list[tuple[Line, bytes]]:
    """Decodes whole lines like `read_block`, each with its own bytes."""
    texts = [text for text in block.split(b"\n") if text and not text.isspace()]
    lines = read_block(block)
    if len(lines) != len(texts):
        # JSON of several lines, or several values in one: no line of it is one by itself.
        lines = _read_each(block)
    return list(zip(lines, texts, strict=True))


def _read_each(block: bytes) -> list[Line]:
    lines = []
    for data in block.split(b"\n"):
        if data and not data.isspace():
            try:
                lines.append(read_line(data))
            except MalformedLineError as error:
                beginning = data[:_MALFORMED_KEPT_BYTES].decode(errors="replace")
                lines.append(Line(malformed=beginning, reason=str(error)))
    return lines


def is_heartbeat(line: Line) -> bool:
    """Whether the line is `{}`, bare or in its envelope."""
    frame = line.frame or line
    return frame.index < 0 and not (line.snapshot or line.connection or line.malformed or line.told)


def _is_complete(line: Line, data: bytes) -> bool:
    """Whether a line without an index of its own says something: an envelope, or a heartbeat."""
    if line.events is not None:
        return False
    if line.frame is not None:
        return line.frame.index >= 0 or line.frame.events is None
    if line.snapshot is not None or line.connection is not None or line.malformed is not None:
        return True
    if line.told is not None:
        return True
    return data.strip() == b"{}"


def _salvage(data: bytes, problem: str) -> Line:
    """Reads a line of which some value has a wrong type: event by event, object by object."""
    try:
        loose = _loose.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise MalformedLineError(problem) from None
    line = Line(received_at=loose.received_at, told=loose.told)
    if loose.snapshot is not None:
        line.snapshot, line.faults = _salvage_snapshot(loose.snapshot)
    elif loose.frame is not None:
        line.frame, line.faults = _salvage_frame(loose.frame)
    elif loose.index >= 0:
        frame, line.faults = _salvage_frame(loose)
        line.index, line.events = frame.index, frame.events
    else:
        raise MalformedLineError(problem)
    return line


def _salvage_frame(loose: _LooseFrame) -> tuple[Frame, int]:
    events: list[Event] = []
    faults = 0
    for raw in loose.events or ():
        try:
            events.append(_event.decode(raw))
        except (msgspec.DecodeError, RecursionError):
            faults += _matters(raw)
    return Frame(index=loose.index, events=events), faults


def _matters(raw: Raw) -> bool:
    """Whether an event that cannot be read is of a topic that we follow; others may look as they like."""
    try:
        return _topic.decode(raw).topic in _TOPICS
    except (msgspec.DecodeError, RecursionError):
        return True


def _salvage_snapshot(loose: _LooseSnapshot) -> tuple[Snapshot, int]:
    """Keeps what can be read. A list with an unreadable member is incomplete: its index is dropped, so that
    nothing is held to be gone because it is not in it.
    """
    snapshot, faults = Snapshot(indexes=dict(loose.indexes)), 0
    for table, kind in SNAPSHOT_TABLES:
        raws: Sequence[Raw] | None = getattr(loose, table)
        if raws is None:
            continue
        objects: list[Any] = []
        for raw in raws:
            try:
                objects.append(msgspec.json.decode(raw, type=kind))
            except (msgspec.DecodeError, RecursionError):
                faults += 1
                snapshot.indexes.pop(wire_name(table), None)
        setattr(snapshot, table, objects)
    return snapshot, faults
