"""What waiting does not mend, if it is so from the very beginning: a wrong setting, most of the time."""

from __future__ import annotations

from typing import Final

from poseidon_reconciler.nomad.items import Closed

_HOPELESS: Final = {
    "tls": "is not trusted, or does not speak TLS; see nomad.ca_file",
    "not-nomad": "is no Nomad, or one before 1.0",
    "nothing": "ends the event stream at once: the token may not read events",
    "denied": "refuses the token; it needs read-job in the namespace, and node:read",
    "bad-request": "does not understand the request for its event stream: is it Nomad 1.0 or later?",
    "credentials": "cannot be asked: a file of the token or of a certificate cannot be read",
}


def hopeless(address: str, closed: Closed) -> str | None:
    """Why there is no use in another attempt after the first one ended like this; None if there is."""
    if closed.kind not in _HOPELESS:
        return None
    return f"{address} {_HOPELESS[closed.kind]} ({closed.reason})"
