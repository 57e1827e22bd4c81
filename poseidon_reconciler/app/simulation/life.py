"""One life of a reconciler, from its start until it is killed: `Running` with simulated edges, and watched.

What it decides is noted with what it had been told by then, because nobody can be blamed for what he could not know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from random import Random
from typing import Final, Protocol

from msgspec import Struct

from poseidon_reconciler.app.running import Running, StartError
from poseidon_reconciler.app.simulation.transport import Servers, SimulatedTransport
from poseidon_reconciler.app.simulation.weather import Weather
from poseidon_reconciler.app.simulation.wire import SimulatedStream, Switchboard
from poseidon_reconciler.app.web import KeptPauses
from poseidon_reconciler.config import Settings
from poseidon_reconciler.controller import Controller
from poseidon_reconciler.core.events import Snapshot
from poseidon_reconciler.core.journal import Journal
from poseidon_reconciler.core.ledger import Action, ActionOutcome
from poseidon_reconciler.core.pauses import Pause
from poseidon_reconciler.core.reconciler import Step
from poseidon_reconciler.nomad.connection import Connection
from poseidon_reconciler.nomad.transport import Request
from poseidon_reconciler.policy import Policy

_DOUBTS: Final = frozenset({"stream-closed", "reading-lists"})
_NOWHERE: Final = Connection("http://simulated.invalid")


class Deed(Struct, eq=False):
    """An action on its way, and what the decision rested on.

    Attributes:
        seen_index: the newest index that its reconciler had been told of when it decided.
        epoch: the history of the cluster that it had read.
        policy: the policy by which it was decided.
        reads: when the servers last answered what on its behalf; 0 if from old tables.
        paused: the writes that were sent on its behalf although somebody had paused its environment.
    """

    action: Action
    life: Life
    at: float
    seen_index: int
    epoch: int
    policy: Policy
    reads: dict[str, float] = {}
    paused: list[Request] = []


CURRENT: ContextVar[Deed | None] = ContextVar("CURRENT", default=None)
"""The action on whose behalf something is asked of the servers."""


class World(Servers, Switchboard, Protocol):
    """What a life is lived in."""

    epoch: int

    def restored(self, index: int) -> None:
        """The servers are what they were at an index."""

    def stepped(self, life: Life, step: Step, line: bytes | None, deeds: list[Deed]) -> None:
        """A reconciler has found or decided something."""

    def begun(self, life: Life, deed: Deed) -> None:
        """It begins to carry something out."""

    def acted(self, life: Life, action: Action, outcome: ActionOutcome) -> None:
        """It has carried something out, or not."""

    def noted(self, life: Life, event: str, detail: str) -> None:
        """It says something."""

    def ended(self, life: Life) -> None:
        """It has given up by itself."""

    def escaped(self, life: Life, error: BaseException) -> None:
        """An exception went where none belongs."""


class Place:
    """A machine that a reconciler runs on, which survives it.

    Attributes:
        settings: among them its state directory, if it has one.
        skew_s: how far its clock is ahead of the cluster's; `clock_set_at`: when that was last changed.
        policy: what is wanted here, and `told_at`: when somebody last said so.
        pauses: what somebody has paused here, by environment, and when; they survive a reconciler that has a state
            directory.
    """

    def __init__(self, name: str, settings: Settings, weather: Weather, rng: Random, *, skew_s: float) -> None:
        self.name = name
        self.settings = settings
        self.policy = settings.policy()
        self.weather = weather
        self.rng = rng
        self.skew_s = skew_s
        self.clock_set_at = self.told_at = 0.0
        self.pauses: dict[str | None, tuple[Pause, float]] = {}


class Life(Running):
    """A reconciler's process.

    Attributes:
        number: which life of its place it is.
        synced_since: since when it has known the cluster without a break; None while it does not.
        stream_ended_at: when it last learned that its stream had ended.
        epoch: the history of the cluster that its lists were read in.
    """

    def __init__(self, world: World, place: Place, number: int) -> None:
        self.place = place
        self.number = number
        self.synced_since: float | None = None
        self.stream_ended_at = 0.0
        self.epoch = world.epoch
        self._world = world
        self._loop = asyncio.get_running_loop()
        self._journal = Journal()
        self._deeds: dict[Action, Deed] = {}
        self._task: asyncio.Task[None] | None = None
        self._transport = SimulatedTransport(world, place.weather, self._sends)
        stream = SimulatedStream(
            world,
            place.weather,
            connection=_NOWHERE,
            clock=self.clock,
            monotonic=self._loop.time,
            chance=place.rng.random,
        )
        super().__init__(
            place.settings,
            self,
            clock=self.clock,
            transport=self._transport,
            stream=stream,
            run_id=f"{place.rng.getrandbits(48):012x}",
        )
        self._watch(self.controller)
        if place.settings.state_dir is None:
            place.pauses.clear()
        self._kept_pauses = KeptPauses(self, place.settings)

    def _watch(self, controller: Controller) -> None:
        """Comes between the loop and its edges, which nobody else has a reason to do."""
        self._lists, controller._lists = controller._lists, self  # noqa: SLF001
        work = controller._work  # noqa: SLF001
        self._actions, work._actions = work._actions, self  # noqa: SLF001

    @property
    def name(self) -> str:
        return f"{self.place.name}.{self.number}"

    def clock(self) -> float:
        """What its machine says what time it is."""
        return self._loop.time() + self.place.skew_s

    # -- birth and death ---------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Starts the process."""
        self._task = asyncio.create_task(self._live())

    @property
    def ending(self) -> bool:
        """Whether it has ended, or is about to."""
        return self._transport.dead or self._stop.is_set()

    def kill(self) -> None:
        """Ends the process at whatever it is waiting for; what has left its machine is on its way."""
        self._transport.dead = True
        self.synced_since = None
        if self._task is not None:
            self._task.cancel()

    async def _live(self) -> None:
        try:
            await self.run()
        except StartError as error:
            self._world.noted(self, "exit", str(error))
            self._world.ended(self)
        except Exception as error:  # noqa: BLE001 - whatever it is: it is a broken promise
            self._world.escaped(self, error)
        finally:
            self._transport.dead = True
            self.synced_since = None

    # -- what people tell it -----------------------------------------------------------------------------------------

    def pause(self, environment_id: str | None, for_s: float | None) -> None:
        """Somebody has everything or an environment left alone, for so long or until it is lifted."""
        now = self.clock()
        pause = Pause(environment_id, "maintenance", now, now + for_s if for_s is not None else None)
        self.place.pauses[environment_id] = pause, self._loop.time()
        self._kept_pauses.pause(pause)

    def resume(self, environment_id: str | None) -> None:
        """Somebody lifts a pause."""
        self.place.pauses.pop(environment_id, None)
        self._kept_pauses.resume(environment_id)

    def _sends(self, request: Request) -> None:
        deed = CURRENT.get()
        if deed is not None and request.writes and self._is_paused(deed.action.environment_id):
            deed.paused.append(request)

    def _is_paused(self, environment_id: str) -> bool:
        pauses = self.place.pauses
        lasting = [pauses[key] for key in (None, environment_id) if key in pauses]
        # At the same instant it may be on its way already.
        return any(pause.lasts(self.clock()) and at < self._loop.time() for pause, at in lasting)

    # -- the edges, watched ------------------------------------------------------------------------------------------

    async def read(self) -> tuple[Snapshot, str]:
        """The lists."""
        epoch = self._world.epoch
        try:
            read = await self._lists.read()
        except Exception as error:
            self._world.escaped(self, error)
            raise
        if epoch == self._world.epoch:
            self.epoch = epoch
        return read

    async def execute(self, action: Action, may_write: Callable[[], bool]) -> ActionOutcome:
        """An action; whatever is asked of the servers meanwhile is asked on its behalf."""
        deed = self._deeds.pop(action)
        CURRENT.set(deed)
        self._world.begun(self, deed)
        try:
            return await self._actions.execute(action, may_write)
        except Exception as error:
            self._world.escaped(self, error)
            raise

    def stepped(self, step: Step) -> None:
        model = self.core.model
        seen = max(model.index, model.job_floor)
        now = self._loop.time()
        if self.synced_since is None:
            self.synced_since = now
        deeds = [Deed(action, self, now, seen, self.epoch, self.core.policy) for action in step.actions]
        self._deeds.update((deed.action, deed) for deed in deeds)
        self._world.stepped(self, step, self._journal.line(step), deeds)

    def acted(self, action: Action, outcome: ActionOutcome) -> None:
        self._world.acted(self, action, outcome)

    def noted(self, event: str, detail: str) -> None:
        if event == "stream-closed":
            self.stream_ended_at = self._loop.time()
        if event in _DOUBTS:
            self.synced_since = None
        self._world.noted(self, event, detail)
