"""Writes the pages that are lists of what the code declares, so that they cannot say anything else.

python docs/generate.py            prints them
python docs/generate.py --write    writes them
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, get_args

from poseidon_reconciler.config import Settings
from poseidon_reconciler.core.holds import HoldRule
from poseidon_reconciler.core.reconciler import Step
from poseidon_reconciler.core.rules import COMING_STATES, ENVIRONMENT_RULES, RUNNER_RULES, Rule
from poseidon_reconciler.observe.telemetry.catalogue import METRICS
from poseidon_reconciler.recording.reader import RecordingReader
from poseidon_reconciler.recording.replay import Replay

DOCS = Path(__file__).parent
EXAMPLE = DOCS.parent / "config" / "reconciler.yaml"
RECORDINGS = DOCS.parent / "tests" / "fixtures"

_HEAD = """\
# Verdicts

Every job of an environment or a runner has one verdict at any time: a state, and the name of the rule that gave it. The
rules stand in an order, and the first whose sentences are all true wins. Their names are what `replay`, `explain` and
the logs print. This page is generated from the rules (`make docs`).

*Timed* rules become another verdict by time alone, if nothing else happens; `explain` says when and which.

These states count towards a pool's target: {coming}. Under `leave-alone`, disconnected does too. Under
`exactly` so does whatever may still run, or start after all: disconnected, leaving, and lost while Nomad still means
its newest allocation to run. A runner that is marked used never counts. A copy of an `exactly` runner that claims a
volume may hold the claim for longer than it runs, so that it counts until its node is back or removed.
"""

_TAIL = """\
## Causes of a loss

| cause | what happened |
| --- | --- |
| `stuck-complete` | Nomad believes that the job's work is done: its newest allocation is complete. Nobody stopped it. |
| `exhausted` | The newest allocation failed, and all attempts to reschedule it are used up. |
| `node-lost` | The newest allocation was lost with its node, or is on a node that is gone for longer than the grace. |
| `drained` | The newest allocation was ordered off a draining node, and nothing followed. |
| `never-started` | The start deadline passed, or it was stopped before it ran. |
| `never-placed` | There is no allocation and no live evaluation. |

## At risk

Beside its state, a job that lives can be **at risk**: it carries an allocation of its current version that is ordered
to stop, has no successor, and is `lost` or `complete`. Nomad up to 1.11.1 takes such an allocation, once it is
complete, for the success of the batch job, and stops the healthy one at the next evaluation. A new version of the job
in place (`protect-job`) takes away the old allocation's power, because only those of the current version count. From
1.11.2 on Nomad itself disregards allocations whose stop was ordered; protecting is then needless, and harmless.
"""


_METRICS_HEAD = """\
# Metrics

Every metric there is, by its OpenTelemetry name and by the one that Prometheus sees. They are sent by OTLP where
`telemetry.endpoint` or `OTEL_EXPORTER_OTLP_ENDPOINT` names a collector, and are there to be scraped at `/metrics`.
This page is generated from the code that declares them (`make docs`).

No label holds the id of a job. A series of an environment ends when the environment is gone.
`config/prometheus/alerts.yml` and `config/grafana/dashboard.json` use nothing but these.
"""

_METRICS_TAIL = """\
`rule` of `holds` is one of {kinds}.
"""


def metrics_page() -> str:
    """The page of all metrics."""
    rows = ["| metric | in Prometheus | kind | unit | labels | what it says |", "| --- | --- | --- | --- | --- | --- |"]
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        unit = metric.unit.strip("{}")
        rows.append(
            f"| `{metric.full_name}` | `{metric.prometheus_name}` | {metric.kind} | {unit} | {labels} | {metric.text} |"
        )
    kinds = ", ".join(f"`{rule}`" for rule in get_args(HoldRule))
    return "\n".join([_METRICS_HEAD, "\n".join(rows) + "\n", _METRICS_TAIL.format(kinds=kinds)])


def verdicts_page() -> str:
    """The page of all verdicts."""
    parts = [_HEAD.format(coming=", ".join(sorted(COMING_STATES)))]
    parts += ["## Runners\n\n" + _table(RUNNER_RULES), "## Environments\n\n" + _table(ENVIRONMENT_RULES), _TAIL]
    return "\n".join(parts)


def _table(rules: tuple[Rule, ...]) -> str:
    rows = ["| rule | state | cause | timed | when |", "| --- | --- | --- | --- | --- |"]
    for rule in rules:
        sentences = "; ".join(condition.text for condition in rule.conditions) or "nothing above matches"
        timed = "yes" if rule.due is not None else ""
        rows.append(f"| `{rule.name}` | {rule.state} | {rule.cause or ''} | {timed} | {sentences} |")
    return "\n".join(rows) + "\n"


# --- states -----------------------------------------------------------------------------------------------------------

_STATES_HEAD = """\
# States

A job's state follows from what Nomad says of it now, by [rules](verdicts.md) that know no state before. In each box
stand the rules that give the state, in their order. The arrows are the changes that the recordings under
`tests/fixtures/` show: those of real clusters, and of cases worth keeping. *Time* is written on those that come about
by time alone, when a grace or a deadline has passed. A change without an arrow is possible, and was not seen yet.

This page is generated (`make docs`).
"""


class _Arrow(NamedTuple):
    kind: str
    before: str
    after: str


def states_page() -> str:
    """The states as diagrams, of the rules that give them and the changes that were recorded."""
    arrows = _recorded_arrows()
    parts = [_STATES_HEAD]
    for title, kind, rules in (("Runners", "runner", RUNNER_RULES), ("Environments", "environment", ENVIRONMENT_RULES)):
        of_kind = {arrow: timed for arrow, timed in arrows.items() if arrow.kind == kind}
        parts.append(f"## {title}\n\n" + _diagram(rules, of_kind))
    return "\n".join(parts)


def _diagram(rules: tuple[Rule, ...], arrows: dict[_Arrow, bool]) -> str:
    lines = ["```mermaid", "stateDiagram-v2", "    direction LR"]
    for state in dict.fromkeys(rule.state for rule in rules):
        lines.append(f'    state "{state}" as {state}')
        lines += [f"    {state} : {rule.name}" for rule in rules if rule.state == state]
    for arrow, timed in sorted(arrows.items()):
        lines.append(f"    {arrow.before} --> {arrow.after}" + (" : time" if timed else ""))
    return "\n".join([*lines, "```", ""])


def _recorded_arrows() -> dict[_Arrow, bool]:
    """The changes of state in all recordings, each with whether it ever came about by time alone."""
    arrows: dict[_Arrow, bool] = {}

    def note(step: Step) -> None:
        for job, before, verdict in ((change.job, change.before, change.verdict) for change in step.changes):
            if before is None or before.state != verdict.state:
                arrow = _Arrow(job.kind, before.state if before is not None else "[*]", verdict.state)
                timed = before is not None and before.due_at is not None and step.at >= before.due_at
                arrows[arrow] = arrows.get(arrow, False) or timed

    for expectation in sorted(RECORDINGS.rglob("*.expect.json")):
        stem = expectation.name.removesuffix(".expect.json")
        (recording,) = expectation.parent.glob(f"{stem}.ndjson*")
        settings = Settings.model_validate(json.loads(expectation.read_text()).get("config", {}))
        Replay(settings.policy(), note).run(RecordingReader([recording]))
    return arrows


# --- settings ---------------------------------------------------------------------------------------------------------

_SETTINGS_HEAD = """\
# Settings

Generated from [`config/reconciler.yaml`](../config/reconciler.yaml), which is the whole configuration with its defaults
(`make docs`). A variable `RECONCILER_<SECTION>__<KEY>` overrides a key: `RECONCILER_POOL__SETTLE=20s`. What stands in
`pool`, `pace` and `environments` takes effect with a [reload](operations.md#signals), the rest with a restart.
"""
_KEY = re.compile(r"(?P<indent> *)(?P<key>\w+):(?P<value>.*)")
_COLUMNS = "| key | default | meaning |\n| --- | --- | --- |"


def settings_page() -> str:
    """Each key with its default and meaning, as the example's comments say it."""
    parts = [_SETTINGS_HEAD]
    for key, value, comment, is_section in _keys_of_example():
        if is_section:
            parts.append(f"\n## {key}\n\n{comment}\n")
        if is_section and not value and key != "state_dir":
            parts.append(_COLUMNS)
        elif not is_section:
            parts.append(f"| `{key}` | {f'`{value}`' if value else ''} | {comment} |")
    return "\n".join(parts).replace("\n\n\n", "\n\n").rstrip() + "\n"


def _keys_of_example() -> Iterator[tuple[str, str, str, bool]]:
    """Key, default, comment, and whether it stands at the top, of each key in the order of the file."""
    comments: list[str] = []
    after_key = False
    for line in EXAMPLE.read_text().splitlines():
        if line.lstrip().startswith("#"):
            comments = [] if after_key else comments
            text = line.strip().removeprefix("#").removeprefix(" ")
            comments.append(f"<br>`{text.strip()}`" if text.startswith("  ") else text)
            after_key = False
        elif match := _KEY.fullmatch(line):
            yield match["key"], match["value"].strip(), " ".join(comments).replace("|", "\\|"), not match["indent"]
            after_key = True
        else:
            comments = []


PAGES = {
    "verdicts.md": verdicts_page,
    "states.md": states_page,
    "settings.md": settings_page,
    "metrics.md": metrics_page,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        if "--write" in sys.argv:
            (DOCS / name).write_text(page())
        else:
            sys.stdout.write(page())
