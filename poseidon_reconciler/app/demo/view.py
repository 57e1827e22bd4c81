"""The demo on a terminal: one screen that is drawn anew several times a second, or plain lines where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.rule import Rule
from rich.text import Text

from poseidon_reconciler.app.demo.feed import Entry
from poseidon_reconciler.app.demo.outcome import Outcome
from poseidon_reconciler.app.demo.picture import nodes_table, pool_picture
from poseidon_reconciler.app.demo.stage import LEARNERS, Stage
from poseidon_reconciler.core.printable import printable
from poseidon_reconciler.core.status import POOL_STATES, EnvironmentRow

_STYLES: Final = {
    "failure": "bold red",
    "node": "default",
    "poseidon": "magenta",
    "lost": "red",
    "decided": "blue",
    "done": "green",
    "not-done": "yellow",
    "stream": "dim",
    "pools": "default",
}
_SIGNS: Final = {
    "failure": "!",
    "node": "·",
    "poseidon": "P",
    "lost": "✗",
    "decided": "→",
    "done": "✓",
    "not-done": "~",
    "stream": "·",
    "pools": " ",
}
_PLAIN_WIDTH: Final = 160
_LEAST_EVENTS: Final = 4
_BAR_SHARE: Final = 0.4
# Between two lines about the pools where there is no screen, in seconds of the cluster's time.
_POOLS_EACH_S: Final = 5.0


class View(Protocol):
    """Shows a stage."""

    def show(self) -> None:
        """Shows how it stands now."""

    def conclude(self, outcome: Outcome) -> None:
        """Shows how it ended, after the last frame."""


@contextmanager
def viewing(stage: Stage) -> Iterator[View]:
    """A screen if standard output is a terminal, otherwise lines."""
    console = Console(highlight=False)
    if not console.is_terminal:
        yield Lines(stage, Console(highlight=False, width=_PLAIN_WIDTH, color_system=None))
        return
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        yield Screen(stage, console, live)


class Screen:
    """Draws the whole picture again for each frame."""

    def __init__(self, stage: Stage, console: Console, live: Live) -> None:
        self._stage = stage
        self._console = console
        self._live = live

    def show(self) -> None:
        self._live.update(self.picture(), refresh=True)

    def conclude(self, outcome: Outcome) -> None:
        _print_conclusion(self._console, outcome)

    def picture(self) -> RenderableType:
        upper, lower, size = self._upper(), Group(Rule(style="dim"), _counts(self._stage)), self._console.size
        used = len(self._console.render_lines(upper)) + len(self._console.render_lines(lower))
        room = max(_LEAST_EVENTS, size.height - used - 1)
        events = [_event_line(self._stage, entry) for entry in self._stage.feed.entries[-room:]]
        for line in events:
            line.truncate(size.width, overflow="ellipsis")
        return Group(upper, *events, *[Text()] * (room - len(events)), lower)

    def _upper(self) -> Group:
        stage, width = self._stage, int(self._console.width * _BAR_SHARE)
        targets = stage.watch.truth.targets
        pools = [
            pool_picture(id_, stage.judge.numbers(id_), targets.get(id_, 0), row.state, row.cause, width)
            for id_, row in stage.judge.rows().items()
        ]
        return Group(_head(stage), Text(), *pools, Text(), nodes_table(stage.cluster), Rule(style="dim"))


class Lines:
    """Prints what happens as it happens, and the pools whenever they are others."""

    def __init__(self, stage: Stage, console: Console) -> None:
        self._stage = stage
        self._console = console
        self._told = ""
        self._told_at = float("-inf")
        console.print(_head(stage, with_clock=False), soft_wrap=True)

    def show(self) -> None:
        stage, now = self._stage, self._stage.cluster.now
        pools = "; ".join(f"environment {id_}: {_in_words(row)}" for id_, row in stage.judge.rows().items())
        if pools != self._told and now - self._told_at >= _POOLS_EACH_S:
            self._told, self._told_at = pools, now
            stage.feed.add("pools", pools)
        if stage.play.running_since is None:
            # Before all runs nobody knows when the failure begins, and lines tell their time by that.
            return
        for entry in stage.feed.take_finished():
            self._print(_event_line(stage, entry))

    def conclude(self, outcome: Outcome) -> None:
        for entry in self._stage.feed.take_finished(all_of_them=True):
            self._print(_event_line(self._stage, entry))
        _print_conclusion(self._console, outcome)

    def _print(self, line: Text) -> None:
        self._console.print(line, soft_wrap=True)


def _in_words(row: EnvironmentRow) -> str:
    numbers = ((state, getattr(row, state)) for state in POOL_STATES if state != "idle")
    others = "".join(f", {number} {state}" for state, number in numbers if number)
    return f"{row.state}, {row.idle} of {row.target} idle{others}"


def _head(stage: Stage, *, with_clock: bool = True) -> Text:
    setting = stage.setting
    head = Text.assemble(("poseidon-reconciler demo", "bold"), "  ", (setting.scenario.name, "bold cyan"))
    if with_clock:
        head.append(f"  {_clock(stage, stage.cluster.now).strip()}", style="bold")
    if setting.speed != 1:
        head.append(f"  {setting.speed:g} times as fast as real", style="dim")
    head.append(f"\n{setting.scenario.about}")
    rate = f"{LEARNERS.claims_per_minute:g} runners a minute are claimed from each pool"
    poseidon = f"with Poseidon, {rate}" if setting.poseidon else "without Poseidon"
    head.append(f"\n{'with' if setting.reconciler else 'without'} the reconciler, {poseidon}", style="dim")
    if stage.page is not None:
        head.append(f"\nstatus page: {stage.page}", style="dim")
    return head


def _clock(stage: Stage, at: float) -> str:
    """Seconds since the failure began."""
    elapsed_s = at - stage.at(stage.play.first_step_s)
    return f"{elapsed_s:+8.1f} s" if elapsed_s > float("-inf") else " " * 10


def _event_line(stage: Stage, entry: Entry) -> Text:
    style = _STYLES[entry.kind]
    return Text.assemble((f"{_clock(stage, entry.at)}  ", "dim"), (f"{_SIGNS[entry.kind]} {entry.line()}", style))


def _counts(stage: Stage) -> Text:
    """What was done so far, and what is wanted and not done yet."""
    watch = stage.watch
    counts = Text(
        f"protected {len(watch.protected)}  created {len(watch.created)}  removed {len(watch.removed)}"
        f"  trimmed {len(watch.trimmed)}"
        f"  revived {len(watch.revived)}  lost {len(watch.truth.lost)}"
    )
    counts.append(f"  promises broken {len(watch.broken)}", style="bold red" if watch.broken else "")
    if stage.running is not None:
        for hold in stage.running.core.holds(stage.cluster.now)[:1]:
            where = f"environment {hold.environment_id}: " if hold.environment_id is not None else ""
            until = f", until{_clock(stage, hold.until).rstrip()}" if hold.until is not None else ""
            counts.append(f"\nheld: {where}{printable(hold.reason)}{until}", style="yellow")
            return counts
    return counts.append("\n")


def _print_conclusion(console: Console, outcome: Outcome) -> None:
    console.print()
    for sentence in outcome.sentences():
        console.print(Text(printable(sentence), style="bold red" if "broken" in sentence else ""), soft_wrap=True)
