"""Plays recordings to the core as if they happened now, and lets time run out afterwards.

Nothing answers a replay: what is decided stays expected, and a confirming read would find what the model says.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from poseidon_reconciler.core.events import UNKNOWN, Line, is_heartbeat
from poseidon_reconciler.core.reconciler import Reconciler, Step
from poseidon_reconciler.policy import Policy
from poseidon_reconciler.recording.reader import RecordingReader
from poseidon_reconciler.recording.story import Story, Storyteller

DEFAULT_SETTLE_S: Final = 3600.0


class Replay:
    """One run of the core over recordings.

    Attributes:
        core: the reconciler, for questions about how things stand at the end.
    """

    def __init__(self, policy: Policy, on_step: Callable[[Step], None] | None = None) -> None:
        """`on_step` is called after each step, in order."""
        # A job that was gone long before the end is still a part of the recording's story.
        self.core = Reconciler(policy, retention_s=math.inf)
        self._on_step = on_step
        self._teller = Storyteller(self.core)

    def run(self, reader: RecordingReader, settle_s: float = DEFAULT_SETTLE_S) -> Story:
        """Plays all lines, then lets at most `settle_s` seconds pass without events.

        Raises:
            RecordingError: a file is no recording.
        """
        story = self._teller.story
        for line in reader:
            now = reader.now
            if now and story.started_at is None:
                story.started_at = now
            self._pass_time(now)
            self._play(line, now)
        story.malformed = reader.malformed
        story.ended_at = reader.now or None
        self._pass_time(self.core.now + settle_s)
        story.settled_at = self.core.now or None
        story.last_index = self.core.model.index if self.core.model.index != UNKNOWN else None
        return self._teller.conclude()

    def _play(self, line: Line, now: float) -> None:
        story = self._teller.story
        frame = line.frame or line
        if line.snapshot is not None:
            story.snapshots += 1
            self._tell(self.core.feed_snapshot(line.snapshot, now), nodes=True)
        elif line.connection is not None:
            if line.connection == "opened":
                self.core.connection_opened()
            self._teller.tell_connection(now, line.connection + (f": {line.reason}" if line.reason else ""))
        elif frame.index != UNKNOWN:
            story.frames += 1
            events = frame.events or ()
            story.events += len(events)
            nodes = any(event.topic == "Node" for event in events)
            self._tell(self.core.feed_frame(frame, now), nodes=nodes)
        elif is_heartbeat(line):
            story.heartbeats += 1
            self._tell(self.core.advance(now), nodes=False)

    def _pass_time(self, until: float) -> None:
        """Takes each step that time alone brings before `until`."""
        while (due := self.core.next_due()) is not None and due < until:
            self._tell(self.core.advance(due), nodes=False)

    def _tell(self, step: Step, *, nodes: bool) -> None:
        self._teller.tell(step, nodes_may_have_changed=nodes)
        if self._on_step is not None:
            self._on_step(step)
