"""The flight recorder of a running reconciler: what it writes down when, and that nobody suffers from it."""

from __future__ import annotations

import asyncio
import gzip
import os
import re
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from poseidon_reconciler.app.flight import (
    AFTERMATH_S,
    BETWEEN_S,
    REPEAT_S,
    FlightRecorder,
    attach_flight_recorder,
    write_on_signal,
)
from poseidon_reconciler.app.observers import Observers
from poseidon_reconciler.app.running import Running
from poseidon_reconciler.config import Settings
from poseidon_reconciler.config.observing import FlightRecorderSettings
from poseidon_reconciler.controller import ActionEnded
from poseidon_reconciler.core.ledger import Action, ActionKind, ActionOutcome
from poseidon_reconciler.core.pauses import Pause
from poseidon_reconciler.nomad.items import FrameReceived, Gap, Heartbeat, MalformedLine
from poseidon_reconciler.policy import Policy
from poseidon_reconciler.recording.flight import FlightRing
from poseidon_reconciler.recording.reader import RecordingReader
from poseidon_reconciler.recording.replay import Replay
from tests.controllers import Notes, Rig, at_once, in_virtual_time, now, rig
from tests.core.builders import TEMPLATE, allocation, job, line_of, node_id, runner


@pytest.fixture(autouse=True)
def on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Virtual time does not wait for threads."""

    async def at_once_instead(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    monkeypatch.setattr(asyncio, "to_thread", at_once_instead)


@asynccontextmanager
async def recorded(directory: Path, *, keep: int = 9) -> AsyncIterator[tuple[Rig, FlightRecorder]]:
    async with rig() as r:
        recorder = FlightRecorder(FlightRing(10**6), directory, keep=keep, controller=r.controller, note=r.notes.noted)
        r.controller._observer = Observers(r.notes, recorder)
        r.controller.tape = recorder.tape
        task = asyncio.create_task(recorder.run())
        await r.open()
        yield r, recorder
        r.controller.stopping = True
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def reasons(recorder: FlightRecorder) -> list[str]:
    """Why flights were written; two of one second have a number."""
    names = [path.name.partition("Z-")[2].removesuffix(".ndjson.gz") for path in recorder.written]
    return [re.sub(r"-\d+$", "", name) for name in names]


def lines(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def storm(r: Rig, index: int = 200) -> None:
    for number in range(3):
        r.lose(number, index=index + number)


def action(kind: ActionKind = "create-runner", job_id: str = "10-new") -> Action:
    return Action(now(), kind, "10", job_id, "why")


@in_virtual_time
async def test_a_storm_is_written_down_with_its_aftermath_and_decides_the_same_again(tmp_path: Path) -> None:
    async with recorded(tmp_path) as (r, recorder):
        storm(r)
        # What looks dead is lost only after a while, and that makes the storm.
        while r.core.planner.storm.since is None:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(1)
        began = now()
        await asyncio.sleep(AFTERMATH_S - 5)
        assert recorder.written == []
        r.say(job(runner(8), index=300, created=300), index=300)
        await asyncio.sleep(10)

        assert reasons(recorder) == ["storm"]
        frames = [line for line in lines(recorder.written[0]) if "Frame" in line]
        assert frames[-1]["Frame"]["Index"] == 300
        assert frames[-1]["ReceivedAt"] > began
        steps: list[Any] = []
        Replay(Policy(), steps.append).run(RecordingReader(recorder.written), settle_s=0.0)
        found = [step for step in steps if step.changes or step.actions]
        live = [(s.at, s.actions, [(c.job.id, c.verdict.rule) for c in s.changes]) for s in r.notes.steps]
        assert [(s.at, s.actions, [(c.job.id, c.verdict.rule) for c in s.changes]) for s in found] == live[: len(found)]
        assert len(found) >= len(live) - 2


def ends(result: Any) -> Callable[[Rig, FlightRecorder], None]:
    return lambda r, _: r.controller.put(ActionEnded(action(), ActionOutcome(result, "as if")))


def environment_ends(r: Rig, _: FlightRecorder) -> None:
    ended = allocation("t", TEMPLATE, "complete", index=200, created=11, node=node_id(1))
    r.say(ended, job(TEMPLATE, "dead", index=200, created=10, target=3), index=200)


def too_many(r: Rig, recorder: FlightRecorder) -> None:
    """A runner of ours is done, and there are more than there should be."""
    ends("done")(r, recorder)
    r.say(job(runner(8), index=300, created=300), index=300)


def heard(item: Any) -> Callable[[Rig, FlightRecorder], None]:
    return lambda _, recorder: recorder.heard(item)


FAULTY = line_of({"Index": 1, "Events": [{"Topic": "Job", "Type": "t", "Payload": {"Job": 5}}]})


@pytest.mark.parametrize(
    ("happens", "reason"),
    [
        (ends("unknown"), ["unknown-create-runner"]),
        (ends("not-wanted"), ["not-wanted-create-runner"]),
        (ends("not-done"), []),
        (ends("done"), []),
        (environment_ends, ["environment-lost"]),
        (too_many, ["surplus"]),
        (heard(MalformedLine("x", 1.0)), ["malformed-line"]),
        (heard(FrameReceived(FAULTY, 1.0, b"")), ["malformed-line"]),
        (heard(Gap(1, 5, 1.0)), ["gap"]),
        (heard(Heartbeat(1.0)), []),
        (lambda r, _: r.lose(0, index=200), []),
    ],
)
@in_virtual_time
async def test_what_is_unexpected_is_written_down_and_nothing_else(
    tmp_path: Path, happens: Callable[[Rig, FlightRecorder], None], reason: list[str]
) -> None:
    async with recorded(tmp_path) as (r, recorder):
        happens(r, recorder)
        await asyncio.sleep(AFTERMATH_S + 60)
        assert reasons(recorder) == reason


@in_virtual_time
async def test_one_follows_another_only_after_a_while_and_the_same_only_after_a_long_one(tmp_path: Path) -> None:
    async with recorded(tmp_path) as (_, recorder):
        recorder.ask("first")
        await asyncio.sleep(AFTERMATH_S + 1)
        recorder.ask("first")
        recorder.ask("second")
        recorder.ask("third")
        await asyncio.sleep(BETWEEN_S - 30)
        assert reasons(recorder) == ["first"]
        await asyncio.sleep(60)
        # The third is in it too.
        assert reasons(recorder) == ["first", "second"]
        await asyncio.sleep(REPEAT_S)
        recorder.ask("first")
        await asyncio.sleep(AFTERMATH_S + 1)
        assert reasons(recorder) == ["first", "second", "first"]


@in_virtual_time
async def test_whoever_asks_gets_it_at_once_and_takes_nothing_away(tmp_path: Path) -> None:
    async with recorded(tmp_path) as (_, recorder):
        recorder.ask("storm")
        recorder.ask_now()
        recorder.ask_now()
        await at_once()
        assert reasons(recorder) == ["asked"]
        await asyncio.sleep(AFTERMATH_S + 1)
        assert reasons(recorder) == ["asked", "storm"]


@in_virtual_time
async def test_it_writes_last_when_another_part_fails_but_not_at_an_orderly_end(tmp_path: Path) -> None:
    for stopping in (True, False):
        async with rig() as r:
            recorder = FlightRecorder(FlightRing(10**6), tmp_path, keep=9, controller=r.controller, note=r.notes.noted)
            r.controller.tape = recorder.tape
            task = asyncio.create_task(recorder.run())
            await r.open()
            r.controller.stopping = stopping
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert reasons(recorder) == ([] if stopping else ["exception"])


@in_virtual_time
async def test_where_it_cannot_write_it_says_so_and_all_else_goes_on(tmp_path: Path) -> None:
    (tmp_path / "flights").write_text("no directory")
    async with recorded(tmp_path / "flights") as (r, recorder):
        recorder.ask_now()
        await at_once()
        assert recorder.written == []
        assert r.notes.count("flight-not-written") == 1
        r.lose(0, index=200)
        await asyncio.sleep(60)
        assert r.actions.of("create-runner")


@in_virtual_time
async def test_pauses_and_outcomes_are_on_it(tmp_path: Path) -> None:
    async with recorded(tmp_path) as (r, recorder):
        r.controller.put(Pause("10", "maintenance", now()))
        r.controller.put(ActionEnded(action(), ActionOutcome("not-done", "Bearer hunter2 was refused", 7)))
        await at_once()
        recorder.ask_now()
        await at_once()
        _, by, *told = [line["Told"] for line in lines(recorder.written[0]) if line["Told"]]
        assert by["Policy"]["pace"]["storm_share"] == Policy().pace.storm_share
        assert told[0]["Pause"]["Reason"] == "maintenance"
        outcome = told[1]["Outcome"]
        assert (outcome["Kind"], outcome["JobID"], outcome["Result"], outcome["Index"]) == (
            "create-runner", "10-new", "not-done", 7,
        )  # fmt: skip
        assert "hunter2" not in outcome["Detail"]


@in_virtual_time
async def test_what_cannot_be_kept_costs_what_was_kept_and_nothing_else(tmp_path: Path) -> None:
    async with recorded(tmp_path) as (r, recorder):
        r.controller.put(ActionEnded(action(), ActionOutcome("not-done", "no Unicode: \ud800")))
        await at_once()
        assert r.notes.count("flight-recorder-lost") == 1
        assert recorder.ring.size == 0
        assert r.controller.synced


@in_virtual_time
async def test_a_flight_of_a_dry_run_is_played_as_one(tmp_path: Path) -> None:
    async with recorded(tmp_path) as (r, recorder):
        r.core.planner.desk.imagines = True
        r.core.planner.protection.wanted = False
        r.lose(0, index=200)
        recorder.ring.is_whole = False
        recorder.ask_now()
        await at_once()
        replay = Replay(Policy())
        replay.run(RecordingReader(recorder.written), settle_s=0.0)
        assert replay.core.planner.desk.imagines
        assert not replay.core.planner.protection.wanted


@pytest.mark.parametrize(("megabytes", "kept", "is_there"), [(1, True, True), (0, True, False), (1, False, False)])
async def test_it_is_there_where_it_is_wanted(tmp_path: Path, megabytes: int, kept: bool, is_there: bool) -> None:
    settings = Settings(
        state_dir=tmp_path if kept else None, flight_recorder=FlightRecorderSettings(max_megabytes=megabytes)
    )
    observers = Observers()
    running = Running(settings, observers)
    recorder = attach_flight_recorder(running, observers, settings)
    assert (recorder is not None) == is_there
    assert len(running.companions) == is_there
    await running._api.close()


async def test_a_signal_asks_for_it_and_never_ends_the_process() -> None:
    notes = Notes()
    write_on_signal(None, Observers(notes))
    os.kill(os.getpid(), signal.SIGUSR1)
    await asyncio.sleep(0.05)
    assert notes.count("no-flight-recorder") == 1
