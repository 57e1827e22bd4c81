"""Each message has one name, listed once, with a page that says what it means."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from poseidon_reconciler.core.diagnosis import Change, Verdict
from poseidon_reconciler.core.ledger import ActionOutcome
from poseidon_reconciler.core.records import Job
from poseidon_reconciler.observe.logs.events import MESSAGES
from poseidon_reconciler.observe.logs.observer import _OUTCOMES, message_of

ROOT = Path(__file__).parents[3]
_NOTED = re.compile(r"""\bnoted?\(\s*f?"([a-z-]+)"(?: if .*? else "([a-z-]+)")?""")


def verdict(state: str, *, at_risk: bool = False) -> Verdict:
    return Verdict(state, "rule", None, 0.0, None, at_risk, False)  # type: ignore[arg-type]


def test_names_are_words_with_hyphens() -> None:
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", name) for name in MESSAGES)


def test_every_note_of_the_program_is_listed() -> None:
    noted = {
        name
        for path in (ROOT / "poseidon_reconciler").rglob("*.py")
        if not {"simulation", "twin", "demo"} & set(path.parts)
        for pair in _NOTED.findall(path.read_text())
        for name in pair
        if name
    }

    assert {"lists-read", "protection-off", "protection-on"} <= noted
    assert noted <= set(MESSAGES)


def test_every_outcome_of_an_action_has_a_message() -> None:
    results = get_args(get_type_hints(ActionOutcome)["result"])

    assert set(_OUTCOMES) == set(results)
    assert set(_OUTCOMES.values()) <= set(MESSAGES)


@pytest.mark.parametrize(
    ("kind", "before", "after", "name"),
    [
        ("runner", None, verdict("lost"), "runner-lost"),
        ("environment", verdict("recovering"), verdict("lost"), "environment-lost"),
        ("runner", verdict("lost"), verdict("lost"), "job-changed"),
        ("runner", verdict("lost"), verdict("idle"), "runner-back"),
        ("environment", verdict("lost"), verdict("starting"), "environment-back"),
        ("runner", verdict("lost"), verdict("gone"), "job-changed"),
        ("environment", verdict("active"), verdict("stopped"), "environment-stopped"),
        ("runner", verdict("idle"), verdict("idle", at_risk=True), "job-at-risk"),
        ("runner", verdict("idle", at_risk=True), verdict("blocked", at_risk=True), "job-changed"),
        ("runner", None, verdict("idle"), "job-changed"),
    ],
)
def test_losses_and_what_ends_them_stand_out(kind: str, before: Verdict | None, after: Verdict, name: str) -> None:
    job = Job("10-a", kind, "10")  # type: ignore[arg-type]

    assert message_of(Change(job, before, after)) == name
    assert name in MESSAGES


def test_the_page_shows_the_whole_table() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (\w+) \| (.*) \|$", (ROOT / "docs" / "logs.md").read_text(), re.MULTILINE)

    table = [(name, each.level_name, each.meaning) for name, each in MESSAGES.items()]
    as_text = "\n".join(f"| `{name}` | {level} | {meaning} |" for name, level, meaning in table)
    assert rows == table, f"the table in docs/logs.md is to be\n\n{as_text}\n"
