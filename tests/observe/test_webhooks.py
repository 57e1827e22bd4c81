"""A receiver that is slow, away, refuses or redirects: what it gets, and that nobody waits for it."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from poseidon_reconciler.config.observing import WebhookSettings
from poseidon_reconciler.observe.notices import Notice
from poseidon_reconciler.observe.webhooks import Webhook, WebhookLimits, _seconds_of
from tests.observe.receivers import Receiver, receiving

QUICK = WebhookLimits(
    gather_s=0.02, timeout_s=5.0, attempts=3, first_wait_s=0.01, longest_wait_s=0.5, farewell_s=3.0, max_queued=5
)


def notice(number: int = 0, kind: str = "loss") -> Notice:
    data = {"environment_id": "10", "job_id": f"10-{number}"}
    return Notice(kind, f"id-{number}", 1796061984.91, f"jobs/10-{number}", "lost", data)  # type: ignore[arg-type]


class Sending:
    """A webhook at work, and what it noted."""

    def __init__(self, url: str, limits: WebhookLimits, **settings: str | Path) -> None:
        self.notes: list[tuple[str, str]] = []
        checked = WebhookSettings.model_validate({"url": url, **settings})
        self.hook = Webhook("on_call", checked, "here", lambda *note: self.notes.append(note), limits=limits)
        self.task = asyncio.create_task(self.hook.run())

    async def until_noted(self, name: str) -> None:
        async with asyncio.timeout(10):
            while name not in [event for event, _ in self.notes]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def until_idle(self) -> None:
        """Until nothing is queued and no answer is waited for."""
        async with asyncio.timeout(10):
            while self.hook._queue or self.hook._under_way:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@asynccontextmanager
async def sending(url: str, limits: WebhookLimits = QUICK, **settings: str | Path) -> AsyncIterator[Sending]:
    made = Sending(url, limits, **settings)
    try:
        yield made
        assert not made.task.done() or made.task.cancelled()
    finally:
        await made.end()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as made:
        yield made


# --- what arrives -----------------------------------------------------------------------------------------------------


async def test_notices_arrive_as_a_batch_of_cloud_events(receiver: Receiver) -> None:
    async with sending(receiver.url) as at_work:
        at_work.hook.offer(notice(1))
        at_work.hook.offer(notice(2))
        await receiver.wait_for(1)
        await at_work.until_idle()

    (headers, _), (events,) = receiver.requests[0], receiver.batches
    assert headers["Content-Type"] == "application/cloudevents-batch+json"
    assert "Reconciler-Signature" not in headers
    assert [event["id"] for event in events] == ["id-1", "id-2"]
    assert events[0] == {
        "specversion": "1.0",
        "id": "id-1",
        "source": "here",
        "type": "org.poseidon-reconciler.loss",
        "subject": "jobs/10-1",
        "time": "2026-11-30T18:06:24.910Z",
        "datacontenttype": "application/json",
        "data": {"text": "lost", "environment_id": "10", "job_id": "10-1"},
    }
    assert at_work.notes == []


async def test_only_what_is_wanted_is_sent(receiver: Receiver) -> None:
    async with sending(receiver.url, events="hold, poison") as at_work:
        for number, kind in enumerate(("loss", "hold", "pool-back", "poison")):
            at_work.hook.offer(notice(number, kind))
        await receiver.wait_for(1)
        await at_work.until_idle()

    assert receiver.kinds() == [["hold", "poison"]]


async def test_a_batch_is_signed_with_the_key_as_it_is_now(receiver: Receiver, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    async with sending(receiver.url, secret_file=secret) as at_work:
        for number, key in enumerate(("first", "second")):
            secret.write_text(f"{key}\n")
            at_work.hook.offer(notice(number))
            await receiver.wait_for(number + 1)
            await asyncio.sleep(0.05)

    for secret_key, (headers, body) in zip((b"first", b"second"), receiver.requests, strict=True):
        at, digest = (part.split("=")[1] for part in headers["Reconciler-Signature"].split(","))
        assert digest == hmac.new(secret_key, at.encode() + b"." + body, hashlib.sha256).hexdigest()
        assert abs(time.time() - int(at)) < 60


async def test_without_its_key_nothing_is_sent(receiver: Receiver, tmp_path: Path) -> None:
    async with sending(receiver.url, secret_file=tmp_path / "missing") as at_work:
        at_work.hook.offer(notice())
        await at_work.until_noted("webhook-dropped")

    assert receiver.requests == []
    assert at_work.notes[0] == ("webhook-failing", "on_call (127.0.0.1): secret_file: no such file or directory")


async def test_other_peoples_text_is_harmless(receiver: Receiver) -> None:
    hostile = Notice("hold", "id", 1.0, "environments/10", "\x1b[2J", {"reason": "a\nb\ud800" + "x" * 5000})
    async with sending(receiver.url) as at_work:
        at_work.hook.offer(hostile)
        await receiver.wait_for(1)
        await at_work.until_idle()

    data = receiver.batches[0][0]["data"]
    assert data["text"] == "\\x1b[2J"
    assert data["reason"].startswith("a\\nb\\ud800xxx")
    assert len(data["reason"]) < 1100


# --- receivers that do not take it ------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [500, 503, 429, 408])
async def test_what_may_help_is_tried_again_with_the_same_ids(receiver: Receiver, status: int) -> None:
    receiver.answers = [status, status]
    async with sending(receiver.url) as at_work:
        at_work.hook.offer(notice(1))
        await receiver.wait_for(3)
        await at_work.until_noted("webhook-back")

    assert [batch[0]["id"] for batch in receiver.batches] == ["id-1"] * 3
    assert at_work.notes == [
        ("webhook-failing", f"on_call (127.0.0.1): answers {status}"),
        ("webhook-back", "on_call (127.0.0.1) takes notifications again"),
    ]


@pytest.mark.parametrize("status", [400, 401, 404, 410, 422])
async def test_what_does_not_help_is_not_tried_again(receiver: Receiver, status: int) -> None:
    receiver.answers = [status]
    async with sending(receiver.url) as at_work:
        at_work.hook.offer(notice(1))
        await at_work.until_noted("webhook-dropped")
        at_work.hook.offer(notice(2))
        await receiver.wait_for(2)
        await at_work.until_idle()

    assert [batch[0]["id"] for batch in receiver.batches] == ["id-1", "id-2"]
    assert receiver.kinds()[1] == ["loss", "dropped"]


async def test_a_redirect_is_not_followed(receiver: Receiver) -> None:
    receiver.answers = [web.Response(status=307, headers={"Location": "/elsewhere"})]
    async with sending(receiver.url) as at_work:
        at_work.hook.offer(notice())
        await at_work.until_noted("webhook-dropped")

    assert receiver.paths == ["/hook/s3cr3t"]
    assert at_work.notes[0][1].endswith("answers 307, a redirect, which is not followed")


async def test_the_wait_that_the_receiver_asks_for_is_kept(receiver: Receiver) -> None:
    receiver.answers = [web.Response(status=429, headers={"Retry-After": "1"})]
    limits = WebhookLimits(gather_s=0.0, first_wait_s=0.001, longest_wait_s=2.0)
    async with sending(receiver.url, limits) as at_work:
        at_work.hook.offer(notice())
        await receiver.wait_for(1)
        began = time.monotonic()
        await receiver.wait_for(2)

    assert time.monotonic() - began >= 0.95


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("", 0.0),
        ("7", 7.0),
        ("soon", 0.0),
        ("-3", 0.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("9" * 400, 999999999.0),
    ],
)
def test_whatever_retry_after_says(text: str, seconds: float) -> None:
    assert _seconds_of(text) == seconds


async def test_given_up_notices_are_told_of_in_the_next_batch(receiver: Receiver) -> None:
    receiver.answers = [500] * QUICK.attempts
    async with sending(receiver.url) as at_work:
        at_work.hook.offer(notice(1))
        at_work.hook.offer(notice(2))
        await at_work.until_noted("webhook-dropped")
        at_work.hook.offer(notice(3))
        await receiver.wait_for(QUICK.attempts + 1)
        await at_work.until_noted("webhook-back")

    last = receiver.batches[-1]
    assert [event["type"].rpartition(".")[2] for event in last] == ["loss", "dropped"]
    assert last[1]["data"]["count"] == 2
    assert at_work.hook.dropped == 0


async def test_the_oldest_makes_room(receiver: Receiver) -> None:
    async with sending(receiver.url) as at_work:
        for number in range(8):
            at_work.hook.offer(notice(number))
        await receiver.wait_for(1)
        await at_work.until_idle()

    batch = receiver.batches[0]
    assert [event["id"] for event in batch[:-1]] == [f"id-{number}" for number in range(3, 8)]
    assert batch[-1]["data"]["count"] == 3


async def test_a_long_queue_is_sent_in_several_batches(receiver: Receiver) -> None:
    limits = WebhookLimits(gather_s=0.0, max_batch=2)
    async with sending(receiver.url, limits) as at_work:
        for number in range(5):
            at_work.hook.offer(notice(number))
        await receiver.wait_for(3)
        await at_work.until_idle()

    assert [len(batch) for batch in receiver.batches] == [2, 2, 1]


async def test_nobody_there_is_told_once(receiver: Receiver) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    async with sending(f"http://127.0.0.1:{port}/hook/s3cr3t") as at_work:
        for number in range(2):
            at_work.hook.offer(notice(number))
            await at_work.until_noted("webhook-dropped")

    names = [event for event, _ in at_work.notes]
    assert names.count("webhook-failing") == 1
    assert at_work.notes[0][1].startswith("on_call (127.0.0.1): cannot be reached: ")
    assert "s3cr3t" not in str(at_work.notes)


async def _never() -> web.Response:
    await asyncio.sleep(30)
    return web.Response()


async def test_a_receiver_that_hangs_is_given_up_in_time(receiver: Receiver) -> None:
    receiver.answers = [_never]
    limits = WebhookLimits(gather_s=0.0, timeout_s=0.3, first_wait_s=0.01)
    async with sending(receiver.url, limits) as at_work:
        at_work.hook.offer(notice())
        await receiver.wait_for(2)

    assert at_work.notes[0] == ("webhook-failing", "on_call (127.0.0.1): no answer within 0.3 s")


# --- the end ----------------------------------------------------------------------------------------------------------


async def test_at_the_end_what_is_left_is_sent(receiver: Receiver) -> None:
    async with sending(receiver.url, WebhookLimits()) as at_work:
        at_work.hook.offer(notice(1))
        await asyncio.sleep(0.05)
        await at_work.end()

    assert receiver.kinds() == [["loss"]]


async def test_the_end_does_not_wait_for_a_receiver_that_hangs(receiver: Receiver) -> None:
    receiver.answers = [_never, _never]
    limits = WebhookLimits(gather_s=0.0, farewell_s=0.2)
    async with sending(receiver.url, limits) as at_work:
        at_work.hook.offer(notice(1))
        await receiver.wait_for(1)
        began = time.monotonic()
        await at_work.end()

    assert time.monotonic() - began < 10.0
    assert at_work.notes[-1][0] == "webhook-dropped"
