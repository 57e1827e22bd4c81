"""Plays recordings to the core as if they happened now, and lets time run out afterwards.

Nothing answers a replay: what is decided stays expected, and a confirming read would find what the model says. While
the recorded connection was closed nothing is decided, because a live reconciler would not have: it cannot see.

A flight recorder's lines say themselves when the core was told the time, what became of its actions, and by which
policy it judged. Between them no time passes, so that the same is decided at the same times.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, cast

from poseidon_reconciler.core.events import UNKNOWN
from poseidon_reconciler.core.ledger import Action, ActionKind, ActionOutcome, Result
from poseidon_reconciler.core.lines import Line, Told, ToldOutcome, is_heartbeat
from poseidon_reconciler.core.pauses import Pause
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

    def __init__(
        self, policy: Policy, on_step: Callable[[Step], None] | None = None, *, other_policies: bool = True
    ) -> None:
        """`on_step` is called after each step, in order; `other_policies`: whether those that a recording tells of are
        followed.
        """
        # A job that was gone long before the end is still a part of the recording's story.
        self.core = Reconciler(policy, retention_s=math.inf)
        self._on_step = on_step
        self._other_policies = other_policies
        self._teller = Storyteller(self.core)
        self._blind = False

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
            if line.told is None:
                if not self._blind:
                    self._pass_time(now)
                self._play(line, now)
            elif line.received_at is not None and line.malformed is None:
                # Not by the reader's clock: the live one may have been set back in between.
                self._play(line, line.received_at)
        story.malformed, story.breaks_off, story.settle_s = reader.malformed, bool(reader.warnings), settle_s
        story.ended_at = reader.now or None
        self._pass_time(self.core.now + settle_s)
        story.settled_at = self.core.now or None
        story.last_index = self.core.model.index if self.core.model.index != UNKNOWN else None
        return self._teller.conclude()

    def _play(self, line: Line, now: float) -> None:
        story = self._teller.story
        frame = line.frame or line
        if line.told is not None and line.told.policy is not None and self._other_policies:
            self._follow(line.told.policy)
        if line.snapshot is not None:
            self._blind = False
            story.snapshots += 1
            self._tell(self.core.feed_snapshot(line.snapshot, now), nodes=True)
        elif line.connection is not None:
            if line.connection == "opened":
                self.core.connection_opened()
            else:
                self._blind = True
            self._teller.tell_connection(now, line.connection + (f": {line.reason}" if line.reason else ""))
        elif frame.index != UNKNOWN:
            self._blind = False
            story.frames += 1
            events = frame.events or ()
            story.events += len(events)
            nodes = any(event.topic == "Node" for event in events)
            self._tell(self.core.feed_frame(frame, now), nodes=nodes)
        elif line.told is not None:
            self._play_told(line.told, now)
        elif is_heartbeat(line):
            story.heartbeats += 1
            self._tell(self.core.advance(now), nodes=False)

    def _play_told(self, told: Told, now: float) -> None:
        """What a running core was told besides the cluster's own words."""
        if told.outcome is not None:
            self.core.planner.take_outcome(*_outcome_of(told.outcome), now)
        elif told.pause is not None:
            pause = told.pause
            if pause.lifted:
                self.core.resume(pause.environment_id)
            else:
                self.core.pause(Pause(pause.environment_id, pause.reason, pause.since, pause.until))
        elif told.protects is not None or told.imagines is not None:
            if told.protects is not None:
                self.core.planner.protection.wanted = told.protects
            if told.imagines is not None:
                self.core.planner.desk.imagines = told.imagines
        elif told.policy is None:
            self._tell(self.core.advance(now), nodes=False)

    def _follow(self, policy: Policy) -> None:
        if policy != self.core.policy:
            self.core.change_policy(policy)

    def _pass_time(self, until: float) -> None:
        """Takes each step that time alone brings before `until`."""
        while (due := self.core.next_due()) is not None and due < until:
            self._tell(self.core.advance(due), nodes=False)

    def _tell(self, step: Step, *, nodes: bool) -> None:
        self._teller.tell(step, nodes_may_have_changed=nodes)
        if self._on_step is not None:
            self._on_step(step)


def _outcome_of(told: ToldOutcome) -> tuple[Action, ActionOutcome]:
    kind, result = cast(ActionKind, told.kind), cast(Result, told.result)
    action = Action(told.at, kind, told.environment_id, told.job_id, told.reason, told.replaces)
    return action, ActionOutcome(result, told.detail, told.index)
