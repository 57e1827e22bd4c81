"""The actions that were decided on, until they have ended: so many at once, creations so fast, none that was overtaken.

The core spaces its decisions, but what was decided may have to wait: while the servers are slow, for one of those that
are under way to end. Without a rate of its own all of it would be written in one burst as soon as they answer again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, Protocol

from poseidon_reconciler.controller.inputs import ActionEnded
from poseidon_reconciler.core.ledger import Action, ActionKind, ActionOutcome
from poseidon_reconciler.core.pace import RateLimit
from poseidon_reconciler.core.reconciler import Reconciler
from poseidon_reconciler.policy import Policy

_MOST_AT_ONCE: Final = 8


class Actions(Protocol):
    """Carries out actions on the cluster, after confirming that they are still wanted."""

    async def execute(self, action: Action, may_write: Callable[[], bool]) -> ActionOutcome:
        """Carries out one; `may_write` says, until the last moment, whether anything may be written for it."""
        ...


class Work:
    """Begins actions as soon as they may, and tells what became of them."""

    def __init__(
        self,
        core: Reconciler,
        actions: Actions,
        ended: Callable[[ActionEnded], None],
        permit: Callable[[Action], Callable[[], bool]],
        *,
        clock: Callable[[], float],
        speed: float,
    ) -> None:
        """`ended` is told of each action that has an outcome; `permit`, asked when one is decided on, gives what says
        from then on whether its decision still stands; `clock` goes `speed` times as fast as the loop's.
        """
        self._core = core
        self._actions = actions
        self._ended = ended
        self._permit = permit
        self._clock = clock
        self._speed = speed
        self._slots = asyncio.Semaphore(_MOST_AT_ONCE)
        self._creating = asyncio.Lock()
        self._creations = RateLimit(core.policy.pace.max_creates_per_second)
        self._waiting: set[asyncio.Task[None]] = set()
        self._begun: set[asyncio.Task[None]] = set()

    def change_policy(self, policy: Policy) -> None:
        """Goes by another rate from now on."""
        self._creations.change(policy.pace.max_creates_per_second)

    def add(self, action: Action) -> None:
        """Takes in an action that was decided on by the present policy."""
        task = asyncio.create_task(self._see_to(action, self._core.policy, self._permit(action)))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)
        task.add_done_callback(self._begun.discard)

    async def drain(self, timeout_s: float) -> int:
        """Begins nothing more and waits for what has begun; returns how many did not end in time."""
        for task in self._waiting:
            task.cancel()
        if not self._begun:
            return 0
        _, pending = await asyncio.wait(self._begun, timeout=timeout_s)
        return len(pending)

    def give_up(self) -> None:
        """Ends all of it, wherever it stands; each action can be repeated safely."""
        for task in self._waiting | self._begun:
            task.cancel()

    async def _see_to(self, action: Action, decided_by: Policy, may_write: Callable[[], bool]) -> None:
        async with self._slot(action.kind):
            task = asyncio.current_task()
            assert task is not None
            self._waiting.discard(task)
            self._begun.add(task)
            try:
                outcome = self._overtaken(action, decided_by, may_write)
                outcome = outcome or await self._actions.execute(action, may_write)
            except Exception as error:  # noqa: BLE001 - one action that goes wrong must not end all others
                outcome = ActionOutcome("unknown", f"{type(error).__name__}: {error}")
        self._ended(ActionEnded(action, outcome))

    @asynccontextmanager
    async def _slot(self, kind: ActionKind) -> AsyncIterator[None]:
        if kind == "create-runner":
            # One at a time waits for its turn, so that whatever else is to be done need not wait behind all of them.
            async with self._creating:
                await asyncio.sleep((self._creations.next_at() - self._now()) / self._speed)
                await self._slots.acquire()
                self._creations.take(max(self._now(), self._creations.next_at()))
        else:
            await self._slots.acquire()
        try:
            yield
        finally:
            self._slots.release()

    def _now(self) -> float:
        """By a clock that nobody sets."""
        return asyncio.get_running_loop().time() * self._speed

    def _overtaken(self, action: Action, decided_by: Policy, may_write: Callable[[], bool]) -> ActionOutcome | None:
        """Why an action is not even begun; if it is still wanted, it is decided on again."""
        # Not by a clock that was set back: what it calls paused, the core would decide on again, and again.
        pause = self._core.planner.pauses.of(action.environment_id, max(self._clock(), self._core.now))
        if pause is not None:
            return ActionOutcome("withdrawn", f"paused: {pause.reason}")
        if self._core.policy is not decided_by:
            return ActionOutcome("withdrawn", "the policy has changed meanwhile")
        if not may_write():
            return ActionOutcome("withdrawn", "what it rests on has changed or become doubtful meanwhile")
        return None
