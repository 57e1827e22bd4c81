"""What a request asks for, read from its query."""

from __future__ import annotations

import pytest

from poseidon_reconciler.twin.asking import Ask, page
from poseidon_reconciler.twin.jobs import Refused
from tests.twin.labs import lab

CLUSTER = lab(1, version="1.10.5")


def ask(**query: str) -> Ask:
    return Ask(CLUSTER.state, CLUSTER.traits, {"id": "10-a"}, query)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 300.0), ("5s", 5.0), ("250ms", 0.25), ("2m", 120.0), ("1.5s", 1.5), ("24h", 600.0)],
)
def test_waiting_times(text: str, expected: float) -> None:
    assert ask(wait=text).wait_s == expected


@pytest.mark.parametrize("text", ["5", "s", "-1s", "5 s", "1e9s"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="Invalid wait time"):
        _ = ask(wait=text).wait_s


def test_switches_and_numbers() -> None:
    assert (ask().flag("purge"), ask(purge="").flag("purge"), ask(purge="false").flag("purge")) == (False, True, False)
    assert (ask().wanted_index, ask(index="7").wanted_index) == (0, 7)
    with pytest.raises(Refused, match="Invalid per_page"):
        ask(per_page="-1").number("per_page")


def test_namespaces() -> None:
    assert ask().job_key == ("default", "10-a")
    assert ask(namespace="x").job_key == ("x", "10-a")
    assert (ask(namespace="*").in_namespace("y"), ask().in_namespace("y")) == (True, False)


def test_pages_go_on_where_the_last_one_ended() -> None:
    def answer(**query: str) -> tuple[list[str], str]:
        found = page(ask(**query), "jobs", ["c", "a", "d", "b"], str, str.upper)
        return found.document, found.next_token

    assert answer() == (["C", "A", "D", "B"], "")
    assert answer(per_page="3") == (["A", "B", "C"], "d")
    assert answer(per_page="3", next_token="d") == (["D"], "")
    assert answer(per_page="3", next_token="x") == ([], "")
