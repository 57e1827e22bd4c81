"""Whatever happens to a cluster and to a reconciler, its flight finds and decides the same again, at the same times."""

from __future__ import annotations

from pathlib import Path

import pytest

from poseidon_reconciler.app.flight import FlightRecorder
from poseidon_reconciler.app.simulation.course import course_of
from poseidon_reconciler.app.simulation.life import Life
from poseidon_reconciler.app.simulation.simulation import simulate
from poseidon_reconciler.core.journal import Journal
from poseidon_reconciler.core.reconciler import Step
from poseidon_reconciler.policy import Policy
from poseidon_reconciler.recording.flight import FlightRing, pack, write_flight
from poseidon_reconciler.recording.reader import RecordingReader
from poseidon_reconciler.recording.replay import Replay


class Witness:
    """Gives each reconciler of a course a flight recorder, and writes down what it decides."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lives: list[tuple[Life, FlightRing, list[Step]]] = []
        begin, stepped = Life.begin, Life.stepped

        def begin_recorded(life: Life) -> None:
            ring = FlightRing(10**8)
            recorder = FlightRecorder(ring, Path(), keep=1, controller=life.controller, note=lambda *_: None)
            life.controller.tape = recorder.tape
            self.lives.append((life, ring, []))
            begin(life)

        def step_recorded(life: Life, step: Step) -> None:
            next(steps for known, _, steps in self.lives if known is life).append(step)
            stepped(life, step)

        monkeypatch.setattr(Life, "begin", begin_recorded)
        monkeypatch.setattr(Life, "stepped", step_recorded)


def journal(steps: list[Step]) -> list[bytes]:
    writer = Journal()
    # A replay forgets nobody, and a reconciler who has been gone for an hour.
    return [line for step in steps if (line := writer.line(step._replace(forgotten=[]))) is not None]


@pytest.mark.parametrize("seed", range(12))
def test_a_flight_decides_the_same_again(seed: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    witness = Witness(monkeypatch)
    course = course_of(seed)
    assert simulate(course).broken is None

    assert witness.lives
    for number, (_, ring, steps) in enumerate(witness.lives):
        path = tmp_path / f"{number}.ndjson.gz"
        ring.put(pack(ring.take_waiting()))
        if not ring.has_snapshot:
            assert steps == []
            continue
        write_flight(ring.chunks(), path, keep=1000, breathe=lambda _: None)
        played: list[Step] = []
        Replay(Policy(), played.append).run(RecordingReader([path]), settle_s=0.0)
        assert journal([step for step in played if step.changes or step.actions]) == journal(steps)
