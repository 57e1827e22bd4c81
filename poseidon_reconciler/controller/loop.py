"""The loop of a running reconciler: inputs in, steps of the core, actions out, and their outcomes in again.

One task owns the core. Everything else (the stream, the lists, the actions on their way) talks to it through one
queue, so that the core sees the world in one order. While the model may be stale (before the first lists, after the
stream was cut, after a gap) nothing is decided: what the stream brings meanwhile is kept, and applied once the lists
are read.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, Protocol

from poseidon_reconciler.controller.inputs import (
    ActionEnded,
    Input,
    ListsRead,
    Ping,
    PolicyChanged,
    ProtectionChanged,
    Resumed,
    StreamClosed,
    StreamDoubt,
    StreamFrame,
    StreamOpened,
    Tape,
)
from poseidon_reconciler.controller.listing import Heard, Lists, read_lists
from poseidon_reconciler.controller.work import Actions, Work
from poseidon_reconciler.core.events import UNKNOWN
from poseidon_reconciler.core.ledger import Action, ActionOutcome
from poseidon_reconciler.core.overtaken import is_overtaken
from poseidon_reconciler.core.pauses import Pause
from poseidon_reconciler.core.reconciler import Reconciler, Step
from poseidon_reconciler.core.wording import counted

# Frames that are kept while lists are read. Beyond it reading them takes too long: the stream is taken up anew.
_MAX_KEPT_FRAMES: Final = 50_000


class Observer(Protocol):
    """Is told what goes on; must not block and must not raise."""

    def stepped(self, step: Step) -> None: ...

    def acted(self, action: Action, outcome: ActionOutcome) -> None: ...

    def noted(self, event: str, detail: str) -> None: ...


class Controller:
    """Runs a core.

    Attributes:
        synced: whether the model is complete and fresh, so that decisions are made.
        on_turn: is told after each turn of the loop how long it took, in real seconds; must not block or raise.
        tape: what is told all that the core is fed; to be set before it runs.
    """

    def __init__(
        self,
        core: Reconciler,
        lists: Lists,
        actions: Actions,
        observer: Observer,
        *,
        resync_interval_s: float,
        clock: Callable[[], float],
        speed: float = 1.0,
        restart_stream: Callable[[], None] = lambda: None,
    ) -> None:
        """`clock` tells the time in seconds since the epoch, and goes `speed` times as fast as the loop's own;
        `restart_stream` is called when the stream brought more than could be kept while lists were read.
        """
        self.core = core
        self.synced = False
        self.stopping = False
        self.on_turn: Callable[[float], None] = lambda _: None
        self.tape: Tape = lambda _fed, _at: None
        self._lists = lists
        self._observer = observer
        self._resync_interval_s = resync_interval_s
        self._clock = clock
        self._speed = speed
        self._restart_stream = restart_stream
        self._work = Work(core, actions, self.put, self._permit, clock=clock, speed=speed)
        self._inputs: asyncio.Queue[Input] = asyncio.Queue()
        self._kept: list[StreamFrame] = []
        self._connected = False
        self._connections = 0
        # The highest index that the present connection has told of.
        self._heard_index = UNKNOWN
        # Lists that were asked for before the latest connection say nothing about what it may have missed.
        self._generation = 0
        self._listing: asyncio.Task[None] | None = None
        self._next_resync_at = float("inf")

    def put(self, item: Input) -> None:
        """Hands an input to the loop, from the same event loop."""
        self._inputs.put_nowait(item)

    async def run(self) -> None:
        """Runs until it is cancelled. Actions that are under way are then given up; each can be repeated safely."""
        try:
            while True:
                first = await self._wait()
                began = time.perf_counter()
                if first is not None:
                    self._take(first)
                self._take_all()
                if self.synced and not self.stopping:
                    self._let_time_pass()
                    if self._clock() >= self._next_resync_at:
                        self._read_lists()
                self.on_turn(time.perf_counter() - began)
        finally:
            if self._listing is not None:
                self._listing.cancel()
            self._work.give_up()

    @property
    def inputs_waiting(self) -> int:
        """How many inputs have not been taken in yet."""
        return self._inputs.qsize()

    async def drain(self, timeout_s: float) -> int:
        """Stops deciding and waits for the actions under way; returns how many did not end in time."""
        self.stopping = True
        return await self._work.drain(timeout_s)

    async def _wait(self) -> Input | None:
        """Until there is an input (the first of them, if it had to be waited for), or something is due (None)."""
        if not self._inputs.empty():
            await asyncio.sleep(0)
            return None
        wait_s = self._due_at() - self._clock()
        if wait_s <= 0:
            await asyncio.sleep(0)
            return None
        try:
            async with asyncio.timeout(None if wait_s == float("inf") else wait_s / self._speed):
                return await self._inputs.get()
        except TimeoutError:
            return None

    def _due_at(self) -> float:
        """When something is to be done although nothing comes in; nothing ever is while the model may be stale."""
        if not self.synced or self.stopping:
            return float("inf")
        due = self.core.next_due()
        return self._next_resync_at if due is None else min(due, self._next_resync_at)

    def _let_time_pass(self) -> None:
        now = self._clock()
        self.tape(None, now)
        self._step(self.core.advance(now))

    def _take_all(self) -> None:
        while not self._inputs.empty():
            self._take(self._inputs.get_nowait())

    def _take(self, item: Input) -> None:
        match item:
            case StreamFrame():
                self._take_frame(item)
            case StreamOpened():
                self._connected = True
                self._connections += 1
                self._heard_index = UNKNOWN
                self.tape(item, item.at)
                self.core.connection_opened()
                self._doubt("the stream is open")
            case StreamDoubt():
                self._doubt(item.reason)
            case StreamClosed():
                self._connected, self.synced = False, False
                self._kept.clear()
                self._observer.noted("stream-closed", item.reason)
            case Pause():
                self.tape(item, self._clock())
                self.core.pause(item)
                self._observer.noted("paused", f"{_scope(item.environment_id)}: {item.reason}")
            case Resumed():
                self.tape(item, self._clock())
                self.core.resume(item.environment_id)
                self._observer.noted("resumed", _scope(item.environment_id))
            case ProtectionChanged():
                self.tape(item, self._clock())
                self.core.planner.protection.wanted = item.needed
                self.core.planner.reconsider()
            case PolicyChanged():
                self.tape(item, self._clock())
                self.core.change_policy(item.policy)
                self._work.change_policy(item.policy)
                self._observer.noted("policy-changed", "everything is judged anew")
            case Ping():
                item.answer()
            case ListsRead():
                self._take_lists(item)
            case ActionEnded():
                self._take_outcome(item)

    def _take_frame(self, frame: StreamFrame) -> None:
        self._heard_index = max(self._heard_index, (frame.line.frame or frame.line).index)
        if self.synced:
            self._step(self._feed(frame, frame.at))
            return
        self._kept.append(frame)
        if len(self._kept) > _MAX_KEPT_FRAMES:
            # Lists that come now say nothing about what is dropped here.
            self._kept.clear()
            self._connected = False
            self._observer.noted("too-many-frames", "reading the lists takes longer than the stream allows")
            self._restart_stream()

    def _feed(self, frame: StreamFrame, at: float) -> Step:
        self.tape(frame, at)
        return self.core.feed_frame(frame.line.frame or frame.line, at)

    # --- the truth of the lists -----------------------------------------------------------------------------------

    def _doubt(self, reason: str) -> None:
        """What the model says may be wrong: nothing is decided until the lists are read."""
        self._observer.noted("reading-lists", reason)
        self.synced = False
        self._generation += 1
        self._read_lists()

    def _read_lists(self) -> None:
        self._next_resync_at = float("inf")
        if self._listing is not None and not self._listing.done():
            self._listing.cancel()
        self._listing = asyncio.create_task(self._list(self._generation))

    async def _list(self, generation: int) -> None:
        def not_read(problems: str) -> None:
            self._observer.noted("lists-not-read", problems)

        def outdated(reason: str) -> None:
            self.synced = False
            self._observer.noted("reading-lists", reason)

        self.put(await read_lists(self._lists, generation, self._heard, not_read, outdated))

    def _heard(self) -> Heard:
        return Heard(self._heard_index, len(self._kept))

    def _take_lists(self, lists: ListsRead) -> None:
        if lists.generation != self._generation or not self._connected:
            return
        if lists.problems:
            self._observer.noted("lists-incomplete", lists.problems)
        now = self._clock()
        self._next_resync_at = now + self._resync_interval_s
        kept, self._kept = self._kept[lists.superseded :], []
        self.synced = True
        self.tape(lists.snapshot, now)
        steps = [self.core.feed_snapshot(lists.snapshot, now)]
        steps += [self._feed(frame, now) for frame in kept]
        model = self.core.model
        self._observer.noted(
            "lists-read", f"{counted(len(model.environments), 'environment')}, {counted(len(model.jobs), 'job')}"
        )
        for step in steps:
            self._step(step)

    # --- what is decided ------------------------------------------------------------------------------------------

    def _permit(self, action: Action) -> Callable[[], bool]:
        """What says from now on whether the decision still stands: the view is fresh, the stream is the same (another
        one may tell another history), nobody has paused the environment, and it is still called for.
        """
        connection = self._connections

        def stands() -> bool:
            planner, now = self.core.planner, self._clock()
            if not self.synced or self._connections != connection:
                return False
            return planner.pauses.of(action.environment_id, now) is None and not is_overtaken(planner, action, now)

        return stands

    def _step(self, step: Step) -> None:
        if self.stopping:
            # Nothing more is begun: whoever was told of a decision would wait for what becomes of it.
            step = step._replace(actions=[])
        if step.changes or step.actions or step.nodes or step.storm is not None:
            self._observer.stepped(step)
        for action in step.actions:
            self._work.add(action)

    def _take_outcome(self, ended: ActionEnded) -> None:
        action, outcome = ended.action, ended.outcome
        now = self._clock()
        self._observer.acted(action, outcome)
        self.tape(ended, now)
        self.core.planner.take_outcome(action, outcome, now)
        if outcome.result == "not-wanted" and self.synced:
            # The world is not what the model says; the stream will not tell what it has left out.
            self._doubt(f"{action.kind} {action.job_id} was not confirmed: {outcome.detail}")


def _scope(environment_id: str | None) -> str:
    return "everything" if environment_id is None else f"environment {environment_id}"
