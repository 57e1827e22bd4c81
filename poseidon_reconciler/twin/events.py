"""The event stream of a server: which events a change makes, and the short memory in which each server keeps them.

A server remembers about a hundred batches and forgets the oldest without a word. A reader that asks for a forgotten
index silently starts at the oldest one kept; a reader that is too slow is cut off.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TypeAlias

from msgspec import Struct

from poseidon_reconciler.twin.records import Allocation, Evaluation, Job, Node

BUFFERED_BATCHES = 100

Payload: TypeAlias = Job | Allocation | Evaluation | Node


class Event(Struct, frozen=True):
    """One change of one object: as it is after the change, or as it was before it was `deleted`."""

    topic: str
    type: str
    key: str
    namespace: str
    filter_keys: tuple[str, ...] | None
    index: int
    payload: Payload
    deleted: bool = False


class Batch(Struct, frozen=True):
    """The events of one write: one line of the stream."""

    index: int
    events: tuple[Event, ...]


class Cut(Exception):  # noqa: N818 - the end of a subscription, not an error of the program
    """A server ends a subscription; the text is what it writes after the last event."""


class Buffer:
    """What one server still remembers of its events. A reader holds a position, which `read` moves on."""

    def __init__(self, size: int = BUFFERED_BATCHES) -> None:
        self._batches: deque[Batch] = deque(maxlen=size)
        self._first = 0
        self._epoch = 0

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def batches(self) -> tuple[Batch, ...]:
        """What is kept, oldest first."""
        return tuple(self._batches)

    @property
    def newest_index(self) -> int | None:
        """The index of the newest batch kept."""
        return self._batches[-1].index if self._batches else None

    def append(self, batch: Batch) -> None:
        """Takes a batch in, and forgets the oldest one when there is no room."""
        if len(self._batches) == self._batches.maxlen:
            self._first += 1
        self._batches.append(batch)

    def refill(self, batches: Iterable[Batch]) -> None:
        """What a restarted or restored server does: its old readers are cut off, its memory is made anew."""
        self._epoch += 1
        self._first += len(self._batches)
        self._batches.clear()
        for batch in batches:
            self.append(batch)

    def subscribe(self, index: int = 0) -> Cursor:
        """A reader that starts at `index`, inclusive; at the oldest batch if that is gone, at the newest if it is to
        come.
        """
        offset = 0
        if index > 0 and self._batches:
            later = (i for i, batch in enumerate(self._batches) if batch.index >= index)
            offset = next(later, len(self._batches) - 1)
        return Cursor(self, self._first + offset, self._epoch)

    def read(self, position: int, epoch: int) -> list[Batch]:
        """All batches from a position on. Raises `Cut` if the reader was too slow or the memory was made anew."""
        if epoch != self._epoch:
            raise Cut("subscription closed by server, client should resubscribe")
        if position < self._first:
            raise Cut("event dropped from buffer")
        skip = position - self._first
        return [batch for i, batch in enumerate(self._batches) if i >= skip]


class Cursor:
    """A reader's place in a buffer."""

    def __init__(self, buffer: Buffer, position: int, epoch: int) -> None:
        self._buffer = buffer
        self._position = position
        self._epoch = epoch

    def read(self) -> list[Batch]:
        """The batches since the last call, oldest first. Raises `Cut` when the server ends the subscription."""
        batches = self._buffer.read(self._position, self._epoch)
        self._position += len(batches)
        return batches


def event_of(kind: str, index: int, payload: Payload, *, deleted: bool = False) -> Event:
    """The event that a write of that kind makes of an object."""
    match payload:
        case Job():
            return Event("Job", kind, payload.id, payload.namespace, None, index, payload, deleted)
        case Allocation():
            filters = (payload.job.id, "")
            return Event("Allocation", kind, payload.id, payload.job.namespace, filters, index, payload)
        case Evaluation():
            filters = (payload.job_id, "")
            return Event("Evaluation", kind, payload.id, payload.namespace, filters, index, payload)
        case Node():
            return Event("Node", kind, payload.id, "", None, index, payload)
