"""One course of events, from the setting up of the pools until everything is at rest, or a promise is broken.

Nothing here depends on anything but the course: the same one gives the same history to the last bit.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from msgspec import Struct

from poseidon_reconciler.app.simulation.broken import BrokenError
from poseidon_reconciler.app.simulation.course import Course
from poseidon_reconciler.app.simulation.endpoint import Endpoint
from poseidon_reconciler.app.simulation.life import CURRENT, Deed, Life
from poseidon_reconciler.app.simulation.loop import VirtualLoop
from poseidon_reconciler.app.simulation.promises import Promises
from poseidon_reconciler.app.simulation.rest import Rest
from poseidon_reconciler.app.simulation.scene import START, Scene, cluster_of
from poseidon_reconciler.app.simulation.truth import Truth
from poseidon_reconciler.app.simulation.weather import Fate
from poseidon_reconciler.app.simulation.wire import Connection, Lines
from poseidon_reconciler.app.simulation.wording import describe
from poseidon_reconciler.core.ledger import Action, ActionOutcome
from poseidon_reconciler.core.reconciler import Step
from poseidon_reconciler.nomad.outcomes import Answer
from poseidon_reconciler.nomad.transport import Request
from poseidon_reconciler.twin.events import Batch
from poseidon_reconciler.twin.listening import listen
from poseidon_reconciler.twin.quorum import Server

_LOOK_S: Final = 2.0
# Whatever is under way ends within so long after the last mishap: deadlines, retries and delayed evaluations.
_PATIENCE_S: Final = 900.0


class Broken(Struct, frozen=True):
    """A promise that was broken, so many seconds after the beginning. `number`: which one."""

    number: int
    text: str
    after_s: float


class Outcome(Struct, frozen=True):
    """How a course ended. `digest` stands for everything that the reconcilers did in it."""

    seed: int
    mishaps: int
    broken: Broken | None
    digest: str
    lasted_s: float
    requests: int
    writes: dict[str, int]


Tell = Callable[[float, str], None]


def simulate(course: Course, *, mishaps: int | None = None, tell: Tell | None = None) -> Outcome:
    """Runs a course with its first `mishaps` mishaps; `tell` is told what happens, with the seconds since the start."""
    with TemporaryDirectory(prefix="simulation-") as directory:
        return _Simulation(course, mishaps, tell, Path(directory)).run()


class _Simulation:
    def __init__(self, course: Course, mishaps: int | None, tell: Tell | None, directory: Path) -> None:
        self.epoch = 0
        self.cluster = cluster_of(course)
        self.lines = Lines(self.cluster)
        self.connections: list[Connection] = []
        self._course = course
        self._mishaps = course.mishaps[:mishaps]
        self._tell = tell
        self._digest = blake2b(digest_size=16)
        self._requests = 0
        self._broken: Broken | None = None
        self._endpoint = Endpoint(self.cluster)
        self._truth = Truth(self.cluster)
        self._promises = Promises(self.cluster, self._truth)
        self._rest = Rest(self.cluster, self._truth, self._promises, course.settings.policy())
        listen(self.cluster, self._hear)
        self._scene = Scene(course, self.cluster, self, self._note, directory)
        self._loop = VirtualLoop(self.cluster.now, self.cluster, self._caught)

    # -- the run -----------------------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        chance = random.getstate()
        random.seed(self._course.seed)  # the waits between attempts to read are drawn from it
        try:
            self._loop.run_until_complete(self._play())
        finally:
            self._loop.close()
            random.setstate(chance)
        return Outcome(
            seed=self._course.seed,
            mishaps=len(self._mishaps),
            broken=self._broken,
            digest=self._digest.hexdigest(),
            lasted_s=self.cluster.now - START,
            requests=self._requests,
            writes=self._promises.writes,
        )

    async def _play(self) -> None:
        await self._scene.begin(self._mishaps)
        while self._broken is None:
            await asyncio.sleep(_LOOK_S)
            calm_since = self._scene.calm_since
            if calm_since is None:
                continue
            self.cluster.advance(self._loop.time())
            if self._rest.reached(self._scene.lives, calm_since):
                break
            if self.cluster.now - calm_since > _PATIENCE_S:
                self._break(4, f"{_PATIENCE_S:g} s after the last mishap {self._rest.complaint}")
        for life in self._scene.lives:
            life.kill()
        await asyncio.sleep(0.1)

    def _break(self, number: int, text: str) -> None:
        if self._broken is None:
            self._broken = Broken(number, text, self.cluster.now - START)
            self._note(f"BROKEN: promise {number}: {text}")

    def _caught(self, context: dict[str, Any]) -> None:
        """What no task has caught."""
        error = context.get("exception")
        self._break(8, f"an exception escaped: {error!r}" if error is not None else str(context["message"]))

    # -- what the reconcilers tell -----------------------------------------------------------------------------------

    def _note(self, text: str) -> None:
        if self._tell is not None:
            self._tell(self._loop.time() - START, text)

    def stepped(self, life: Life, step: Step, line: bytes | None, deeds: list[Deed]) -> None:
        if line is not None:
            self._digest.update(life.name.encode() + line)
        if self._tell is not None:
            for change in step.changes:
                before = change.before.state if change.before is not None else "-"
                self._note(f"  {life.name} {change.job.id}: {before} -> {change.verdict.state} ({change.verdict.rule})")
            for action in step.actions:
                self._note(f"  {life.name} decides {action.kind} {action.job_id} {action.replaces or ''}")
        try:
            self._promises.decided(life, deeds)
        except BrokenError as broken:
            self._break(broken.number, str(broken))

    def begun(self, life: Life, deed: Deed) -> None:
        self.cluster.advance(self._loop.time())
        try:
            self._promises.begun(life, deed)
        except BrokenError as broken:
            self._break(broken.number, str(broken))

    def acted(self, life: Life, action: Action, outcome: ActionOutcome) -> None:
        self._promises.acted(action)
        self._note(f"  {life.name} {outcome.result}: {action.kind} {action.job_id}: {outcome.detail}")

    def noted(self, life: Life, event: str, detail: str) -> None:
        self._note(f"  {life.name} {event}: {detail}")

    def ended(self, life: Life) -> None:
        self._scene.supervise(life)

    def escaped(self, life: Life, error: BaseException) -> None:
        self._break(8, f"an exception escaped from {life.name}: {type(error).__name__}: {error}")

    # -- the servers -------------------------------------------------------------------------------------------------

    def carry_out(self, entry: str, request: Request, fate: Fate) -> Answer | None:
        self.cluster.advance(self._loop.time())
        server = self.cluster.quorum.servers[entry]
        if not server.up:
            return None
        self._requests += 1
        deed = CURRENT.get()
        if request.method != "get" and request.path[1:] != ("plan",):
            return self._write(request, deed, server)
        if deed is not None and fate.answered and not fate.status:
            name = "/".join((request.endpoint, *request.path))
            deed.reads[name] = self.cluster.now if fate.tables is None else 0.0
        return self._endpoint.answer(request, server, fate.tables)

    def _write(self, request: Request, deed: Deed | None, server: Server) -> Answer:
        try:
            self._promises.before(request, deed, self.epoch)
            answer = self._endpoint.answer(request, server)
            if deed is not None:
                self._promises.after(request, deed, answer)
        except BrokenError as broken:
            self._break(broken.number, str(broken))
            return Answer(500, {}, b"broken")
        name = "/".join((request.endpoint, *request.path))
        self._digest.update(f"{self.cluster.now} {request.method} {name} {answer.status}".encode())
        if deed is not None:
            kind, job_id = deed.action.kind, deed.action.job_id
            self._note(f"! {deed.life.name} {request.method} {name} ({kind} {job_id}): {answer.status} {answer.text}")
        return answer

    def _hear(self, batch: Batch) -> None:
        self._truth.take(batch)
        try:
            self._promises.hear(batch)
        except BrokenError as broken:
            self._break(broken.number, str(broken))
        for connection in list(self.connections):
            connection.poke()
        if self._tell is not None:
            for event in batch.events:
                self._note(f"    {batch.index} {event.topic} {event.type} {describe(event.payload)}")

    def restored(self, index: int) -> None:
        self.epoch += 1
        self._promises.restored(index)
        self._truth.begin_anew()
