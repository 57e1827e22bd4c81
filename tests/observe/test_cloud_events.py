"""What a receiver sees is what `docs/notifications.md` says, its example of a check included."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from poseidon_reconciler.config.observing import NOTICES
from poseidon_reconciler.core.diagnosis import Change, Verdict
from poseidon_reconciler.core.holds import Hold
from poseidon_reconciler.core.records import Job
from poseidon_reconciler.observe.cloud_events import batch_of, cloud_event, dropped_event, signature
from poseidon_reconciler.observe.notices import Notice, NoticeWatch
from tests.observe.test_notices import loss, pool, runner

PAGE = (Path(__file__).parents[2] / "docs" / "notifications.md").read_text()
KEY = b"s3cr3t"


@pytest.fixture(scope="module")
def is_genuine() -> Callable[..., bool]:
    """The page's own example."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - our own page
    check: Callable[..., bool] = names["is_genuine"]
    return check


def test_the_example_accepts_what_we_sign(is_genuine: Callable[..., bool]) -> None:
    body = batch_of([dropped_event(3, "here", time.time())])

    assert is_genuine(signature(KEY, body, time.time()), body, KEY)


@pytest.mark.parametrize(
    "change",
    [
        lambda header, body, key: (header, body + b" ", key),
        lambda header, body, key: (header, body, b"other"),
        lambda header, body, key: (header.replace("t=", "t=1"), body, key),
        lambda header, body, key: ("", body, key),
        lambda header, body, key: ("t=,v1=", body, key),
        lambda header, body, key: (signature(key, body, time.time() - 400), body, key),
    ],
)
def test_the_example_refuses_everything_else(is_genuine: Callable[..., bool], change: Any) -> None:
    body = b"[]"

    assert not is_genuine(*change(signature(KEY, body, time.time()), body, KEY))


def told() -> dict[str, Notice]:
    """A notice of each kind."""
    watch = NoticeWatch()
    notices = watch.stepped(loss(runner()))
    poisoned = Hold("10", "poisoned", "new runners fail: no such image", None, None, "one has run")
    paused = Hold("11", "paused", "paused: agents are upgraded", None, 300.0, "it expires")
    for at in (0, 10, 20, 60):
        notices += watch.look(pool(0), [poisoned], float(at))
    notices += watch.look(pool(0), [paused], 100.0)
    notices += watch.look(pool(3), [paused], 160.0)
    notices += watch.look(pool(3), [Hold(None, "storm", "storm: many", None, 300.0, "it is over")], 170.0)
    return {notice.kind: notice for notice in notices}


def test_there_are_as_many_kinds_as_can_be_asked_for() -> None:
    assert set(told()) == set(NOTICES)


@pytest.mark.parametrize("kind", NOTICES)
def test_what_an_event_has_in_it_stands_on_the_page(kind: str) -> None:
    event = cloud_event(told()[kind], "here")
    rows = re.findall(r"^\| (`.*?) \| (.*) \|$", PAGE.partition("in `data` |")[2].partition("##")[0], re.MULTILINE)
    fields = next(fields for kinds, fields in rows if f"`{kind}`" in kinds)
    named = set(re.findall(r"`(\w+)`", fields)) - {"runner", "environment"}

    assert named <= event["data"].keys()
    if kind != "pool-empty":
        assert event["data"].keys() == named | {"text"}


@pytest.mark.parametrize("number", [0, 1])
def test_the_examples_are_what_is_sent(number: int) -> None:
    (examples,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    example = json.loads(examples)[number]
    kind = example["type"].removeprefix("org.poseidon-reconciler.")
    event = json.loads(batch_of([cloud_event(told()[kind], "here")]))[0]

    assert event.keys() == example.keys()
    assert list(event["data"]) == list(example["data"])
    assert [type(value) for value in event["data"].values()] == [type(value) for value in example["data"].values()]


def test_an_environment_of_its_own_is_told_as_what_it_is() -> None:
    job = Job("template-10", "environment", "10", create_index=1, job_modify_index=2)
    verdict = Verdict("lost", "stuck-complete", "stuck-complete", 0.0, None, False, False)
    (notice,) = NoticeWatch().stepped(loss(runner())._replace(changes=[Change(job, None, verdict)]))

    assert notice.data["kind"] == "environment"
    assert notice.text == "environment 10: the environment's own job is lost: template-10, stuck-complete"
