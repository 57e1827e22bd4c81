"""A recording of a live cluster decides again what was decided: a flight to the bit, the rest in substance."""

from __future__ import annotations

from pathlib import Path

import pytest

from poseidon_reconciler.policy import Policy
from poseidon_reconciler.recording.reader import RecordingReader
from poseidon_reconciler.recording.replay import Replay
from poseidon_reconciler.twin.faults import Fault
from poseidon_reconciler.twin.server import TwinServer
from tests.leaps import in_leaps
from tests.live import Live, Told


def played(policy: Policy, *paths: Path) -> Told:
    told = Told()
    reader = RecordingReader(paths)
    Replay(policy, told.stepped).run(reader, settle_s=0.0)
    assert not reader.warnings
    return told


def check_flight(live: Live, path: Path) -> None:
    """Everything that was found and decided, with its times."""
    told = played(live.settings.policy(), path)
    assert told.lines[: len(live.told.lines)] == live.told.lines
    assert told.actions == live.told.actions


@pytest.mark.parametrize("protect", [True, False])
@in_leaps
async def test_a_restart_of_all_agents(tmp_path: Path, protect: bool) -> None:
    live = Live(tmp_path, "restart-together", protect=protect)
    flight = await live.run()

    assert flight.ring.is_whole
    check_flight(live, flight.written[-1])
    # Played by its own time, which is not that of the reconciler beside it, and without its outcomes.
    told = played(live.settings.policy(), live.recording_path)
    assert told.decisions() == live.told.decisions()
    assert sorted(told.losses) == sorted(live.told.losses)
    kinds = {kind for kind, _, _ in told.decisions()}
    assert kinds == ({"protect-job"} if protect else {"create-runner", "remove-job", "revive-environment"})


@in_leaps
async def test_with_answers_lost_and_refused_a_flight_knows_what_became_of_each_action(tmp_path: Path) -> None:
    def break_answers(server: TwinServer) -> None:
        server.faults.add(Fault("/v1/jobs", "POST", times=3, lose="after"))
        server.faults.add(Fault("/v1/jobs", "POST", times=4, lose="before"))

    live = Live(tmp_path, "restart-together", protect=False, poseidon=True)
    flight = await live.run(break_answers)

    assert {outcome.result for outcome in live.told.outcomes} > {"done"}
    check_flight(live, flight.written[-1])


@in_leaps
async def test_while_the_servers_are_away_nothing_is_decided(tmp_path: Path) -> None:
    live = Live(tmp_path, "servers-restart", poseidon=True)
    flight = await live.run()

    check_flight(live, flight.written[-1])
    assert played(live.settings.policy(), live.recording_path).decisions() == live.told.decisions()
