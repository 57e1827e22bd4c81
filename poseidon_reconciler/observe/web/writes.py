"""Pausing and resuming over HTTP: the only thing that is changed from here, by those who have the token."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final, TypeVar

import msgspec
from aiohttp import web
from msgspec import UNSET, Meta, Struct, UnsetType

from poseidon_reconciler.config.given import did_you_mean
from poseidon_reconciler.core.documents import iso
from poseidon_reconciler.core.pauses import Pause
from poseidon_reconciler.observe.web.guard import refusal, refuse_stranger
from poseidon_reconciler.observe.web.reads import json_answer
from poseidon_reconciler.observe.web.source import Pausing, Source
from poseidon_reconciler.policy import parse_duration, parse_instant

MAX_BODY_BYTES: Final = 8 << 10
_BODY_TIMEOUT_S: Final = 5.0
_MAX_PAUSES: Final = 1000
_UNKNOWN_FIELD: Final = re.compile("unknown field `(.*)`", re.DOTALL)
_DURATION: Final = re.compile(r"([0-9]{1,3}h)?([0-9]{1,5}m)?([0-9]{1,6}s)?")

EnvironmentId = Annotated[str, Meta(pattern="^(0|[1-9][0-9]{0,18})$")]


class PauseRequest(Struct, frozen=True, forbid_unknown_fields=True, rename={"for_": "for"}):
    """Leave an environment (None: everything) alone, for a while, until a time, or until somebody resumes."""

    reason: Annotated[str, Meta(min_length=1, max_length=200, pattern=r"\S")]
    environment_id: EnvironmentId | None = None
    for_: Annotated[str, Meta(max_length=20)] | UnsetType = UNSET
    until: Annotated[str, Meta(max_length=40)] | UnsetType = UNSET


class ResumeRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """End the pause of an environment, or (None) the one of everything."""

    environment_id: EnvironmentId | None = None


Body = TypeVar("Body", PauseRequest, ResumeRequest)


class _RefusedError(Exception):
    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Writes:
    """The handlers."""

    def __init__(
        self, source: Source, pausing: Pausing, token_file: Path | None, *, on_change: Callable[[], None]
    ) -> None:
        self._source = source
        self._pausing = pausing
        self._on_change = on_change
        self._token_file = token_file

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/v1/pause", self._pause), web.post("/v1/resume", self._resume)]

    async def _pause(self, request: web.Request) -> web.Response:
        refused = await refuse_stranger(request, self._token_file)
        if refused is not None:
            return refused
        try:
            body = await _body(request, PauseRequest)
            self._check_environment(body.environment_id)
            now = self._source.clock()
            until = _end(body, now)
            if len(self._source.core.planner.pauses.current(now)) >= _MAX_PAUSES:
                raise _RefusedError(409, f"there are {_MAX_PAUSES} pauses already")
        except _RefusedError as error:
            return refusal(error.status, str(error))
        kept = self._pausing.pause(Pause(body.environment_id, body.reason, now, until))
        self._on_change()
        return json_answer(
            {
                "paused": True,
                "environment_id": body.environment_id,
                "until": iso(until),
                "kept": kept,
                "text": f"paused {_how_long(until, kept=kept)}",
            }
        )

    async def _resume(self, request: web.Request) -> web.Response:
        refused = await refuse_stranger(request, self._token_file)
        if refused is not None:
            return refused
        try:
            body = await _body(request, ResumeRequest)
            self._check_environment(body.environment_id)
        except _RefusedError as error:
            return refusal(error.status, str(error))
        id_ = body.environment_id
        kept = self._pausing.resume(id_)
        self._on_change()
        still = self._still(id_)
        text = f"still paused {still}" if still else "resumed"
        return json_answer({"paused": bool(still), "environment_id": id_, "until": None, "kept": kept, "text": text})

    def _still(self, environment_id: str | None) -> str | None:
        """By what it stays paused once the pause that was set for it is lifted, and how that one ends; None if it does
        not.
        """
        now, pauses = self._source.clock(), self._source.core.planner.pauses
        configured = pauses.configured_for(environment_id, now)
        if configured is not None:
            of = configured.environment_id
            key = "pool.pause" if of is None else f"environments.{of}.pause"
            return f"by the configuration ({key}: {configured.reason}): take it out and reload"
        if environment_id is None:
            return None
        whole = next((pause for pause in pauses.current(now) if pause.environment_id is None), None)
        return f"as everything is ({whole.reason}): resume without an environment_id" if whole is not None else None

    def _check_environment(self, environment_id: str | None) -> None:
        """Refuses what is a slip of the finger: a pause of an environment that is not there would pause nothing."""
        known = self._source.core.diagnosis.pools
        if environment_id is not None and self._source.is_synced() and environment_id not in known:
            raise _RefusedError(404, f"there is no environment {environment_id}")


async def _body(request: web.Request, kind: type[Body]) -> Body:
    if request.content_type != "application/json":
        raise _RefusedError(415, "the body must be JSON, with the content type application/json")
    try:
        async with asyncio.timeout(_BODY_TIMEOUT_S):
            content = await request.read()
    except TimeoutError:
        raise _RefusedError(408, f"the body did not come within {_BODY_TIMEOUT_S:g} s") from None
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _RefusedError(400, f"the body is not understood: {error}{_hint(str(error), kind)}") from None


def _hint(error: str, kind: type[Body]) -> str:
    """What was meant by a field that nobody knows, or else which there are."""
    unknown = _UNKNOWN_FIELD.search(error)
    if unknown is None:
        return ""
    known = kind.__struct_encode_fields__
    return did_you_mean(unknown[1], known) or f" (known are {', '.join(known)})"


def _end(body: PauseRequest, now: float) -> float | None:
    """When the pause ends; None if only somebody ends it."""
    if body.for_ is not UNSET and body.until is not UNSET:
        raise _RefusedError(400, "give either for or until")
    try:
        if body.for_ is not UNSET:
            if not _DURATION.fullmatch(body.for_):
                raise ValueError(f"{body.for_!r} is not a duration such as 30m or 1h30m")
            until = now + parse_duration(body.for_)
        elif body.until is not UNSET:
            until = parse_instant(body.until)
        else:
            return None
    except (ValueError, OverflowError) as error:
        raise _RefusedError(400, str(error)) from None
    if until <= now:
        raise _RefusedError(409, "that pause would be over already")
    return until


def _how_long(until: float | None, *, kept: bool) -> str:
    end = f"until {iso(until)}" if until is not None else "until somebody resumes"
    return f"{end}, over a restart too" if kept else f"{end}, or until a restart: it is not kept"
