"""One trace for each way back to a complete view: the attempts to open the stream, then the reading of the lists."""

from __future__ import annotations

from opentelemetry.trace import Span

from poseidon_reconciler.observe.telemetry import spans as on
from poseidon_reconciler.observe.telemetry.calls import Call
from poseidon_reconciler.observe.telemetry.spans import Spans, end, fail, tell


class Connects:
    """From the end of one connection (or the beginning of the program) until everything was read again."""

    def __init__(self, spans: Spans, at: float) -> None:
        self._spans = spans
        self._root: Span | None = spans.begin("connect", at)
        self._opening: Span | None = spans.begin("open stream", at, self._root)
        self._reading: Span | None = None

    def opened(self, at: float) -> None:
        """The stream is open."""
        if self._opening is not None:
            end(self._opening, at)
            self._opening = None

    def closed(self, ending: str, at: float) -> None:
        """The stream has ended, or an attempt to open it has failed."""
        self._end_reading(at, broken=True)
        if self._root is None:
            self._root = self._spans.begin("connect", at)
        if self._opening is None:
            self._opening = self._spans.begin("open stream", at, self._root)
        tell(self._root, "stream closed", at, {"poseidon_reconciler.stream.ending": ending})

    def doubted(self, reason: str, at: float) -> None:
        """The lists are about to be read, because the stream is new or has missed something."""
        self._end_reading(at, broken=True)
        if self._root is None:
            self._root = self._spans.begin("resync", at, attributes={on.REASON: reason})
        self._reading = self._spans.begin("read lists", at, self._root)

    def asked(self, call: Call, at: float) -> None:
        """A request for a list ended; one of the regular readings in between belongs to no trace."""
        if self._reading is not None:
            self._spans.call(call, at - call.duration_s, at, self._reading)

    def not_read(self, at: float) -> None:
        """The lists could not be read; they will be asked for again."""
        if self._reading is not None:
            tell(self._reading, "lists not read", at)

    def read(self, at: float) -> None:
        """The view is complete and fresh."""
        self._end_reading(at, broken=False)
        if self._root is not None and self._opening is None:
            end(self._root, at)
            self._root = None

    def close(self, at: float) -> None:
        """The program ends."""
        self._end_reading(at, broken=True)
        for span in (self._opening, self._root):
            if span is not None:
                fail(span, "ended-before")
                end(span, at)
        self._opening = self._root = None

    def _end_reading(self, at: float, *, broken: bool) -> None:
        if self._reading is not None:
            if broken:
                fail(self._reading, "given-up")
            end(self._reading, at)
            self._reading = None
