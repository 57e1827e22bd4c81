"""The status page and the HTTP API beside a reconciler: everybody may look, who has the token may pause."""

from __future__ import annotations

from poseidon_reconciler.observe.web.server import ListenError, WebServer
from poseidon_reconciler.observe.web.source import Pausing, Source

__all__ = ["ListenError", "Pausing", "Source", "WebServer"]
