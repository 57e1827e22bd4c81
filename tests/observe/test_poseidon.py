"""The Poseidon beside us over HTTP: the model of it in the embedded cluster, and ones that do not behave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from poseidon_reconciler.config.observing import PoseidonSettings
from poseidon_reconciler.core.ledger import Action, ActionOutcome
from poseidon_reconciler.core.status import EnvironmentRow
from poseidon_reconciler.observe import poseidon as module
from poseidon_reconciler.observe.drift import Statistics
from poseidon_reconciler.observe.poseidon import PATH, PoseidonWatch
from tests.observe.receivers import Receiver, receiving
from tests.observe.test_drift import ROW

GOOD = {"10": {"id": 10, "prewarmingPoolSize": 3, "idleRunners": 3, "usedRunners": 1}}


class Asking:
    """A watch at work, and what it noted."""

    def __init__(self, address: str, **settings: object) -> None:
        self.notes: list[tuple[str, str]] = []
        self.rows: dict[str, EnvironmentRow] | None = {"10": ROW}
        checked = PoseidonSettings.model_validate({"address": address, "interval": "20ms", **settings})
        self.watch = PoseidonWatch(
            checked, lambda: self.rows, lambda *note: self.notes.append(note), clock=lambda: 77.0
        )
        self.task = asyncio.create_task(self.watch.run())

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                assert not self.task.done()
                await asyncio.sleep(0.01)


@asynccontextmanager
async def asking(address: str, **settings: object) -> AsyncIterator[Asking]:
    made = Asking(address, **settings)
    try:
        yield made
    finally:
        made.task.cancel()
        await asyncio.gather(made.task, return_exceptions=True)


@pytest.fixture
async def poseidon() -> AsyncIterator[Receiver]:
    async with receiving() as made:
        made.url = made.url.removesuffix("/hook/s3cr3t")
        yield made


def always(poseidon: Receiver, answer: Callable[[], web.Response]) -> None:
    async def respond() -> web.Response:
        poseidon.answers.append(respond)
        return answer()

    poseidon.answers.append(respond)


async def test_its_statistics_are_compared_with_the_truth(poseidon: Receiver) -> None:
    always(poseidon, lambda: web.json_response(GOOD))
    async with asking(poseidon.url) as at_work:
        await at_work.until(lambda: at_work.watch.view.at is not None)

    view = at_work.watch.view
    assert (view.at, view.problem) == (77.0, None)
    assert view.environments["10"].believed == Statistics(10, 3, 3, 1)
    assert set(poseidon.paths) == {PATH}
    assert at_work.notes == []


async def test_its_token_is_read_again_each_time(poseidon: Receiver, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    always(poseidon, lambda: web.json_response(GOOD))
    async with asking(poseidon.url, token_file=token) as at_work:
        await poseidon.wait_for(1)
        token.write_text("second\n")
        await at_work.until(lambda: poseidon.requests[-1][0].get("Poseidon-Token") == "second")

    assert poseidon.requests[0][0]["Poseidon-Token"] == "first"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (lambda: web.Response(status=500), "answers 500"),
        (lambda: web.Response(status=401), "answers 401: it wants another token (poseidon.token_file)"),
        (lambda: web.Response(status=404, text="<html>"), "answers 404: is this Poseidon?"),
        (lambda: web.Response(status=302, headers={"Location": "/elsewhere"}), "answers 302"),
        (lambda: web.Response(text="{"), "its answer is no statistics of execution environments"),
        (lambda: web.Response(body=b"\xff"), "its answer is no statistics of execution environments"),
        (lambda: web.json_response([]), "its answer is no statistics of execution environments"),
        (lambda: web.json_response({"ten": GOOD["10"]}), "its answer is no statistics of execution environments"),
        (lambda: web.json_response({"10": {"id": "10"}}), "its answer is no statistics of execution environments"),
        (lambda: web.Response(body=b" " * 1001), "its answer is longer than 1000 bytes"),
    ],
)
async def test_an_answer_that_cannot_be_used_is_told_once(
    poseidon: Receiver, monkeypatch: pytest.MonkeyPatch, answer: Callable[[], web.Response], problem: str
) -> None:
    monkeypatch.setattr(module, "_MAX_ANSWER_BYTES", 1000)
    always(poseidon, answer)
    async with asking(poseidon.url) as at_work:
        await poseidon.wait_for(4)
        await at_work.until(lambda: at_work.watch.view.problem is not None)

    assert at_work.notes == [("poseidon-unreachable", problem)]
    assert at_work.watch.view.problem == problem
    assert "/elsewhere" not in poseidon.paths


async def test_a_poseidon_that_hangs_and_comes_back_is_told_twice(
    poseidon: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_TIMEOUT_S", 0.2)

    async def hang() -> web.Response:
        always(poseidon, lambda: web.json_response(GOOD))
        await asyncio.sleep(30)
        return web.Response()

    poseidon.answers.append(hang)
    async with asking(poseidon.url) as at_work:
        await at_work.until(lambda: at_work.watch.view.at is not None)

    assert at_work.notes == [
        ("poseidon-unreachable", "no answer within 0.2 s"),
        ("poseidon-reachable", "1 environment"),
    ]


async def test_nobody_there_and_no_token_are_problems_too(tmp_path: Path) -> None:
    async with asking("http://127.0.0.1:1") as at_work:
        await at_work.until(lambda: bool(at_work.notes))
    assert at_work.notes[0][1].startswith("cannot be reached: ")

    async with asking("http://127.0.0.1:1", token_file=tmp_path / "missing") as at_work:
        await at_work.until(lambda: bool(at_work.notes))
    assert at_work.notes == [("poseidon-unreachable", "token_file: no such file or directory")]


async def test_while_nobody_knows_the_truth_nothing_is_compared(poseidon: Receiver) -> None:
    always(poseidon, lambda: web.json_response(GOOD))
    async with asking(poseidon.url) as at_work:
        at_work.rows = None
        await poseidon.wait_for(3)
        assert at_work.watch.view.at is None
        at_work.rows = {"10": ROW}
        await at_work.until(lambda: at_work.watch.view.at is not None)


async def test_what_we_create_is_awaited_and_found_adopted(poseidon: Receiver) -> None:
    always(poseidon, lambda: web.json_response(GOOD))
    async with asking(poseidon.url) as at_work:
        action = Action(1.0, "create-runner", "10", "10-new", "short")
        at_work.watch.acted(action, ActionOutcome("not-done", "403"))
        await at_work.until(lambda: at_work.watch.view.at is not None)
        assert at_work.watch.view.environments["10"].waiting == 0
        at_work.watch.acted(action, ActionOutcome("done", "registered"))
        await at_work.until(lambda: at_work.watch.view.environments["10"].waiting == 1)
