"""The settings of what goes on around the reconciling: who may look, who is told, what is kept."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from poseidon_reconciler.config.checks import checked_address, checked_listen, checked_url
from poseidon_reconciler.policy import PositiveDuration, Section, quoted

NOTICES: Final = ("loss", "hold", "poison", "pool-empty", "pool-back")
OFF: Final = "off"
# Who listens everywhere is asked on loopback.
_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - an address to ask, not to listen on


class HttpSettings(Section):
    """The status page and its API.

    Attributes:
        listen: `host:port`; `off` serves nothing.
        token_file: the token with which reconciling may be paused; None allows that to nobody.
    """

    listen: Annotated[str, AfterValidator(lambda text: text if text == OFF else checked_listen(text))] = (
        "127.0.0.1:8646"
    )
    token_file: Path | None = None

    @property
    def local_url(self) -> str | None:
        """Where it can be asked on this machine; None if nowhere that is known beforehand."""
        host, _, port = self.listen.rpartition(":")
        if not host or port == "0":
            return None
        return f"http://{_EVERYWHERE.get(host, host)}:{port}"


class TelemetrySettings(Section):
    """Traces and metrics by OTLP over HTTP; OpenTelemetry's own variables (`OTEL_*`) are honoured besides.

    Attributes:
        endpoint: base URL of a collector; None leaves it to `OTEL_EXPORTER_OTLP_ENDPOINT`, and exports nothing
            where that is not set either.
        interval_s: how often metrics are sent.
        timeout_s: how long one export may take.
    """

    endpoint: Annotated[str, AfterValidator(checked_url)] | None = None
    interval_s: PositiveDuration = 15.0
    timeout_s: PositiveDuration = 5.0


class PoseidonSettings(Section):
    """The Poseidon beside us, whose statistics are compared with Nomad's truth.

    Attributes:
        address: `http(s)://host[:port]`; None asks nobody.
        token_file: its `Poseidon-Token`, read again for each request.
        interval_s: how often it is asked.
    """

    address: Annotated[str, AfterValidator(checked_address)] | None = None
    token_file: Path | None = None
    interval_s: PositiveDuration = 30.0


def _checked_notices(text: str) -> str:
    for word in filter(None, re.split(r"[,\s]+", text)):
        if word not in NOTICES:
            raise ValueError(f"{quoted(word)} is not one of {', '.join(NOTICES)}")
    return text


class WebhookSettings(Section):
    """One receiver of notifications.

    Attributes:
        url: where CloudEvents are posted; may be a secret itself, and is never shown beyond its host.
        secret_file: the key of the signature (HMAC-SHA256); None signs nothing.
        events: which notices, separated by commas.
    """

    url: Annotated[str, AfterValidator(checked_url)]
    secret_file: Path | None = None
    events: Annotated[str, AfterValidator(_checked_notices)] = ", ".join(NOTICES)

    @property
    def notices(self) -> frozenset[str]:
        """The notices that are wanted."""
        return frozenset(filter(None, re.split(r"[,\s]+", self.events)))


class LogSettings(Section):
    """What `run` writes to stderr.

    Attributes:
        format: `json` one object a line; `console` for eyes; `auto` is `console` at a terminal, else `json`.
        level: the least that is written.
    """

    format: Literal["auto", "json", "console"] = "auto"
    level: Literal["debug", "info", "warning", "error"] = "info"


class FlightRecorderSettings(Section):
    """The recording that is kept when something unexpected happens; needs `state_dir`.

    Attributes:
        max_megabytes: how much is kept in memory of what came in last; 0 keeps nothing.
        keep: how many recordings are kept on the disk.
    """

    max_megabytes: int = Field(default=32, ge=0, le=4096)
    keep: int = Field(default=8, ge=1, le=1000)
