"""Everything at this moment as one JSON document, made once for however many ask for it."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Any, Final

import msgspec
import orjson

from poseidon_reconciler import __version__
from poseidon_reconciler.core.blame import NodeLosses
from poseidon_reconciler.core.documents import hold_document, iso
from poseidon_reconciler.core.events import UNKNOWN
from poseidon_reconciler.core.pauses import Pause
from poseidon_reconciler.core.status import at_risk_counts, environment_rows, node_rows, not_counting, on_their_way
from poseidon_reconciler.observe.web.beside import poseidon_document
from poseidon_reconciler.observe.web.fresh import Fresh
from poseidon_reconciler.observe.web.recent import Recent
from poseidon_reconciler.observe.web.source import Source
from poseidon_reconciler.observe.web.summary import summary

MAX_HOLDS: Final = 1000
MAX_SHOWN: Final = 50


class Status:
    """The document, made anew when it is asked for and the last one is too old."""

    def __init__(self, source: Source, recent: Recent) -> None:
        self._source = source
        self._recent = recent
        self._document = Fresh(self._make)
        self._encoded: tuple[dict[str, Any], bytes] = ({}, b"{}")

    def document(self) -> dict[str, Any]:
        """The document; not to be changed."""
        return self._document.get()

    def encoded(self) -> bytes:
        """The document as JSON."""
        document = self.document()
        if self._encoded[0] is not document:
            self._encoded = (document, orjson.dumps(document))
        return self._encoded[1]

    def expire(self) -> None:
        """Has it made anew for the next who asks."""
        self._document.expire()

    def _make(self) -> dict[str, Any]:
        core, now = self._source.core, self._source.clock()
        holds = core.holds(now)
        environments = self._environments(Counter(hold.environment_id for hold in holds))
        storm = core.planner.storm
        document = {
            "at": iso(now),
            "version": __version__,
            "synced": self._source.is_synced(),
            "dry_run": self._source.shadow is not None,
            "index": core.model.index if core.model.index != UNKNOWN else None,
            "environments": environments,
            "nodes": [msgspec.to_builtins(row) | {"since": iso(row.since)} for row in node_rows(core)],
            "holds": [hold_document(hold) for hold in holds[:MAX_HOLDS]],
            "storm": {"since": iso(storm.since), "until": iso(storm.until)} if storm.since is not None else None,
            "pauses": self._pauses(now),
            "blame": [_with_time(row) for row in islice(core.blame.rows(), MAX_SHOWN)],
            "losses": self._losses(),
            "surplus": self._surplus(environments),
            "poseidon": poseidon_document(self._source.poseidon()),
            "actions": [each.document() for each in islice(reversed(self._recent.decisions), MAX_SHOWN)],
            "shadow": self._shadow(),
        }
        return document | {"summary": summary(document, self._recent.last_note)}

    def _environments(self, holds: Counter[str | None]) -> dict[str, Any]:
        core = self._source.core
        at_risk = at_risk_counts(core)
        return {
            id_: msgspec.to_builtins(row)
            | {"on_their_way": on_their_way(core, id_), "not_counting": not_counting(core, id_)}
            | {"expected": core.planner.ledger.expected_in(id_), "at_risk": at_risk[id_], "holds": holds[id_]}
            for id_, row in environment_rows(core).items()
        }

    def _surplus(self, environments: dict[str, Any]) -> list[dict[str, Any]]:
        story = self._source.core.planner.surplus.story
        return [
            {"environment_id": id_, "surplus": row["surplus"], "story": story(id_)}
            for id_, row in environments.items()
            if row["surplus"]
        ]

    def _shadow(self) -> list[dict[str, Any]] | None:
        shadow = self._source.shadow
        return [msgspec.to_builtins(score) for score in shadow.scores()] if shadow is not None else None

    def _pauses(self, now: float) -> list[dict[str, Any]]:
        pauses = self._source.core.planner.pauses
        return [_pause_document(pause, "configuration") for pause in pauses.configured(now)] + [
            _pause_document(pause, "request") for pause in pauses.current(now)
        ]

    def _losses(self) -> list[dict[str, Any]]:
        verdicts = self._source.core.diagnosis.verdicts
        found = []
        for loss in islice(reversed(self._recent.losses), MAX_SHOWN):
            verdict = verdicts.get(loss.job_id)
            found.append(loss.document(verdict.state if verdict is not None else "gone"))
        return found


def _with_time(row: NodeLosses) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(row)
    return document | {"at": iso(row.at)}


def _pause_document(pause: Pause, by: str) -> dict[str, Any]:
    since = iso(pause.since) if by == "request" else None
    return {
        "environment_id": pause.environment_id,
        "reason": pause.reason,
        "since": since,
        "until": iso(pause.until),
        "by": by,
    }
