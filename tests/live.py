"""An embedded cluster, its failure, the real reconciler, its flight recorder, and a recording beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from poseidon_reconciler.app.demo.play import Play, warm_cluster
from poseidon_reconciler.app.demo.scenarios import scenario_named
from poseidon_reconciler.app.edges import connection_of
from poseidon_reconciler.app.flight import FlightRecorder, attach_flight_recorder
from poseidon_reconciler.app.observers import Observers
from poseidon_reconciler.app.recording import Recording
from poseidon_reconciler.app.running import Running
from poseidon_reconciler.config import NomadSettings, Settings
from poseidon_reconciler.core.journal import Journal
from poseidon_reconciler.core.ledger import Action, ActionOutcome
from poseidon_reconciler.core.reconciler import Step
from poseidon_reconciler.core.status import environment_rows
from poseidon_reconciler.nomad.api import Api
from poseidon_reconciler.nomad.stream import EventStream
from poseidon_reconciler.nomad.transport import Transport
from poseidon_reconciler.policy import PoolPolicy
from poseidon_reconciler.recording.files import RecordingFiles
from poseidon_reconciler.recording.recorder import Recorder
from poseidon_reconciler.twin.poseidon import Habits, Poseidon
from poseidon_reconciler.twin.server import TwinServer
from tests.leaps import LeapingClock

RESYNC_S = 60.0
PATIENCE_S = 900.0


@dataclass
class Told:
    """What a reconciler found and decided, live or played."""

    journal: Journal = field(default_factory=Journal)
    lines: list[bytes] = field(default_factory=list)
    last_at: float = 0.0
    actions: list[Action] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    outcomes: list[ActionOutcome] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)

    def stepped(self, step: Step) -> None:
        self.last_at = step.at
        line = self.journal.line(step)
        if line is not None:
            self.lines.append(line)
        self.actions += step.actions
        for change in step.changes:
            if change.verdict.state == "lost" and (change.before is None or change.before.state != "lost"):
                self.losses.append(change.job.id)

    def acted(self, action: Action, outcome: ActionOutcome) -> None:
        self.outcomes.append(outcome)

    def noted(self, event: str, detail: str) -> None:
        self.notes.append((event, detail))

    def decisions(self) -> list[tuple[str, str, str]]:
        """What was decided, whenever, in whatever order, and however often: on a busy machine an answer may come too
        late, and what failed is decided on again.
        """
        return sorted({(action.kind, action.job_id, action.replaces or "") for action in self.actions})


class Live:
    """One course of events, from pools that are being filled until all is repaired."""

    def __init__(self, directory: Path, scenario: str, *, protect: bool = True, poseidon: bool = False) -> None:
        self.told = Told()
        self.settings = Settings(
            nomad=NomadSettings(resync_interval_s=RESYNC_S), pool=PoolPolicy(protect=protect), state_dir=directory
        )
        self.recording_path = directory / "recording.ndjson.gz"
        self.files = RecordingFiles(self.recording_path, max_bytes=10**9, max_age_s=1e6, keep=10)
        self.recorder = Recorder(self.files, name="recording")
        self._scenario = scenario_named(scenario)
        self._clock = LeapingClock()
        scenes = self._scenario.scenes(10)
        self.cluster = warm_cluster(scenes[0], seed=1, now=self._clock.now())
        self.poseidon = Poseidon(self.cluster, Habits(claims_per_minute=6.0, use_s=20.0), seed=1) if poseidon else None
        self.play = Play(
            self.cluster,
            scenes,
            disconnect=self._scenario.disconnect,
            tell=lambda _: None,
            on_started=self._start_poseidon,
        )

    def _start_poseidon(self) -> None:
        if self.poseidon is not None:
            self.poseidon.start()

    async def run(self, when_served: Callable[[TwinServer], None] = lambda _: None) -> FlightRecorder:
        """Lets it happen until all is at rest; returns the flight recorder, which has written what it has."""
        async with TwinServer(self.cluster, clock=self._clock) as server:
            nomad = self.settings.nomad.model_copy(update={"address": server.address})
            self.settings = self.settings.model_copy(update={"nomad": nomad})
            observers = Observers(self.told)
            running = Running(self.settings, observers, clock=self._clock.now)
            flight = attach_flight_recorder(running, observers, self.settings)
            assert flight is not None
            recording = self._recording(server.address)
            self.recorder.start()
            tasks = [asyncio.create_task(running.run()), asyncio.create_task(recording.run())]
            when_served(server)
            await _until(lambda: running.controller.synced and self.recorder.snapshots > 0, tasks, server)
            self.play.begin()
            await _until(lambda: self._is_after(10.0), tasks, server)
            if self.poseidon is not None:
                self.poseidon.stop_claims()
            await _until(lambda: self._is_at_rest(running), tasks, server)
            running.stop()
            recording.stop()
            await asyncio.gather(*tasks)
            await flight.write("end")
        assert self.recorder.close(10)
        return flight

    def _is_after(self, last_step_s: float) -> bool:
        since = self.play.running_since
        return since is not None and self._clock.now() > since + self.play.last_step_s + last_step_s

    def _is_at_rest(self, running: Running) -> bool:
        """Whether nothing is left to be done, and nothing was found or decided for a while."""
        rows = environment_rows(running.core).values()
        repaired = not any(row.deficit or row.lost or row.state != "active" for row in rows)
        quiet = self._clock.now() > self.told.last_at + 15
        return repaired and quiet and len(self.told.outcomes) == len(self.told.actions) and self._is_after(40.0)

    def _recording(self, address: str) -> Recording:
        connection = connection_of(self.settings.model_copy(update={"nomad": NomadSettings(address=address)}))
        return Recording(
            self.recorder,
            EventStream(connection, clock=self._clock.now, sleep=self._clock.sleep),
            Api(Transport(connection), sleep=self._clock.sleep),
            address=address,
            resync_interval_s=RESYNC_S,
            note=lambda *_: None,
            clock=self._clock.now,
        )


async def _until(condition: Callable[[], bool], tasks: list[asyncio.Task[None]], server: TwinServer) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            server.touch()
            assert not any(task.done() for task in tasks)
            await asyncio.sleep(0.25)
