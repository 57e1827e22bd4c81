"""A controller at work between edges that answer what a test wants, under a clock of its own.

The event loop's time passes only while everybody waits, so that minutes take no time and every instant is exact.
"""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import orjson

from poseidon_reconciler.controller import Controller, StreamFrame, StreamOpened
from poseidon_reconciler.core.events import Snapshot
from poseidon_reconciler.core.ledger import Action, ActionOutcome
from poseidon_reconciler.core.reconciler import Reconciler, Step
from poseidon_reconciler.policy import Policy
from tests.core.builders import TEMPLATE, Wire, allocation, event, job, line_of, node, node_id, runner, snapshot_of

RESYNC_S: Final = 300.0
DONE: Final = ActionOutcome("done", "registered", 900)


class _TimePasses(selectors.SelectSelector):
    """Tells its loop that as much time has passed as it was asked to wait.

    Attributes:
        busy: whether somebody was ever at work for thousands of turns while no time passed.
    """

    now = 1000.0
    busy = False
    _turns = 0

    def select(self, timeout: float | None = None) -> list[Any]:
        assert timeout is not None, "everybody waits, for nothing"
        self._turns = 0 if timeout > 0 else self._turns + 1
        if self._turns > 2_000:
            self.busy, timeout = True, 1.0
        self.now += max(0.0, timeout)
        return super().select(0)


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.clock = _TimePasses()
        super().__init__(self.clock)

    def time(self) -> float:
        return self.clock.now


def in_virtual_time(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Runs a coroutine as a test, in a loop of its own."""

    @functools.wraps(test)
    def run(*args: Any, **fixtures: Any) -> None:
        async def main() -> None:
            await asyncio.wait_for(test(*args, **fixtures), 100_000)

        loop = _VirtualLoop()
        with asyncio.Runner(loop_factory=lambda: loop) as runner_:
            runner_.run(main())
        assert not loop.clock.busy

    return run


# --- the edges --------------------------------------------------------------------------------------------------------


class FakeLists:
    """Answers with `answer`; where `slow` is set, only once `answer_now` is called.

    Attributes:
        asked: when it was asked, in seconds.
    """

    def __init__(self) -> None:
        self.answer: Callable[[], tuple[Snapshot, str]] = lambda: (pool(100), "")
        self.slow = False
        self.asked: list[float] = []
        self._go = asyncio.Event()

    async def read(self) -> tuple[Snapshot, str]:
        self.asked.append(now())
        if self.slow:
            await self._go.wait()
            self._go.clear()
        return self.answer()

    def answer_now(self) -> None:
        self._go.set()


class FakeActions:
    """Answers with `answer`, after `takes_s`, but not before `until`. What is written, nobody hears of.

    Attributes:
        begun: the actions, each with when it was begun.
        most_at_once: how many were under way together at most.
        may_write: what the latest of them was given.
    """

    def __init__(self) -> None:
        self.answer: Callable[[Action], ActionOutcome] = lambda _: DONE
        self.takes_s = self.until = 0.0
        self.begun: list[tuple[float, Action]] = []
        self.most_at_once = self.ended = self.given_up = 0
        self._at_once = 0

    async def execute(self, action: Action, may_write: Callable[[], bool]) -> ActionOutcome:
        self.may_write = may_write
        self.begun.append((now(), action))
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            await asyncio.sleep(max(self.takes_s, self.until - now()))
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        finally:
            self._at_once -= 1
        self.ended += 1
        return self.answer(action)

    def of(self, kind: str) -> list[tuple[float, str]]:
        """When actions of a kind were begun, and on which job."""
        return [(at, action.job_id) for at, action in self.begun if action.kind == kind]


class Notes:
    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.outcomes: list[tuple[str, str]] = []
        self.notes: list[tuple[str, str]] = []

    def stepped(self, step: Step) -> None:
        self.steps.append(step)

    def acted(self, action: Action, outcome: ActionOutcome) -> None:
        self.outcomes.append((action.kind, outcome.result))

    def noted(self, event: str, detail: str) -> None:
        self.notes.append((event, detail))

    def count(self, name: str) -> int:
        return sum(event == name for event, _ in self.notes)


class Rig:
    """A controller at work, and the edges that it works on."""

    def __init__(self, policy: Policy, speed: float) -> None:
        self.lists, self.actions, self.notes = FakeLists(), FakeActions(), Notes()
        self.stream_restarts = 0
        self.core = Reconciler(policy)
        self.controller = Controller(
            self.core,
            self.lists,
            self.actions,
            self.notes,
            resync_interval_s=RESYNC_S,
            clock=lambda: now() * speed,
            speed=speed,
            restart_stream=self._restart_stream,
        )
        self.task = asyncio.create_task(self.controller.run())

    def _restart_stream(self) -> None:
        self.stream_restarts += 1

    async def open(self) -> None:
        """Opens the stream, and lets happen what happens at once."""
        self.controller.put(StreamOpened(now()))
        await at_once()

    def say(self, *objects: Wire, index: int) -> None:
        """A line of the stream."""
        events = [each if "Topic" in each else event(each) for each in objects]
        told = {"Index": index, "Events": events}
        self.controller.put(StreamFrame(line_of(told), now(), orjson.dumps(told)))

    def lose(self, number: int, *, index: int) -> None:
        """A runner ends with 0."""
        created = 20 + 10 * number
        ended = allocation(f"a{number}", runner(number), "complete", index=index, created=created, node=node_id(1))
        self.say(ended, job(runner(number), "dead", index=index, created=created), index=index)

    def verdicts(self) -> dict[str, str]:
        return {job_id: verdict.state for job_id, verdict in self.core.diagnosis.verdicts.items()}


@asynccontextmanager
async def rig(policy: Policy | None = None, *, speed: float = 1.0) -> AsyncIterator[Rig]:
    made = Rig(policy or Policy(), speed)
    try:
        yield made
        assert not made.task.done()
    finally:
        made.task.cancel()
        await asyncio.gather(made.task, return_exceptions=True)


def now() -> float:
    return asyncio.get_running_loop().time()


async def at_once() -> None:
    """Lets happen what takes no time."""
    await asyncio.sleep(0.001)


def pool(index: int, runners: int = 3, target: int | None = None, *, nodes: int = 3) -> Snapshot:
    """Lists of a pool at rest: the runners were created at 20, 30, …, with the allocations `a0`, `a1`, …"""
    jobs = [job(TEMPLATE, index=10, target=runners if target is None else target)]
    allocations = [allocation("t", TEMPLATE, index=11, node=node_id(1))]
    for number in range(runners):
        created = 20 + 10 * number
        jobs.append(job(runner(number), index=created))
        allocations.append(allocation(f"a{number}", runner(number), index=created, node=node_id(1)))
    ready = [node(node_id(number), index=number) for number in range(1, nodes + 1)]
    return snapshot_of(index, Jobs=jobs, Allocations=allocations, Nodes=ready, Evaluations=[])
