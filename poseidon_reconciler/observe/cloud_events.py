"""Notices as CloudEvents 1.0 (https://cloudevents.io), in the batched JSON format, and the signature of a batch.

The signature covers the time of sending too, so that a batch that somebody recorded is of no use to him later.
"""

from __future__ import annotations

import hashlib
import hmac
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from poseidon_reconciler.core.printable import printable
from poseidon_reconciler.observe.notices import Notice, Value

CONTENT_TYPE: Final = "application/cloudevents-batch+json"
SIGNATURE_HEADER: Final = "Reconciler-Signature"
TYPE_PREFIX: Final = "org.poseidon-reconciler."
_MAX_CHARS: Final = 1000


def cloud_event(notice: Notice, source: str) -> dict[str, Any]:
    """A notice as an event; `source` is the same for all who look after the same cluster."""
    data = {"text": notice.text, **notice.data}
    return _event(notice.kind, notice.id, source, notice.subject, notice.at, data)


def dropped_event(count: int, source: str, at: float) -> dict[str, Any]:
    """An event that stands for so many which could not be delivered."""
    data: dict[str, Value] = {"text": f"{count} notifications were not delivered", "count": count}
    return _event("dropped", str(uuid.uuid4()), source, "notifications", at, data)


def batch_of(events: Iterable[dict[str, Any]]) -> bytes:
    """The body of a request."""
    return orjson.dumps(list(events))


def signature(key: bytes, body: bytes, at: float) -> str:
    """The value of the signature's header: the time in whole seconds, and HMAC-SHA256 over `<time>.<body>` in hex."""
    time = str(int(at))
    digest = hmac.new(key, time.encode() + b"." + body, hashlib.sha256).hexdigest()
    return f"t={time},v1={digest}"


def _event(kind: str, id_: str, source: str, subject: str, at: float, data: dict[str, Value]) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": id_,
        "source": source,
        "type": f"{TYPE_PREFIX}{kind}",
        "subject": _shown(subject),
        "time": datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "datacontenttype": "application/json",
        "data": {name: _shown(value) if isinstance(value, str) else value for name, value in data.items()},
    }


def _shown(text: str) -> str:
    """Other people's text: what shows it may be a terminal, or a chat that knows no bounds."""
    return printable(text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}…")
