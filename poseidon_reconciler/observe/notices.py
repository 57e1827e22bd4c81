"""Which of all that happens is worth waking somebody for, and that it is said once.

Pure: steps, numbers and the time in, notices out. What lasts (a hold, an empty pool) is told when it has lasted for a
while, and not again before it has ended; a pool that was told of is told of once more when it is whole.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Final, Literal

from msgspec import Struct

from poseidon_reconciler.core.diagnosis import Change
from poseidon_reconciler.core.holds import Hold
from poseidon_reconciler.core.reconciler import Step
from poseidon_reconciler.core.status import EnvironmentRow
from poseidon_reconciler.policy import format_duration

NoticeKind = Literal["loss", "hold", "poison", "pool-empty", "pool-back"]
Value = str | int | float | bool | None

EMPTY_FOR_S: Final = 10.0
HELD_FOR_S: Final = 60.0
# A hold that is away for less than this between two looks has never been away.
_AWAY_S: Final = 30.0
_MAX_REMEMBERED: Final = 20_000
_NAMESPACE: Final = uuid.UUID("9b6f6d0e-6c2f-5a53-8d0b-0f5c0a1c7f11")
_TOLD_AT_ONCE: Final = frozenset({"storm", "poisoned"})
_NOT_KEPT: Final = frozenset({"stopped", "gone", "missing"})
_NUMBERS: Final = ("idle", "used", "starting", "recovering", "blocked", "disconnected", "leaving", "lost")


class Notice(Struct, frozen=True):
    """Something to be told. `id` is the same whenever and by whomever the same thing is told; `at` in seconds."""

    kind: NoticeKind
    id: str
    at: float
    subject: str
    text: str
    data: dict[str, Value]


class _Hold(Struct):
    since: float
    seen_at: float
    told: bool = False


class _Pool(Struct):
    """A pool that is below its target."""

    since: float
    seen_short: bool = False
    empty_since: float | None = None
    told: bool = False
    told_empty: bool = False


class NoticeWatch:
    """Remembers what was told and what may have to be."""

    def __init__(self) -> None:
        self._told: dict[str, None] = {}
        self._looked_at = 0.0
        self._holds: dict[tuple[str | None, str], _Hold] = {}
        self._pools: dict[str, _Pool] = {}

    def stepped(self, step: Step) -> list[Notice]:
        """The losses of a step."""
        if step.new_epoch:
            self._holds.clear()
            self._pools.clear()
        losses = [change for change in step.changes if _is_loss(change)]
        for change in losses:
            if change.job.kind == "runner" and not change.job.used:
                self._pool(change.job.environment_id, step.at).told = True
        return self._fresh(_loss(change, step.at) for change in losses)

    def look(self, rows: Mapping[str, EnvironmentRow], holds: Iterable[Hold], now: float) -> list[Notice]:
        """What is to be told at `now`, when the pools stand like this and these holds are in place."""
        if now - self._looked_at > _AWAY_S:
            # Nobody looked for a while: what was there before has not been away for that.
            for known in self._holds.values():
                known.seen_at = now
        self._looked_at = now
        notices = self._look_at_holds(holds, now)
        for environment_id in self._pools.keys() - rows.keys():
            del self._pools[environment_id]
        for environment_id, row in rows.items():
            notices += self._look_at_pool(environment_id, row, now)
        return self._fresh(notices)

    def _fresh(self, notices: Iterable[Notice]) -> list[Notice]:
        fresh = []
        for notice in notices:
            if notice.id not in self._told:
                self._told[notice.id] = None
                fresh.append(notice)
        while len(self._told) > _MAX_REMEMBERED:
            del self._told[next(iter(self._told))]
        return fresh

    # --- holds ---------------------------------------------------------------------------------------------------

    def _look_at_holds(self, holds: Iterable[Hold], now: float) -> list[Notice]:
        notices = []
        for hold in holds:
            key: tuple[str | None, str] = (hold.environment_id, hold.rule)
            known = self._holds.setdefault(key, _Hold(now, now))
            known.seen_at = now
            kind: NoticeKind = "poison" if hold.rule == "poisoned" else "hold"
            lasts = now - known.since >= HELD_FOR_S
            if not known.told and (lasts or hold.rule in _TOLD_AT_ONCE):
                known.told = True
                if hold.environment_id is not None and hold.environment_id in self._pools:
                    self._pools[hold.environment_id].told = True
                notices.append(_held(kind, hold, known.since, now))
        for key in [key for key, known in self._holds.items() if now - known.seen_at > _AWAY_S]:
            del self._holds[key]
        return notices

    # --- pools ---------------------------------------------------------------------------------------------------

    def _pool(self, environment_id: str, now: float) -> _Pool:
        return self._pools.setdefault(environment_id, _Pool(now))

    def _look_at_pool(self, environment_id: str, row: EnvironmentRow, now: float) -> list[Notice]:
        if not row.target or row.state in _NOT_KEPT:
            self._pools.pop(environment_id, None)
            return []
        if row.idle >= row.target:
            pool = self._pools.pop(environment_id, None)
            told = pool is not None and pool.told and pool.seen_short
            return [_back(environment_id, row, pool, now)] if pool is not None and told else []
        pool = self._pool(environment_id, now)
        pool.seen_short = True
        if row.idle:
            pool.empty_since = None
        elif pool.empty_since is None:
            pool.empty_since = now
        if pool.empty_since is None or now - pool.empty_since < EMPTY_FOR_S or pool.told_empty:
            return []
        pool.told = pool.told_empty = True
        return [_empty(environment_id, row, pool.empty_since, now)]


def _is_loss(change: Change) -> bool:
    return change.verdict.state == "lost" and (change.before is None or change.before.state != "lost")


# --- the notices ------------------------------------------------------------------------------------------------------


def _id(*parts: object) -> str:
    return str(uuid.uuid5(_NAMESPACE, "|".join(map(str, parts))))


def _subject(environment_id: str | None) -> str:
    return f"environments/{environment_id}" if environment_id is not None else "cluster"


def _loss(change: Change, at: float) -> Notice:
    job, verdict = change.job, change.verdict
    what = "the environment's own job" if job.kind == "environment" else "a used runner" if job.used else "a runner"
    data: dict[str, Value] = {
        "environment_id": job.environment_id,
        "job_id": job.id,
        "kind": job.kind,
        "used": job.used,
        "cause": verdict.cause,
        "rule": verdict.rule,
    }
    # One life of a job is lost once, whoever sees it and however often.
    id_ = _id("loss", job.id, job.create_index, job.job_modify_index)
    text = f"environment {job.environment_id}: {what} is lost: {job.id}, {verdict.cause}"
    return Notice("loss", id_, at, f"jobs/{job.id}", text, data)


def _held(kind: NoticeKind, hold: Hold, since: float, now: float) -> Notice:
    where = f"environment {hold.environment_id}" if hold.environment_id is not None else "the whole cluster"
    data: dict[str, Value] = {
        "environment_id": hold.environment_id,
        "rule": hold.rule,
        "reason": hold.reason,
        "ends": hold.ends,
        "held_for_s": round(now - since, 1),
        "until_in_s": round(hold.until - now, 1) if hold.until is not None else None,
    }
    id_ = _id(kind, hold.environment_id, hold.rule, round(since))
    return Notice(kind, id_, now, _subject(hold.environment_id), f"{where}: {hold.reason}", data)


def _empty(environment_id: str, row: EnvironmentRow, since: float, now: float) -> Notice:
    numbers = {name: getattr(row, name) for name in _NUMBERS}
    data: dict[str, Value] = {"environment_id": environment_id, "state": row.state, "target": row.target, **numbers}
    text = f"environment {environment_id}: no idle runner of {row.target}"
    return Notice(
        "pool-empty", _id("pool-empty", environment_id, round(since)), now, _subject(environment_id), text, data
    )


def _back(environment_id: str, row: EnvironmentRow, pool: _Pool, now: float) -> Notice:
    short_for_s = round(max(0.0, now - pool.since), 1)
    data: dict[str, Value] = {
        "environment_id": environment_id,
        "target": row.target,
        "idle": row.idle,
        "short_for_s": short_for_s,
        "was_empty": pool.told_empty,
    }
    text = f"environment {environment_id}: {row.idle} of {row.target} idle again, after {format_duration(short_for_s)}"
    id_ = _id("pool-back", environment_id, round(pool.since))
    return Notice("pool-back", id_, now, _subject(environment_id), text, data)
