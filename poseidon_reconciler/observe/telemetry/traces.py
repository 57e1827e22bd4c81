"""What is traced and when: cycles that decided something, stories of losses, the actions of both, and connections.

Whatever an action is about has a story of its own, and the cycle that decided on it is another trace; links lead from
one to the other. Actions without a story (protecting what still lives) are told within their cycle.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from opentelemetry.trace import Span

from poseidon_reconciler.core.evidence import evidence_for
from poseidon_reconciler.core.ledger import Action
from poseidon_reconciler.core.reconciler import Reconciler, Step
from poseidon_reconciler.observe.telemetry import spans as on
from poseidon_reconciler.observe.telemetry.asking import asking
from poseidon_reconciler.observe.telemetry.connects import Connects
from poseidon_reconciler.observe.telemetry.deeds import Deed
from poseidon_reconciler.observe.telemetry.harmless import harmless
from poseidon_reconciler.observe.telemetry.spans import Spans, end
from poseidon_reconciler.observe.telemetry.stories import Stories

_MAX_LINKS: Final = 100
# To know all holds is to look at all pools.
_LOOK_EACH_S: Final = 1.0


class Traces:
    """All traces of one reconciler. Its methods are called on the event loop; `clock` in seconds since the epoch."""

    def __init__(
        self,
        spans: Spans,
        core: Reconciler,
        clock: Callable[[], float],
        short_since: Callable[[str], float | None],
    ) -> None:
        """`short_since`: when the pool of an environment began to be short."""
        self.connects = Connects(spans, clock())
        self.stories = Stories(spans, lambda job: evidence_for(core.diagnosis, job, core.now))
        self._spans = spans
        self._core = core
        self._clock = clock
        self._short_since = short_since
        # Where each action was decided on, until it has ended.
        self._cycles: dict[Action, Span] = {}
        self._looked_at = float("-inf")

    def stepped(self, step: Step) -> None:
        """Something was found or decided."""
        if step.new_epoch:
            self.stories.close_all("new-epoch", step.at)
        for job in step.forgotten:
            self.stories.forget(job.id)
        for change in step.changes:
            self.stories.take(change, step.at)
        if step.actions:
            self._decide(step)

    def _decide(self, step: Step) -> None:
        self.look_at_holds()
        about = dict.fromkeys(story for story in map(self.stories.of, step.actions) if story is not None)
        numbers = Counter(action.kind for action in step.actions)
        cycle = self._spans.begin(
            "decide",
            step.at,
            links=[story.root.get_span_context() for story in list(about)[:_MAX_LINKS]],
            attributes={
                on.CHANGES: len(step.changes),
                on.ACTIONS: [f"{number} {kind}" for kind, number in sorted(numbers.items())],
            },
        )
        for action in step.actions:
            self._cycles[action] = cycle
            short_since = self._short_since(action.environment_id)
            since = action.at if short_since is None else short_since
            self.stories.decided(action, cycle.get_span_context(), short_since=since)
        end(cycle, max(step.at, self._clock()))

    def acting(self, action: Action) -> AbstractContextManager[Deed]:
        """Around an action; requests in between are its own."""
        cycle, story = self._cycles.get(action), self.stories.of(action)
        parent = story.root if story is not None else cycle
        link = cycle.get_span_context() if story is not None and cycle is not None else None
        deed = Deed(self._spans, action, self._clock(), parent, link)
        if story is not None:
            story.begun(action)
        return self._around(deed, action)

    @contextmanager
    def _around(self, deed: Deed, action: Action) -> Iterator[Deed]:
        try:
            with asking(deed):
                yield deed
        finally:
            self._end(deed, action)

    @harmless
    def _end(self, deed: Deed, action: Action) -> None:
        now = self._clock()
        deed.end(now)
        self.stories.acted(action, now)

    @contextmanager
    def listing(self) -> Iterator[None]:
        """Around a reading of the lists; requests in between are its own."""
        with asking(self.connects):
            yield

    def acted(self, action: Action) -> None:
        """An action has ended, carried out or not."""
        self._cycles.pop(action, None)

    def noted(self, event: str, detail: str) -> None:
        """The controller reads the lists."""
        now = self._clock()
        match event:
            case "reading-lists":
                self.connects.doubted(detail, now)
            case "lists-not-read":
                self.connects.not_read(now)
            case "lists-read":
                self.connects.read(now)

    def trace_id_of(self, action: Action) -> str | None:
        """The trace in which an action is told, in hexadecimal."""
        story = self.stories.of(action)
        return story.trace_id if story is not None else None

    def look_at_holds(self) -> None:
        """Has the stories know what holds them back, once a second at most."""
        now = self._clock()
        if not len(self.stories) or now - self._looked_at < _LOOK_EACH_S:
            return
        self._looked_at = now
        kinds: defaultdict[str | None, set[str]] = defaultdict(set)
        for hold in self._core.holds(self._core.now):
            kinds[hold.environment_id].add(hold.rule)
        self.stories.held(kinds)

    def tick(self) -> None:
        """Time passes."""
        self.look_at_holds()
        self.stories.expire(self._clock(), lambda environment_id: self._short_since(environment_id) is not None)

    def close(self) -> None:
        """The program ends."""
        now = self._clock()
        self.stories.close_all("program-ended", now)
        self.connects.close(now)
