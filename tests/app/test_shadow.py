"""A dry run beside a Poseidon that refills by its alert: nothing is written, and the score tells what became of it."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from poseidon_reconciler.app.demo.play import Play
from poseidon_reconciler.app.observers import Observers
from poseidon_reconciler.app.shadow import NOTE_INTERVAL_S, note, table, telling
from poseidon_reconciler.app.simulation.lab import Lab
from poseidon_reconciler.config import Settings
from poseidon_reconciler.core.ledger import Action, ActionOutcome
from poseidon_reconciler.core.reconciler import Step
from poseidon_reconciler.core.shadow import Shadow, ShadowScore
from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.player import cluster_for
from poseidon_reconciler.twin.poseidon import Poseidon
from poseidon_reconciler.twin.poseidon_jobs import environment_job
from poseidon_reconciler.twin.scenarios import SCENARIOS
from poseidon_reconciler.twin.server import TwinServer

RUNNERS = 12


class Notes:
    """Keeps what is noted, and what became of each action."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, str]] = []
        self.outcomes: list[tuple[str, str, str]] = []

    def stepped(self, step: Step) -> None:
        pass

    def acted(self, action: Action, outcome: ActionOutcome) -> None:
        self.outcomes.append((action.kind, outcome.result, outcome.detail))

    def noted(self, event: str, detail: str) -> None:
        self.notes.append((event, detail))


class Course(NamedTuple):
    lab: Lab
    poseidon: Poseidon
    notes: Notes
    scores: dict[str, ShadowScore]
    idle: int


@pytest.fixture(scope="module")
def course() -> Course:
    """All agents restart; Poseidon's alert refills the pool; a dry run looks on for a quarter of an hour."""
    scene = replace(SCENARIOS["restart-together-20s"], agent_cpu_mhz=1_000).scaled(RUNNERS)
    cluster = cluster_for(scene, seed=1, now=999_940.0)
    cluster.advance(1_000_000.0)
    lab, poseidon, notes = Lab(cluster), Poseidon(cluster), Notes()
    play = Play(cluster, [scene], disconnect=None, tell=lambda _: None, on_started=poseidon.start)
    scores: dict[str, ShadowScore] = {}
    idle = 0

    async def look_on() -> None:
        nonlocal idle
        running = lab.reconciler(Settings(), notes, dry_run=True)
        assert running.shadow is not None
        running.accompany("the shadow score", telling(running.shadow, notes))
        task = asyncio.create_task(running.run())
        play.begin()
        await asyncio.sleep(900)
        scores.update({score.kind: score for score in running.shadow.scores()})
        idle = running.core.diagnosis.pools["10"].count("idle")
        running.stop()
        await task

    lab.run(look_on)
    return Course(lab, poseidon, notes, scores, idle)


def test_a_dry_run_writes_nothing(course: Course) -> None:
    assert course.lab.written == []
    kinds = {kind for kind, result, _ in course.notes.outcomes if result == "done"}
    assert {"protect-job", "create-runner", "remove-job"} <= kinds
    assert all(detail.startswith("dry run: would") for _, result, detail in course.notes.outcomes if result == "done")


def test_protection_came_too_late_for_those_that_died(course: Course) -> None:
    score = course.scores["protect-job"]
    dead = [job for job in course.lab.cluster.state.jobs.values() if job.status == "dead" and not job.stop]
    assert score.too_late == len(dead) > 0
    assert score.by_others == 0


def test_what_would_have_been_created_was_ordered_by_the_alert(course: Course) -> None:
    score = course.scores["create-runner"]
    assert course.poseidon.ordered_by_alert > 0
    assert score.by_others == course.poseidon.ordered_by_alert
    assert score.after_s is not None
    # The alert comes after 300 s; by then we would have waited for the storm to be over.
    assert 200 < score.after_s < 300
    assert score.open == RUNNERS - course.idle


def test_the_dead_are_left_to_be_removed(course: Course) -> None:
    assert course.scores["remove-job"].open > 0
    assert course.scores["remove-job"].by_others == 0


def test_the_score_is_noted_in_between(course: Course) -> None:
    notes = [detail for event, detail in course.notes.notes if event == "shadow"]
    assert len(notes) == 1
    assert notes[0].startswith(f"protect-job {course.scores['protect-job'].would}: ")


SCORES = [
    ShadowScore("protect-job", 12, 0, None, 0, 12, 0, 0, 0),
    ShadowScore("create-runner", 14, 13, 297.94, 0, 0, 0, 1, 28),
]


def test_the_table_has_a_line_for_each_kind() -> None:
    assert table(SCORES).splitlines() == [
        "Dry run: what would have been done, and what became of it without us",
        "action         would  by others    after  by Nomad  too late  not needed  open",
        "protect-job       12          0        -         0        12           0     0",
        "create-runner     14         13  4m57.9s         0         0           0     1",
    ]
    assert table([]) == "Dry run: there was nothing to do.\n"


def test_the_note_leaves_out_what_did_not_happen() -> None:
    assert note(SCORES) == "protect-job 12: 12 too late; create-runner 14: 13 done by others after 4m57.9s, 1 open"


async def test_a_score_that_stays_is_noted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = iter(range(3))
    waits: list[float] = []

    async def sleep(wait_s: float) -> None:
        waits.append(wait_s)
        if next(rounds, None) is None:
            raise asyncio.CancelledError

    class Same:
        def scores(self) -> list[ShadowScore]:
            return SCORES

    monkeypatch.setattr("poseidon_reconciler.app.shadow.asyncio.sleep", sleep)
    notes = Notes()
    with pytest.raises(asyncio.CancelledError):
        await telling(Same(), Observers(notes))()  # type: ignore[arg-type]
    assert notes.notes == [("shadow", note(SCORES))]
    assert set(waits) == {NOTE_INTERVAL_S}


async def test_the_command_ends_with_the_table() -> None:
    """Over HTTP, as a user runs it: the pool of an environment that nobody ever filled."""
    cluster = Cluster(1)
    cluster.run_for(30)
    cluster.jobs.register(environment_job(10, 3))
    cluster.run_for(10)
    written = cluster.state.jobs.copy()
    async with TwinServer(cluster) as server:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "poseidon_reconciler", "run", "--dry-run",
            env={**os.environ, "NOMAD_ADDR": server.address, "RECONCILER_POOL__SETTLE": "0s"},
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stderr is not None
        async with asyncio.timeout(60):
            while b"dry run: would register" not in await process.stderr.readline():
                pass
            process.terminate()
            rest = (await process.stderr.read()).decode()
            assert await process.wait() == 0
    assert "Dry run: what would have been done, and what became of it without us\naction " in rest
    assert re.search(r"^create-runner +3 +0 +- +0 +0 +0 +3$", rest, re.MULTILINE)
    assert cluster.state.jobs == written


def test_there_is_a_score_only_in_a_dry_run() -> None:
    scene = SCENARIOS["startup"]
    lab = Lab(cluster_for(scene))

    async def look() -> None:
        assert lab.reconciler(Settings(), Notes()).shadow is None
        assert isinstance(lab.reconciler(Settings(), Notes(), dry_run=True).shadow, Shadow)

    lab.run(look)
