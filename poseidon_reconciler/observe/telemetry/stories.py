"""All open stories, found by the jobs that they are about, and bounded in number and age.

Most of what looks like the beginning of a loss is none: Nomad replaces what it can. So a first sign costs a number, and
only a verdict opens a story.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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
        key = self._by_new.get(job.id)
        if key is not None and (story := self._open.get(key)) is not None:
            story.follow(job, state, now)
            self._drop_if_closed(key)
        if state == "lost":
            self._begin(change, now)
        elif state in _HEALTHY or state in _LASTING:
            self._signs.pop(job.id, None)
            self._end_without_replacement(job.id, state, now)
        elif change.before is not None and change.before.state in _HEALTHY and len(self._signs) < _MAX_SIGNS:
            self._signs.setdefault(job.id, now)

    def _end_without_replacement(self, job_id: str, state: str, now: float) -> None:
        """The lost job lives again, or is gone; of one that is to be replaced the story goes on then."""
        story = self._open.get(job_id)
        if story is None or story.new_id is not None:
            return
        if state in _HEALTHY:
            story.close("recovered", now)
        elif story.wants_replacement:
            story.is_gone = True
        else:
            story.close("gone", now)
        self._drop_if_closed(job_id)

    def _begin(self, change: Change, now: float) -> None:
        job = change.job
        since = self._signs.pop(job.id, now)
        if job.id in self._open or len(self._open) >= _MAX_OPEN:
            return
        what = "used runner" if job.used else job.kind
        story = self._open[job.id] = Story(self._spans, f"{what} lost", job.environment_id, since=since, now=now)
        story.wants_replacement = what == "runner"
        story.lost(change, self._evidence(job), now)

    def decided(self, action: Action, cycle: SpanContext, *, short_since: float) -> None:
        """An action was decided on; `short_since`: when its pool began to be short."""
        if action.kind == "create-runner" and action.job_id not in self._by_new:
            key = self._key_of_creation(action, short_since)
            if key in self._open:
                self._by_new[action.job_id] = key
        if (story := self.of(action)) is not None:
            story.decided(action, cycle)

    def _key_of_creation(self, action: Action, short_since: float) -> str:
        """The loss that a new runner stands for. What was removed before is not named by the plan: then it is the
        oldest of its environment; without any the shortage itself has a story.
        """
        if action.replaces is not None:
            return action.replaces
        for key, story in self._open.items():
            if story.environment_id == action.environment_id and story.wants_replacement and story.new_id is None:
                return key
        if len(self._open) < _MAX_OPEN:
            since = min(short_since, action.at)
            story = Story(self._spans, "pool short", action.environment_id, since=since, now=action.at)
            self._open[action.job_id] = story
        return action.job_id

    def of(self, action: Action) -> Story | None:
        """The story that an action is a part of."""
        return self._open.get(self._key(action))

    def _key(self, action: Action) -> str:
        return self._by_new.get(action.job_id, action.replaces or action.job_id)

    def acted(self, action: Action, now: float) -> None:
        """An action ended."""
        if (story := self.of(action)) is not None:
            story.acted(action, now)
            self._drop_if_closed(self._key(action))

    def held(self, kinds: Mapping[str | None, set[str]]) -> None:
        """What is held back now, by environment (None: everything)."""
        everywhere = kinds.get(None, set())
        for story in self._open.values():
            story.held_by |= everywhere | kinds.get(story.environment_id, set())

    def expire(self, now: float, is_short: Callable[[str], bool]) -> None:
        """Closes the stories of which no end is to be expected: those that are open for too long, and those of lost
        runners that somebody else has replaced, so that their pools are not short any more.
        """
        for key, story in list(self._open.items()):
            if story.is_gone and story.new_id is None and not is_short(story.environment_id):
                story.close("filled-by-others", now)
                self._drop_if_closed(key)
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
