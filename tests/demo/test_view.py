"""The demo's screen and its lines, of a stage that is moved by hand."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console
from rich.live import Live

from poseidon_reconciler.app.demo.scenarios import DEMO_SCENARIOS
from poseidon_reconciler.app.demo.stage import Setting, Stage
from poseidon_reconciler.app.demo.view import Lines, Screen
from poseidon_reconciler.config import Settings
from tests.demo.test_outcome import SHORT

AFTER_THE_FAILURE_S = 20.0


@pytest.fixture
def stage() -> Stage:
    """A demo without a reconciler, a while after all agents have stopped."""
    setting = Setting(DEMO_SCENARIOS["restart-together"], Settings(), reconciler=False, runners=8)
    stage = Stage(setting)
    stage.play.begin()
    for _ in range(400):
        stage.cluster.run_for(0.1)
        if stage.elapsed_s > AFTER_THE_FAILURE_S - 1:
            break
    stage.judge.advance()
    return stage


def screen_of(stage: Stage, width: int, height: int) -> list[str]:
    console = Console(width=width, height=height, file=StringIO(), force_terminal=True, color_system=None)
    screen = Screen(stage, console, Live(console=console, auto_refresh=False))
    return ["".join(segment.text for segment in line).rstrip() for line in console.render_lines(screen.picture())]


@pytest.mark.parametrize(("width", "height"), [(110, 40), (80, 24), (200, 60)])
def test_the_screen_is_filled_and_not_exceeded(stage: Stage, width: int, height: int) -> None:
    lines = screen_of(stage, width, height)
    assert height - 2 <= len(lines) < height
    assert max(map(len, lines)) <= width


def test_the_screen_shows_the_pools_the_nodes_what_happens_and_the_clock(stage: Stage) -> None:
    lines = screen_of(stage, 110, 40)
    text = "\n".join(lines)
    assert lines[0].startswith("poseidon-reconciler demo  restart-together  +19.")
    assert "environment 10  its own job is blocked" in lines
    assert "environment 11  its own job is blocked" in lines
    assert "agent-1  down  agent stopped    0 run" in lines
    assert "    +0.0 s  ! stopped: all agents" in lines
    assert "node down" in text
    assert "P Poseidon: deletes a runner whose allocation has ended" in text
    assert "promises broken 0" in text


def test_a_terminal_that_is_far_too_small_is_no_error(stage: Stage) -> None:
    assert screen_of(stage, 20, 5)


def lines_of(stage: Stage, frames: int) -> list[str]:
    out = StringIO()
    lines = Lines(stage, Console(width=160, file=out, color_system=None))
    for _ in range(frames):
        lines.show()
        stage.cluster.run_for(2.0)
        stage.judge.advance()
    lines.conclude(SHORT)
    return out.getvalue().splitlines()


def test_without_a_terminal_there_are_lines_in_the_order_of_time(stage: Stage) -> None:
    lines = lines_of(stage, 10)
    assert lines[0] == "poseidon-reconciler demo  restart-together"
    times = [float(line[:8]) for line in lines if line[8:10] == " s"]
    assert times == sorted(times)
    assert len(times) >= 4


def test_every_line_has_its_time_those_of_before_the_failure_too() -> None:
    stage = Stage(Setting(DEMO_SCENARIOS["restart-together"], Settings(), reconciler=False, runners=8))
    stage.feed.add("stream", "reading-lists", "the stream is open")
    out = StringIO()
    lines = Lines(stage, Console(width=160, file=out, color_system=None))
    stage.play.begin()
    for _ in range(80):
        lines.show()
        stage.cluster.run_for(0.2)
        stage.judge.advance()

    told = out.getvalue().splitlines()[3:]
    assert "reading-lists" in told[0]
    assert all(line[8:10] == " s" for line in told)


def test_runners_that_poseidon_creates_are_told_with_their_number(stage: Stage) -> None:
    assert any("P Poseidon: creates a runner × 2" in line for line in screen_of(stage, 110, 60))


def test_the_pools_are_told_when_they_are_others(stage: Stage) -> None:
    told = [line for line in lines_of(stage, 3) if "environment 10: " in line]
    assert len(told) == 1
    assert "environment 10: blocked, 0 of 8 idle" in told[0]


def test_it_ends_with_what_has_become_of_the_pools(stage: Stage) -> None:
    assert any(line.startswith("The pools are not back") for line in lines_of(stage, 1))
