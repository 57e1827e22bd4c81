"""All open stories, found by the jobs that they are about, and bounded in number and age.

Most of what looks like the beginning of a loss is none: Nomad replaces what it can. So a first sign costs a number, and
only a verdict opens a story.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from opentelemetry.trace import SpanContext

from poseidon_reconciler.core.diagnosis import Change
from poseidon_reconciler.core.evidence import Evidence
from poseidon_reconciler.core.ledger import Action
from poseidon_reconciler.core.records import Job
from poseidon_reconciler.observe.telemetry.spans import Spans
from poseidon_reconciler.observe.telemetry.story import Story

_MAX_OPEN: Final = 2_000
_MAX_SIGNS: Final = 20_000
_MAX_AGE_S: Final = 3_600.0
_HEALTHY: Final = frozenset({"idle", "used", "active"})
_LASTING: Final = frozenset({"gone", "stopped"})


class Stories:
    """The open stories. `evidence` gives the facts behind the present verdict on a job."""

    def __init__(self, spans: Spans, evidence: Callable[[Job], Iterable[Evidence]]) -> None:
        self._spans = spans
        self._evidence = evidence
        self._signs: dict[str, float] = {}
        # In the order in which they were opened; by the lost job, or by the new one where nothing known was lost.
        self._open: dict[str, Story] = {}
        self._by_new: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._open)

    def take(self, change: Change, now: float) -> None:
        """A verdict became another one."""
        job, state = change.job, change.verdict.state
        if (key := self._by_new.get(job.id)) is not None:
            self._open[key].follow(job, state, now)
            self._drop_if_closed(key)
        if state == "lost":
            self._begin(change, now)
        elif state in _HEALTHY or state in _LASTING:
            self._signs.pop(job.id, None)
            story = self._open.get(job.id)
            # One that is to be replaced goes on without the lost one.
            if story is not None and story.new_id is None:
                story.close("recovered" if state in _HEALTHY else "gone", now)
                self._drop_if_closed(job.id)
        elif change.before is not None and change.before.state in _HEALTHY and len(self._signs) < _MAX_SIGNS:
            self._signs.setdefault(job.id, now)

    def _begin(self, change: Change, now: float) -> None:
        job = change.job
        since = self._signs.pop(job.id, now)
        if job.id in self._open or len(self._open) >= _MAX_OPEN:
            return
        what = "used runner" if job.used else job.kind
        story = self._open[job.id] = Story(self._spans, f"{what} lost", job.environment_id, since=since, now=now)
        story.lost(change, self._evidence(job), now)

    def decided(self, action: Action, cycle: SpanContext, *, short_since: float) -> None:
        """An action was decided on; `short_since`: when its pool began to be short."""
        key = action.replaces or action.job_id
        story = self._open.get(key)
        if story is None and action.kind == "create-runner" and len(self._open) < _MAX_OPEN:
            since = min(short_since, action.at)
            story = Story(self._spans, "pool short", action.environment_id, since=since, now=action.at)
            self._open[key] = story
        if story is not None:
            story.decided(action, cycle)
            if action.kind == "create-runner":
                self._by_new[action.job_id] = key

    def of(self, action: Action) -> Story | None:
        """The story that an action is a part of."""
        return self._open.get(action.replaces or action.job_id)

    def acted(self, action: Action, now: float) -> None:
        """An action ended."""
        if (story := self.of(action)) is not None:
            story.acted(action, now)
            self._drop_if_closed(action.replaces or action.job_id)

    def held(self, environment_id: str | None, kind: str) -> None:
        """Something of an environment (None: everything) is held back now."""
        for story in self._open.values():
            if environment_id in (None, story.environment_id):
                story.held_by.add(kind)

    def expire(self, now: float) -> None:
        """Closes the stories that have been open for too long to expect an end."""
        while self._open:
            key, story = next(iter(self._open.items()))
            if story.began_at + _MAX_AGE_S > now:
                return
            story.close("without-an-end", now)
            self._drop_if_closed(key)

    def close_all(self, outcome: str, now: float) -> None:
        """Nothing more will be heard of any of them."""
        for key, story in list(self._open.items()):
            story.close(outcome, now)
            self._drop_if_closed(key)
        self._signs.clear()

    def forget(self, job_id: str) -> None:
        """The job is no longer remembered."""
        self._signs.pop(job_id, None)

    def _drop_if_closed(self, key: str) -> None:
        story = self._open.get(key)
        if story is not None and story.outcome is not None:
            del self._open[key]
            if story.new_id is not None:
                self._by_new.pop(story.new_id, None)
