"""Notifications to one receiver: gathered, signed, sent again where that helps, and never in anybody's way.

Receivers are slow, away, or refuse. So notices wait in a bounded queue from which a task of its own sends them; what is
dropped there is counted, and the next batch tells of it. The same notice may arrive twice, always under the same id.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import urlsplit

import aiohttp
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from poseidon_reconciler.config.checks import read_token_file
from poseidon_reconciler.config.observing import WebhookSettings
from poseidon_reconciler.observe.cloud_events import (
    CONTENT_TYPE,
    SIGNATURE_HEADER,
    batch_of,
    cloud_event,
    dropped_event,
    signature,
)
from poseidon_reconciler.observe.notices import Notice
from poseidon_reconciler.observe.outgoing import FAILURES, new_session, why_no_answer

# Other answers of these hundreds say that the same again would be refused again.
_WORTH_ANOTHER_TRY: Final = frozenset({408, 425, 429})


@dataclass(frozen=True, slots=True)
class WebhookLimits:
    """Bounds of one receiver; durations in seconds.

    Attributes:
        gather_s: between a notice and the batch that has it, so that a storm is one request.
        timeout_s: for a whole request and its answer.
        attempts: how often a batch is sent before it is given up.
        first_wait_s, longest_wait_s: bounds of the waits between attempts; `Retry-After` may ask for up to the longest.
        farewell_s: for what is left when everything ends.
    """

    gather_s: float = 10.0
    max_batch: int = 100
    max_queued: int = 1000
    timeout_s: float = 10.0
    attempts: int = 8
    first_wait_s: float = 2.0
    longest_wait_s: float = 120.0
    farewell_s: float = 3.0


DEFAULT_LIMITS: Final = WebhookLimits()


class _NotTakenError(Exception):
    """The receiver did not take a batch, and may later. `retry_after_s`: how long it wants to be left alone."""

    def __init__(self, reason: str, retry_after_s: float = 0.0) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


class _RefusedError(Exception):
    """The receiver will not take this batch, however often it is sent."""


class Webhook:
    """One receiver.

    Attributes:
        dropped: how many notices were given up and not told of yet.
    """

    def __init__(
        self,
        name: str,
        settings: WebhookSettings,
        source: str,
        note: Callable[[str, str], None],
        *,
        limits: WebhookLimits = DEFAULT_LIMITS,
    ) -> None:
        """`note` is told when the receiver begins or ceases to take what it is sent, and what is given up."""
        self.dropped = 0
        self._shown = f"{name} ({urlsplit(settings.url).hostname})"
        self._settings = settings
        self._source = source
        self._note = note
        self._limits = limits
        self._queue: deque[Notice] = deque()
        self._under_way: list[Notice] = []
        # How many dropped ones the batch under way tells of.
        self._told_dropped = 0
        self._some = asyncio.Event()
        self._problem: str | None = None

    def offer(self, notice: Notice) -> None:
        """Queues a notice if it is wanted; the oldest makes room where there is none."""
        if notice.kind not in self._settings.notices:
            return
        if len(self._queue) >= self._limits.max_queued:
            self._queue.popleft()
            self.dropped += 1
        self._queue.append(notice)
        self._some.set()

    async def run(self) -> None:
        """Sends what is queued until it is cancelled; then once more what is left, in bounded time."""
        limits = self._limits
        async with new_session(limits.timeout_s, {"Content-Type": CONTENT_TYPE}) as session:
            try:
                while True:
                    await self._some.wait()
                    await asyncio.sleep(limits.gather_s)
                    await self._send(session)
            except asyncio.CancelledError:
                await self._say_farewell(session)
                raise

    async def _send(self, session: aiohttp.ClientSession) -> None:
        """Sends one batch, again and again if need be."""
        body = self._take_batch()
        try:
            async for attempt in self._attempts():
                with attempt:
                    await self._post(session, body)
        except (_NotTakenError, _RefusedError) as error:
            self._give_up(str(error))
        else:
            self._delivered()

    def _take_batch(self) -> bytes:
        """The next batch, which is under way from now on."""
        self._under_way = [self._queue.popleft() for _ in range(min(len(self._queue), self._limits.max_batch))]
        if not self._queue:
            self._some.clear()
        events = [cloud_event(notice, self._source) for notice in self._under_way]
        self._told_dropped = self.dropped
        if self.dropped:
            events.append(dropped_event(self.dropped, self._source, time.time()))
        return batch_of(events)

    def _attempts(self) -> AsyncRetrying:
        limits = self._limits
        spread = wait_random_exponential(multiplier=limits.first_wait_s, max=limits.longest_wait_s)

        def wait(state: RetryCallState) -> float:
            error = state.outcome.exception() if state.outcome is not None else None
            assert isinstance(error, _NotTakenError)
            self._failing(str(error))
            return max(spread(state), min(error.retry_after_s, limits.longest_wait_s))

        return AsyncRetrying(
            stop=stop_after_attempt(limits.attempts),
            wait=wait,
            retry=retry_if_exception_type(_NotTakenError),
            reraise=True,
        )

    async def _post(self, session: aiohttp.ClientSession, body: bytes) -> None:
        """One attempt.

        Raises:
            _NotTakenError: there is use in another one.
            _RefusedError: there is none.
        """
        try:
            headers = await self._signed(body)
            async with session.post(self._settings.url, data=body, headers=headers, allow_redirects=False) as answer:
                status, retry_after = answer.status, answer.headers.get("Retry-After", "")
        except FAILURES as error:
            raise _NotTakenError(why_no_answer(error, session)) from None
        except ValueError as error:
            raise _NotTakenError(f"secret_file: {error}") from None
        if 200 <= status < 300:
            return
        if status >= 500 or status in _WORTH_ANOTHER_TRY:
            raise _NotTakenError(f"answers {status}", _seconds_of(retry_after))
        redirected = ", a redirect, which is not followed" if 300 <= status < 400 else ""
        raise _RefusedError(f"answers {status}{redirected}")

    async def _signed(self, body: bytes) -> dict[str, str]:
        if self._settings.secret_file is None:
            return {}
        secret = await asyncio.to_thread(read_token_file, self._settings.secret_file)
        return {SIGNATURE_HEADER: signature(secret.get_secret_value().encode(), body, time.time())}

    # --- what became of it ---------------------------------------------------------------------------------------

    def _delivered(self) -> None:
        self._under_way = []
        self.dropped -= self._told_dropped
        if self._problem is not None:
            self._problem = None
            self._note("webhook-back", f"{self._shown} takes notifications again")

    def _failing(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            self._note("webhook-failing", f"{self._shown}: {problem}")

    def _give_up(self, problem: str) -> None:
        self._failing(problem)
        self._note("webhook-dropped", f"{self._shown}: {len(self._under_way)} notifications were not delivered")
        self.dropped += len(self._under_way)
        self._under_way = []

    async def _say_farewell(self, session: aiohttp.ClientSession) -> None:
        """One attempt with all that is left; what was under way may arrive twice, under the same ids."""
        self._queue.extendleft(reversed(self._under_way))
        if not self._queue:
            return
        try:
            async with asyncio.timeout(self._limits.farewell_s):
                while self._queue:
                    await self._post(session, self._take_batch())
                    self._delivered()
        except (_NotTakenError, _RefusedError, TimeoutError):
            left = len(self._under_way) + len(self._queue)
            self._note("webhook-dropped", f"{self._shown}: {left} notifications were not delivered before the end")


def _seconds_of(retry_after: str) -> float:
    """How long `Retry-After` asks to wait, in seconds or until a date."""
    if retry_after.isascii() and retry_after.isdecimal():
        return float(retry_after[:9])
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (ValueError, OverflowError):
        return 0.0
