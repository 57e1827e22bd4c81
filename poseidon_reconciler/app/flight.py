"""The flight recorder of a running reconciler: what it was told before something went wrong, kept on the disk.

It listens to the very inputs of the core, so that playing a flight makes the same decisions at the same times. What
counts as wrong is what an engineer would want to look at afterwards: the cluster did something that is not expected of
it, or we did.
"""

from __future__ import annotations

import asyncio
import functools
import signal
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from poseidon_reconciler.app.observers import Observers
from poseidon_reconciler.app.running import Running
from poseidon_reconciler.config import Settings
from poseidon_reconciler.controller import (
    ActionEnded,
    Controller,
    Fed,
    PolicyChanged,
    ProtectionChanged,
    Resumed,
    StreamFrame,
    StreamOpened,
)
from poseidon_reconciler.core.diagnosis import Change
from poseidon_reconciler.core.events import Snapshot
from poseidon_reconciler.core.ledger import Action, ActionOutcome
from poseidon_reconciler.core.lines import Told, ToldOutcome, ToldPause, told_json
from poseidon_reconciler.core.pauses import Pause
from poseidon_reconciler.core.reconciler import Step
from poseidon_reconciler.nomad.items import FrameReceived, Gap, Item, MalformedLine
from poseidon_reconciler.policy import Policy, os_reason
from poseidon_reconciler.recording.flight import SUFFIX, Entry, FlightRing, pack, write_flight

AFTERMATH_S: Final = 30.0
BETWEEN_S: Final = 300.0
# The same thing again and again would push out the flight that shows how it began.
REPEAT_S: Final = 3600.0
_PACK_BYTES: Final = 256 * 1024
_PACK_S: Final = 2.0
_OURS_S: Final = 600.0


class FlightRecorder:
    """Keeps what the core is told, and writes it down when it is asked to, or when something is wrong.

    Attributes:
        ring: what it keeps.
        written: the recordings that it has written.
    """

    def __init__(
        self,
        ring: FlightRing,
        directory: Path,
        *,
        keep: int,
        controller: Controller,
        note: Callable[[str, str], None],
        speed: float = 1.0,
    ) -> None:
        """`note` is told what becomes of it; the time of the core goes `speed` times as fast as the machine's."""
        self.ring = ring
        self.written: list[Path] = []
        self._directory = directory
        self._keep = keep
        self._controller = controller
        self._core = controller.core
        self._note = note
        self._speed = speed
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._asked = False
        # Why a flight is to be written, and when, by the loop's time.
        self._reason: str | None = None
        self._due_at = 0.0
        self._written_at = float("-inf")
        self._last_of_reason: dict[str, float] = {}
        self._storm_since: float | None = None
        self._created: dict[str, float] = {}

    # --- what the core is told --------------------------------------------------------------------------------------

    def tape(self, fed: Fed, at: float) -> None:
        """The core is about to be told something."""
        try:
            self.ring.add(_entry(fed, at, self._core.policy))
        except (ValueError, TypeError, msgspec.EncodeError) as error:
            # A text that is no Unicode, say. A hole would make a wrong story, and nobody may suffer from a recorder.
            self.ring.forget()
            self._note("flight-recorder-lost", f"what was kept is dropped: {type(error).__name__}")
        if self.ring.waiting_bytes > _PACK_BYTES:
            self._wake.set()

    # --- what is wrong ----------------------------------------------------------------------------------------------

    def stepped(self, step: Step) -> None:
        since = self._core.planner.storm.since
        if since is not None and since != self._storm_since:
            self._storm_since = since
            self.ask("storm")
        for change in step.changes:
            if _is_end_of_environment(change):
                self.ask("environment-lost")
        if self._created:
            self._look_for_surplus(step)

    def acted(self, action: Action, outcome: ActionOutcome) -> None:
        if outcome.result in ("unknown", "not-wanted"):
            self.ask(f"{outcome.result}-{action.kind}")
        if action.kind == "create-runner" and outcome.result in ("done", "unknown"):
            self._created[action.environment_id] = self._core.now

    def noted(self, event: str, detail: str) -> None:
        """What is said of other things is no reason."""

    def heard(self, item: Item) -> None:
        """An item of the stream came in."""
        if isinstance(item, MalformedLine) or (isinstance(item, FrameReceived) and item.line.faults):
            self.ask("malformed-line")
        elif isinstance(item, Gap):
            self.ask("gap")

    def _look_for_surplus(self, step: Step) -> None:
        """More idle and coming runners than wanted, in a pool that we have just filled."""
        for environment_id in {change.job.environment_id for change in step.changes} & self._created.keys():
            if step.at - self._created[environment_id] > _OURS_S:
                del self._created[environment_id]
                continue
            pool, target = (
                self._core.diagnosis.pools.get(environment_id),
                self._core.planner.desk.target(environment_id),
            )
            surge = self._core.policy.for_environment(environment_id).surge
            if pool is not None and target is not None and pool.counting > target + surge:
                self.ask("surplus")

    # --- writing ----------------------------------------------------------------------------------------------------

    def ask(self, reason: str) -> None:
        """Something is wrong: a flight is written a little later, so that it shows what came of it."""
        now = self._loop.time()
        if self._reason is not None or now - self._last_of_reason.get(reason, float("-inf")) < REPEAT_S / self._speed:
            return
        due_at = max(now + AFTERMATH_S / self._speed, self._written_at + BETWEEN_S / self._speed)
        self._reason, self._due_at = reason, due_at
        self._last_of_reason[reason] = due_at
        self._wake.set()

    def ask_now(self) -> None:
        """Somebody wants to see what there is."""
        self._asked = True
        self._wake.set()

    async def run(self) -> None:
        """Packs and writes until it is cancelled; if that is no orderly end, what there is is written last."""
        try:
            await self._pack_and_write()
        except asyncio.CancelledError:
            if not self._controller.stopping and self.ring.has_snapshot:
                self._write_last()
            raise

    async def _pack_and_write(self) -> None:
        while True:
            self._wake.clear()
            await self._pack()
            if self._asked:
                self._asked = False
                await self.write("asked")
            if self._reason is not None and self._loop.time() >= self._due_at:
                reason, self._reason = self._reason, None
                self._written_at = self._loop.time()
                await self.write(reason)
            wait_s = _PACK_S if self._reason is None else min(_PACK_S, max(0.0, self._due_at - self._loop.time()))
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()

    async def write(self, reason: str) -> None:
        """Writes what there is, now."""
        await self._pack()
        path = self._path(reason)
        try:
            await asyncio.to_thread(write_flight, self.ring.chunks(), path, keep=self._keep, first=self._first_line())
        except OSError as error:
            self._note("flight-not-written", f"{path}: {os_reason(error)}")
        else:
            self._tell_written(path, reason)

    def _write_last(self) -> None:
        """Another part has failed, and the process ends: nobody has to be spared any more."""
        self.ring.put(pack(self.ring.take_waiting()))
        path = self._path("exception")
        with suppress(OSError):
            first = self._first_line()
            write_flight(self.ring.chunks(), path, keep=self._keep, first=first, breathe=lambda _: None)
            self._tell_written(path, "exception")

    def _first_line(self) -> bytes:
        """What the core had been told before the first line that is kept, as far as it has no time."""
        planner = self._core.planner
        protects = None if self.ring.is_whole else planner.protection.wanted
        return Entry(0.0, "Told", told_json(Told(protects=protects, imagines=planner.desk.imagines))).line()

    def _tell_written(self, path: Path, reason: str) -> None:
        self.written.append(path)
        reach = "from the beginning on" if self.ring.is_whole else "the last of it"
        self._note("flight-written", f"{path} ({reason}, {reach})")

    async def _pack(self) -> None:
        entries = self.ring.take_waiting()
        if entries:
            self.ring.put(await asyncio.to_thread(pack, entries))

    def _path(self, reason: str) -> Path:
        at = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
        path = self._directory / f"{at}Z-{reason}{SUFFIX}"
        number = 2
        while path.exists():
            path = self._directory / f"{at}Z-{reason}-{number}{SUFFIX}"
            number += 1
        return path


def _entry(fed: Fed, at: float, policy: Policy) -> Entry:
    """What is kept of what the core is told; `policy` is the one by which it will judge that."""
    match fed:
        case StreamFrame():
            return Entry(at, "Frame", fed.data)
        case Snapshot():
            # At once: the core takes it over, and makes of it what it needs. A flight may begin with any of them.
            return Entry(at, "Snapshot", msgspec.json.encode(fed), told_json(Told(policy=policy)))
        case StreamOpened():
            return Entry(at, "Connection", b'"opened"')
        case _:
            return Entry(at, "Told", told_json(_told(fed)))


def _told(fed: ActionEnded | Pause | Resumed | PolicyChanged | ProtectionChanged | None) -> Told:
    match fed:
        case ActionEnded(action, outcome):
            return Told(
                outcome=ToldOutcome(
                    action.at,
                    action.kind,
                    action.environment_id,
                    action.job_id,
                    outcome.result,
                    action.reason,
                    action.replaces,
                    outcome.detail,
                    outcome.index,
                )
            )
        case Pause():
            return Told(pause=ToldPause(fed.environment_id, fed.reason, fed.since, fed.until))
        case Resumed():
            return Told(pause=ToldPause(fed.environment_id, lifted=True))
        case PolicyChanged():
            return Told(policy=fed.policy)
        case ProtectionChanged():
            return Told(protects=fed.needed)
        case None:
            return Told()


def _is_end_of_environment(change: Change) -> bool:
    """Whether an environment's own job was there and is lost."""
    return change.job.kind == "environment" and change.verdict.state == "lost" and change.before is not None


def attach_flight_recorder(
    running: Running, observers: Observers, settings: Settings, *, speed: float = 1.0
) -> FlightRecorder | None:
    """Gives a reconciler that does not run yet a flight recorder, unless the settings want none. What becomes of it is
    told to the observers.
    """
    wanted = settings.flight_recorder
    if settings.state_dir is None or not wanted.max_megabytes:
        return None
    recorder = FlightRecorder(
        FlightRing(wanted.max_megabytes * 1_000_000),
        settings.state_dir / "flights",
        keep=wanted.keep,
        controller=running.controller,
        note=observers.noted,
        speed=speed,
    )
    observers.add(recorder)
    running.controller.tape = recorder.tape
    running.item_listeners.append(recorder.heard)
    running.accompany("the flight recorder", recorder.run)
    return recorder


def write_on_signal(recorder: FlightRecorder | None, observers: Observers) -> None:
    """Lets SIGUSR1 have a flight written. Without a recorder it must not end the process all the same."""
    if recorder is not None:
        asked = recorder.ask_now
    else:
        asked = functools.partial(observers.noted, "no-flight-recorder", "it needs state_dir and max_megabytes")
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, asked)
