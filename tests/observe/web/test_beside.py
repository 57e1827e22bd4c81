"""What Poseidon says, in one sentence and beside what is."""

from __future__ import annotations

from typing import Any

import pytest

from poseidon_reconciler.observe.drift import EnvironmentView, PoseidonView, Statistics
from poseidon_reconciler.observe.web.beside import poseidon_document

AGREES = EnvironmentView(Statistics(1, 3, 3, 0), 3, 0, 3)
DIFFERS = EnvironmentView(Statistics(2, 3, 5, 0), 3, 0, 3, "too-many-idle", 10.0)
LASTING = EnvironmentView(None, 3, 0, 3, "unknown-environment", 20.0, lasting=True, adopted=2)


def told(**view: Any) -> dict[str, Any]:
    document = poseidon_document(PoseidonView(**view))
    assert document is not None
    return document


def test_where_nobody_is_asked_nothing_is_told() -> None:
    assert poseidon_document(None) is None


@pytest.mark.parametrize(
    ("view", "text"),
    [
        ({}, "Poseidon has not answered yet."),
        ({"problem": "no answer within 10 s"}, "Poseidon tells nothing: no answer within 10 s."),
        (
            {"at": 1.0, "problem": "answers 500", "environments": {"1": AGREES}},
            "Poseidon tells nothing: answers 500. What it said last is shown.",
        ),
        ({"at": 1.0, "environments": {"1": AGREES}}, "Poseidon and Nomad agree on 1 environment."),
        (
            {"at": 1.0, "environments": {"1": AGREES, "2": DIFFERS}},
            "Poseidon and Nomad differ on 1 of 2 environments.",
        ),
    ],
)
def test_a_sentence_says_how_it_stands(view: dict[str, Any], text: str) -> None:
    assert told(**view)["text"] == text


def test_what_differs_longest_stands_first() -> None:
    rows = told(at=30.0, environments={"1": AGREES, "2": DIFFERS, "3": LASTING})["environments"]
    assert [row["environment_id"] for row in rows] == ["3", "2", "1"]
    assert rows[0] == {
        "environment_id": "3", "believed_idle": None, "believed_used": None, "idle": 3, "used": 0, "target": 3,
        "drift": "unknown-environment", "since": "1970-01-01T00:00:20.000Z", "lasting": True, "waiting": 0,
        "adopted": 2, "not_adopted": 0,
    }  # fmt: skip
