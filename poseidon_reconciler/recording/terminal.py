"""The story and its explanations for people at a terminal.

Job ids, node names and Nomad's messages are other people's text: whatever could steer a terminal is shown escaped.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from poseidon_reconciler.core.blame import NodeLosses
from poseidon_reconciler.core.decisions import Decision
from poseidon_reconciler.core.evidence import Evidence
from poseidon_reconciler.core.explanation import EnvironmentExplanation, Explanation, JobExplanation, OrderExplanation
from poseidon_reconciler.core.holds import Hold
from poseidon_reconciler.core.printable import printable
from poseidon_reconciler.core.status import POOL_STATES, EnvironmentRow
from poseidon_reconciler.core.wording import counted, standing
from poseidon_reconciler.policy import format_duration
from poseidon_reconciler.recording.story import Entry, Story

_STYLES: Final = {
    "idle": "green",
    "active": "green",
    "used": "cyan",
    "starting": "blue",
    "recovering": "yellow",
    "blocked": "yellow",
    "leaving": "yellow",
    "disconnected": "magenta",
    "lost": "bold red",
    "missing": "bold red",
    "gone": "dim",
    "stopped": "dim",
}
_PIPE_WIDTH: Final = 160
_MOST_NODES: Final = 20
_ALWAYS_SHOWN: Final = frozenset({"target", "idle"})


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leaves to the command line what it does about it anyway, where rich would end the program with a failure."""
        raise BrokenPipeError


def _console() -> Console:
    console = _Console(highlight=False)
    return console if console.is_terminal else _Console(highlight=False, width=_PIPE_WIDTH)


def print_story(story: Story) -> None:
    """Prints the timeline of each environment, the pools at the end, and a summary line."""
    console = _console()
    shared = [entry for entry in story.timeline if entry.environment_id is None]
    for environment_id, row in story.environments.items():
        own = [entry for entry in story.timeline if entry.environment_id == environment_id]
        console.print(Text(f"Environment {environment_id}", style="bold"), Text(f"  target {_number(row.target)}"))
        _print_timeline(console, story, sorted([*own, *shared], key=lambda entry: entry.at))
        console.print()
    if story.environments:
        console.print(_pool_table(story))
    else:
        console.print("no environment was recorded" if story.frames or story.snapshots else "nothing was recorded")
    for hold in story.holds:
        where = f"environment {hold.environment_id}" if hold.environment_id is not None else "everywhere"
        console.print(Text(f"held, {where}: {_hold_text(hold)}", style="yellow"), soft_wrap=True)
    _print_blame(console, "Losses by the node to which they are traced", story.blame)
    if story.actions:
        text = "Nothing was done: a replay only plans, and what it plans counts as coming (deficit: what remains)."
        console.print(Text(text), soft_wrap=True)
    console.print(Text(_summary(story)), soft_wrap=True)


def _print_timeline(console: Console, story: Story, entries: list[Entry]) -> None:
    ended = False
    for entry in entries:
        if not ended and story.is_after_end(entry.at):
            ended = True
            most = format_duration(story.settle_s)
            text = f"── the recording ends here; from now on only time passes (up to {most}) ──"
            console.print(Text(f"  {text}", style="bold"), soft_wrap=True)
        console.print(_entry_line(entry), soft_wrap=True)


def _entry_line(entry: Entry) -> Text:
    line = Text("  ").append(_clock(entry.at), style="dim").append("  ")
    if entry.kind == "action":
        line.append(f"→ {printable(entry.subject)}  {printable(entry.text)}", style="bold blue")
    elif entry.kind == "verdict":
        state = entry.text.split(",")[0].split(" ")[0]
        line.append(f"{printable(entry.subject)}  ")
        line.append(printable(entry.text), style=_STYLES.get(state, ""))
    else:
        line.append(f"{entry.kind} {printable(entry.subject)}  {printable(entry.text)}")
    return line


def _pool_table(story: Story) -> Table:
    """The pools with all their numbers; what is zero for all of them is left out, so that the rest has room."""
    rows = {id_: _pool_numbers(story, id_, row) for id_, row in story.environments.items()}
    names = ["target", *POOL_STATES, "planned", "deficit", "surplus"]
    names = [name for name in names if name in _ALWAYS_SHOWN or any(numbers[name] for numbers in rows.values())]
    table = Table(title="Pools at the end", title_justify="left")
    table.add_column("environment", no_wrap=True)
    table.add_column("state")
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for environment_id, row in story.environments.items():
        state = Text(row.state + (f", {row.cause}" if row.cause else ""), style=_STYLES.get(row.state, ""))
        table.add_row(environment_id, state, *(_number(rows[environment_id][name]) for name in names))
    return table


def _pool_numbers(story: Story, environment_id: str, row: EnvironmentRow) -> dict[str, int | None]:
    planned = sum(a.kind == "create-runner" and a.environment_id == environment_id for a in story.actions)
    numbers = {name: getattr(row, name) for name in ("target", *POOL_STATES, "deficit", "surplus")}
    return {**numbers, "planned": planned}


def _print_blame(console: Console, heading: str, blame: list[NodeLosses]) -> None:
    if not blame:
        return
    console.print(Text(heading))
    for losses in blame[:_MOST_NODES]:
        console.print(Text(f"  {_blame_text(losses)}"), soft_wrap=True)
    if len(blame) > _MOST_NODES:
        console.print(Text(f"  and {len(blame) - _MOST_NODES} more"))


def _blame_text(losses: NodeLosses) -> str:
    return f"{printable(losses.node or 'no node')}  {_clock(losses.at)}  {losses.what}: {_lost_text(losses)}"


def _traced_to(losses: NodeLosses) -> str:
    """The same within a sentence."""
    return f"{printable(losses.node or 'no node')}: {_clock(losses.at)} {losses.what}; {_lost_text(losses)}"


def _lost_text(losses: NodeLosses) -> str:
    causes = ", ".join(f"{number} {cause}" for cause, number in sorted(losses.causes.items()))
    return f"{losses.losses} lost ({causes})"


def _summary(story: Story) -> str:
    counts: dict[str, int] = {}
    for action in story.actions:
        counts[action.kind] = counts.get(action.kind, 0) + 1
    actions = ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items())) or "nothing to do"
    span = ""
    if story.started_at is not None and story.ended_at is not None:
        span = f" in {format_duration(round(story.ended_at - story.started_at, 1))}"
    malformed = f", {story.malformed} malformed" if story.malformed else ""
    malformed += ", breaks off" if story.breaks_off else ""
    return (
        f"{counted(story.frames, 'frame')}, {counted(story.events, 'event')}{span}{malformed}; "
        f"{story.losses_in_words()}; planned: {actions}"
    )


def print_explanation(explanation: Explanation, *, meanwhile: str = "under way") -> None:
    """Prints an explanation; `meanwhile`: what is said of a decision of which nobody knows what became of it."""
    if isinstance(explanation, JobExplanation):
        _print_job(explanation, meanwhile)
    elif isinstance(explanation, OrderExplanation):
        _print_order(explanation, meanwhile)
    else:
        _print_environment(explanation, meanwhile)


def _print_order(explanation: OrderExplanation, meanwhile: str) -> None:
    """Prints why a runner was decided on that is not known."""
    console = _console()
    job_id, environment_id = printable(explanation.job_id), explanation.environment_id
    text = f"{job_id} was decided on for environment {environment_id}; no such job is known."
    console.print(Text(text), soft_wrap=True)
    if explanation.replaces is not None:
        console.print(Text(f"It is to replace {printable(explanation.replaces)}."), soft_wrap=True)
    _print_decisions(console, explanation.job_id, explanation.decisions, meanwhile)
    _print_holds(console, explanation.holds)


def _print_job(explanation: JobExplanation, meanwhile: str) -> None:
    """Prints why a job is judged as it is, and what is done about it."""
    console = _console()
    _print_verdict(console, explanation)
    console.print("Evidence, in order:")
    _print_evidence(console, explanation.evidence)
    if explanation.verdict.due_at is not None:
        text = f"{explanation.next_state} ({explanation.next_rule}) at {_clock(explanation.verdict.due_at)}"
        console.print(Text(f"Next, if nothing else happens: {text}"))
    else:
        console.print(Text("Next: the verdict does not change by time alone."))
    _print_place(console, explanation)
    _print_decisions(console, explanation.job_id, explanation.decisions, meanwhile)
    _print_holds(console, explanation.holds)
    if explanation.unmatched:
        console.print("Rules above it that did not match, and what each would have needed:")
        width = max(len(unmatched.rule) for unmatched in explanation.unmatched)
        for unmatched in explanation.unmatched:
            console.print(
                Text(f"  {unmatched.rule:<{width}}  {unmatched.state:<12}  {unmatched.needs}"), soft_wrap=True
            )


def _print_place(console: Console, explanation: JobExplanation) -> None:
    """Where the job is, which node its loss is traced to, and which jobs it replaces or is replaced by."""
    if explanation.node is not None:
        where = "Last on" if explanation.verdict.state in ("lost", "gone") else "On"
        console.print(Text(f"{where} {printable(explanation.node)}."), soft_wrap=True)
    if explanation.blame is not None:
        console.print(Text(f"Its loss is traced to {_traced_to(explanation.blame)}."), soft_wrap=True)
    if explanation.replaces is not None:
        console.print(Text(f"It replaces {printable(explanation.replaces)}."), soft_wrap=True)
    if explanation.replaced_by is not None:
        console.print(Text(f"Replaced by {printable(explanation.replaced_by)}."), soft_wrap=True)


def _print_decisions(console: Console, job_id: str, decisions: list[Decision], meanwhile: str) -> None:
    if decisions:
        console.print("Decided about it:")
    for decision in decisions:
        text = f"  {_clock(decision.at)}  {decision.what(job_id)} ({decision.reason}): {decision.became(meanwhile)}"
        console.print(Text(printable(text), style="blue"), soft_wrap=True)


def _print_holds(console: Console, holds: list[Hold]) -> None:
    for hold in holds:
        since = f" since {_clock(hold.since)}" if hold.since is not None else ""
        console.print(Text(f"Held back{since}: {_hold_text(hold)}", style="yellow"), soft_wrap=True)
        console.print(Text(f"  Rule {hold.rule}; ends when {printable(hold.ends)}."), soft_wrap=True)


def _print_verdict(console: Console, explanation: JobExplanation) -> None:
    verdict = explanation.verdict
    head = Text(f"{printable(explanation.job_id)} ({explanation.kind} of environment {explanation.environment_id}) is ")
    head.append(verdict.state, style=_STYLES.get(verdict.state, "bold"))
    head.append(f", {verdict.cause}" if verdict.cause else "")
    head.append(f" since {_clock(verdict.since)}")
    console.print(head, soft_wrap=True)
    console.print(
        Text(f"Rule {verdict.rule}: {'; '.join(explanation.conditions) or 'no other rule matches'}."),
        soft_wrap=True,
    )
    if verdict.at_risk:
        console.print(
            Text("At risk: the next evaluation of the job can end it although it lives.", style="bold yellow")
        )


def _print_evidence(console: Console, evidence: Iterable[Evidence]) -> None:
    for item in evidence:
        where = f"{item.index:>8}  {item.topic}/{item.type}"
        console.print(Text(f"  {printable(where):<40}  {printable(item.text)}"), soft_wrap=True)


def _print_environment(explanation: EnvironmentExplanation, meanwhile: str) -> None:
    """Prints how an environment stands, and what keeps it from its target."""
    console = _console()
    head = Text(f"Environment {explanation.environment_id} is ")
    told = standing(explanation.state, explanation.cause, explanation.rule)
    head.append(explanation.state, style=_STYLES.get(explanation.state, "bold"))
    head.append(told.removeprefix(explanation.state))
    console.print(head)
    runners = ", ".join(f"{number} {state}" for state, number in explanation.states.items()) or "none"
    console.print(Text(f"Runners: {runners}; target {_number(explanation.target)}, deficit {explanation.deficit}"))
    if explanation.expected:
        console.print(Text(f"{explanation.expected} more asked for and not seen yet."))
    if explanation.surplus:
        console.print(Text(f"{explanation.surplus} more than the target: {printable(explanation.surplus_story)}."))
    if explanation.causes:
        causes = ", ".join(f"{number} {cause}" for cause, number in sorted(explanation.causes.items()))
        console.print(Text(f"Lost: {causes}"))
    _print_blame(
        console, "Losses by the node to which they are traced, those that were dealt with too:", explanation.blame
    )
    _print_holds(console, explanation.holds)
    if explanation.template is not None:
        console.print()
        _print_job(explanation.template, meanwhile)


def _hold_text(hold: Hold) -> str:
    until = f", until {_clock(hold.until)}" if hold.until is not None else ""
    return f"{printable(hold.reason)}{until}"


def _clock(at: float | None) -> str:
    return "-" if at is None else datetime.fromtimestamp(at, UTC).isoformat(sep=" ", timespec="milliseconds")[:23]


def _number(number: int | None) -> str:
    return "unknown" if number is None else str(number)
