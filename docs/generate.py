"""Writes the pages that are lists of what the code declares, so that they cannot say anything else.

python docs/generate.py            prints them
python docs/generate.py --write    writes them
"""

from __future__ import annotations

import sys
from pathlib import Path

from poseidon_reconciler.core.rules import COMING_STATES, ENVIRONMENT_RULES, RUNNER_RULES, Rule
from poseidon_reconciler.observe.telemetry.catalogue import METRICS
from poseidon_reconciler.observe.telemetry.holds import KINDS

DOCS = Path(__file__).parent

_HEAD = """\
# Verdicts

Every job of an environment or a runner has one verdict at any time: a state, and the name of the rule that gave it. The
rules stand in an order, and the first whose sentences are all true wins. Their names are what `replay`, `explain` and
the logs print. This page is generated from the rules (`make docs`).

*Timed* rules become another verdict by time alone, if nothing else happens; `explain` says when and which.

These states count towards a pool's target: {coming}. Under `leave-alone`, disconnected does too. Under
`exactly` so does whatever may still run, or start after all: disconnected, leaving, and lost while Nomad still means
its newest allocation to run. A runner that is marked used never counts.
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
`kind` of `holds` is one of {kinds}.
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
    kinds = ", ".join(f"`{kind}`" for kind in KINDS)
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


PAGES = {"verdicts.md": verdicts_page, "metrics.md": metrics_page}

if __name__ == "__main__":
    for name, page in PAGES.items():
        if "--write" in sys.argv:
            (DOCS / name).write_text(page())
        else:
            sys.stdout.write(page())
