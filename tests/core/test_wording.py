"""Numbers and verdicts read as a person would write them."""

from __future__ import annotations

import pytest

from poseidon_reconciler.core.wording import counted, standing


@pytest.mark.parametrize(("number", "text"), [(0, "0 runners"), (1, "1 runner"), (2, "2 runners")])
def test_a_noun_follows_its_number(number: int, text: str) -> None:
    assert counted(number, "runner") == text


@pytest.mark.parametrize(
    ("state", "cause", "rule", "text"),
    [
        ("idle", None, "running", "idle (running)"),
        ("lost", "exhausted", "attempts-used-up", "lost, exhausted (attempts-used-up)"),
        ("lost", "drained", "drained", "lost, drained"),
    ],
)
def test_a_rule_that_is_named_like_its_cause_is_told_once(state: str, cause: str | None, rule: str, text: str) -> None:
    assert standing(state, cause, rule) == text
