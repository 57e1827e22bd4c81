"""Pages become one list that is no newer than its oldest page, and no list at all if one of them is missing."""

from __future__ import annotations

from collections.abc import Callable

import orjson
import pytest

from poseidon_reconciler.core.events import UNKNOWN, NodePayload
from poseidon_reconciler.nomad.outcomes import Answer, Ok, Outcome, Unavailable
from poseidon_reconciler.nomad.pages import PER_PAGE, Page, read_pages

Read = Callable[[Answer], Outcome[Page[NodePayload]]]


def node(name: str) -> dict[str, object]:
    return {"ID": name, "Status": "ready"}


def page(members: object, index: int = 7, next_token: str = "") -> Answer:
    headers = {"X-Nomad-Index": str(index)} | ({"X-Nomad-NextToken": next_token} if next_token else {})
    return Answer(200, headers, members if isinstance(members, bytes) else orjson.dumps(members))


async def read(*answers: Answer | Unavailable) -> tuple[Outcome[Page[NodePayload]], list[dict[str, str]]]:
    asked: list[dict[str, str]] = []

    async def ask(params: dict[str, str], decode: Read) -> Outcome[Page[NodePayload]]:
        asked.append(params)
        answer = answers[min(len(asked), len(answers)) - 1]
        return decode(answer) if isinstance(answer, Answer) else answer

    return await read_pages(ask, NodePayload), asked


async def test_pages_are_put_together_in_order() -> None:
    outcome, asked = await read(page([node("a"), node("b")], 9, "c"), page([node("c")], 12, "d"), page([node("d")], 11))

    assert isinstance(outcome, Ok)
    assert [member.id for member in outcome.value.members] == ["a", "b", "c", "d"]
    assert outcome.value.index == outcome.index == 9
    assert [params.get("next_token") for params in asked] == [None, "c", "d"]
    assert {params["per_page"] for params in asked} == {str(PER_PAGE)}


async def test_the_list_is_no_newer_than_its_oldest_page() -> None:
    outcome, _ = await read(page([node("a")], 9, "b"), page([node("b")], 8))

    assert isinstance(outcome, Ok)
    assert outcome.value.index == 8


@pytest.mark.parametrize("body", [b"[]", b"null"])
async def test_an_empty_list_is_a_list(body: bytes) -> None:
    outcome, _ = await read(page(body))

    assert isinstance(outcome, Ok)
    assert outcome.value.members == []
    assert outcome.value.index == 7


@pytest.mark.parametrize(
    "second",
    [Unavailable("away"), Answer(200, {}, b"[]"), page(b"[{"), page(b'{"a":1}'), page([node("c")], 9, "b")],
    ids=["no answer", "no index", "cut", "no list", "the same token again"],
)
async def test_a_list_with_a_page_missing_is_no_list(second: Answer | Unavailable) -> None:
    outcome, asked = await read(page([node("a")], 9, "b"), second)

    assert not isinstance(outcome, Ok)
    assert len(asked) == 2


async def test_a_list_with_an_unreadable_member_has_no_index() -> None:
    outcome, _ = await read(page([node("a"), {"ID": 5, "Status": "ready"}, node("c")], 9, "d"), page([node("d")], 9))

    assert isinstance(outcome, Ok)
    assert [member.id for member in outcome.value.members] == ["a", "c", "d"]
    assert (outcome.value.faults, outcome.value.index) == (1, UNKNOWN)


async def test_a_list_ends() -> None:
    count = 0

    async def ask(params: dict[str, str], decode: Read) -> Outcome[Page[NodePayload]]:
        nonlocal count
        count += 1
        return decode(page([], 9, f"t{count}"))

    outcome = await read_pages(ask, NodePayload)

    assert outcome.kind == "unknown"
    assert count == 10_000
