"""Writes `docs/verdicts.md` from the rules themselves, so that the page cannot say anything else.

python docs/generate.py            prints the page
python docs/generate.py --write    writes it
"""

from __future__ import annotations

import sys
from pathlib import Path

from poseidon_reconciler.core.rules import COMING_STATES, ENVIRONMENT_RULES, RUNNER_RULES, Rule

PAGE = Path(__file__).with_name("verdicts.md")

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


def page() -> str:
    """The whole page."""
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


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page())
    else:
        sys.stdout.write(page())
