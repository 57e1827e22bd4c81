"""Asks the Poseidon beside us for its statistics, and nothing else.

Only this address of its API is safe to ask again and again: `GET /execution-environments?fetch=true` makes it drop
what it holds. A Poseidon that is away, slow or another program entirely costs one message and no more.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import Final

import aiohttp
import msgspec

from poseidon_reconciler.config.checks import read_token_file
from poseidon_reconciler.config.observing import PoseidonSettings
from poseidon_reconciler.core.ledger import Action, ActionOutcome
from poseidon_reconciler.core.reconciler import Step
from poseidon_reconciler.core.status import EnvironmentRow
from poseidon_reconciler.core.wording import counted
from poseidon_reconciler.observe.drift import DriftWatch, PoseidonView, Statistics
from poseidon_reconciler.observe.outgoing import FAILURES, new_session, why_no_answer

PATH: Final = "/api/v1/statistics/execution-environments"
TOKEN_HEADER: Final = "Poseidon-Token"  # noqa: S105 - the name of a header
_TIMEOUT_S: Final = 10.0
_MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024
_JITTER: Final = 0.1
_decode = msgspec.json.Decoder(dict[int, Statistics]).decode


class PoseidonError(Exception):
    """Poseidon did not tell its statistics; one line that says why."""


class PoseidonWatch:
    """Follows what Poseidon believes. An observer of a reconciler, too: it must know what that one created.

    Attributes:
        view: the latest comparison, replaced as a whole each time.
    """

    def __init__(
        self,
        settings: PoseidonSettings,
        truth: Callable[[], Mapping[str, EnvironmentRow] | None],
        note: Callable[[str, str], None],
        *,
        clock: Callable[[], float],
        speed: float = 1.0,
    ) -> None:
        """`truth` tells how the environments stand, None while nobody knows; `note` is told what is worth it; `clock`
        goes `speed` times as fast as the machine's.
        """
        self._settings = settings
        self._truth = truth
        self._note = note
        self._clock = clock
        self._speed = speed
        self._drift = DriftWatch()

    @property
    def view(self) -> PoseidonView:
        return self._drift.view

    # --- what we do ----------------------------------------------------------------------------------------------

    def stepped(self, step: Step) -> None:
        for change in step.changes:
            self._drift.changed(change.job.environment_id, change.job.id, change.verdict.state)

    def acted(self, action: Action, outcome: ActionOutcome) -> None:
        if action.kind == "create-runner" and outcome.result == "done":
            self._drift.created(action.environment_id, action.job_id)

    def noted(self, event: str, detail: str) -> None:
        """What else goes on is of no interest here."""

    # --- what Poseidon says --------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Asks again and again until it is cancelled."""
        async with new_session(_TIMEOUT_S) as session:
            while True:
                await self._ask(session)
                wait_s = self._settings.interval_s * random.uniform(1 - _JITTER, 1 + _JITTER)
                await asyncio.sleep(wait_s / self._speed)

    async def _ask(self, session: aiohttp.ClientSession) -> None:
        before = self.view.problem
        try:
            statistics = await read_statistics(session, self._settings)
        except PoseidonError as error:
            self._drift.failed(str(error))
            if str(error) != before:
                self._note("poseidon-unreachable", str(error))
            return
        truth = self._truth()
        if truth is None:
            return
        for told in self._drift.answered(statistics, truth, self._clock()):
            self._note(told.event, told.detail)
        if before is not None:
            self._note("poseidon-reachable", f"{counted(len(statistics), 'environment')}")


async def read_statistics(session: aiohttp.ClientSession, settings: PoseidonSettings) -> dict[str, Statistics]:
    """What Poseidon tells of its environments when it is asked once, by id.

    Raises:
        PoseidonError: there was no answer, or none that can be used.
    """
    try:
        headers = await _headers(settings)
        async with session.get(f"{settings.address}{PATH}", headers=headers, allow_redirects=False) as answer:
            if answer.status != 200:
                raise PoseidonError(f"answers {answer.status}{_HINTS.get(answer.status, '')}")
            body = await _read_bounded(answer.content)
    except FAILURES as error:
        raise PoseidonError(why_no_answer(error, session)) from None
    except ValueError as error:
        raise PoseidonError(f"token_file: {error}") from None
    try:
        return {str(id_): statistics for id_, statistics in _decode(body).items()}
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise PoseidonError("its answer is no statistics of execution environments") from None


async def _headers(settings: PoseidonSettings) -> dict[str, str]:
    if settings.token_file is None:
        return {}
    token = await asyncio.to_thread(read_token_file, settings.token_file)
    return {TOKEN_HEADER: token.get_secret_value()}


_HINTS: Final = {
    401: ": it wants another token (poseidon.token_file)",
    404: ": is this Poseidon?",
}


async def _read_bounded(content: aiohttp.StreamReader) -> bytes:
    pieces, size = [], 0
    async for piece in content.iter_any():
        pieces.append(piece)
        size += len(piece)
        if size > _MAX_ANSWER_BYTES:
            raise PoseidonError(f"its answer is longer than {_MAX_ANSWER_BYTES} bytes")
    return b"".join(pieces)
