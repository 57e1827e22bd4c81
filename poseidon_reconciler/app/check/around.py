"""What goes on around the reconciling, as far as it was asked for: the page, Poseidon, a collector, webhooks.

Nothing is sent to a collector or a webhook: whether something there takes a connection is all that can be looked at
without telling it something that is not so. What only looks on ends nothing, so that most of it is a warning.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import aiohttp

from poseidon_reconciler.app.check.address import Place, refusal
from poseidon_reconciler.app.check.report import Check, fail, ok, warn
from poseidon_reconciler.config import Settings
from poseidon_reconciler.config.checks import checked_url, read_token_file
from poseidon_reconciler.config.observing import OFF, HttpSettings, PoseidonSettings, WebhookSettings
from poseidon_reconciler.core.wording import counted
from poseidon_reconciler.observe.outgoing import new_session
from poseidon_reconciler.observe.poseidon import PoseidonError, read_statistics
from poseidon_reconciler.observe.web.server import why_not_listening

_COLLECTOR_VARIABLE: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"


async def look_around(settings: Settings, limit_s: float, environ: Mapping[str, str] = os.environ) -> list[Check]:
    """Looks at all of it at once, each within `limit_s`."""
    looks = [_look_at_page(settings.http, limit_s)]
    if settings.poseidon.address is not None:
        looks.append(_look_at_poseidon(settings.poseidon, limit_s))
    collector = settings.telemetry.endpoint or environ.get(_COLLECTOR_VARIABLE)
    if collector:
        advice = "does it listen for OTLP over HTTP there (4318, not 4317)? Until then nothing is exported"
        looks.append(_look_at_receiver("collector", collector, advice, limit_s))
    looks += [_look_at_webhook(name, webhook, limit_s) for name, webhook in settings.webhooks.items()]
    return await asyncio.gather(*looks)


async def _look_at_page(http: HttpSettings, limit_s: float) -> Check:
    if http.listen == OFF:
        return ok("page", "off")
    unreadable = _unreadable(http.token_file)
    host, _, port = http.listen.rpartition(":")
    try:
        server = await asyncio.start_server(lambda *_: None, host.strip("[]"), int(port))
    except OSError as error:
        if not await _is_served(http, limit_s):
            return fail("page", f"{http.listen}: {why_not_listening(error)}", "choose another http.listen, or off")
        detail = f"{http.listen} is served already, by a reconciler that runs"
    else:
        server.close()
        detail = f"{http.listen} is free"
    if unreadable is not None:
        return warn("page", f"{detail}, but http.token_file {unreadable}", "until it can be read, nobody can pause")
    return ok("page", detail)


async def _is_served(http: HttpSettings, limit_s: float) -> bool:
    """Whether one of us listens there."""
    timeout = aiohttp.ClientTimeout(total=limit_s)
    try:
        async with aiohttp.ClientSession(http.local_url, timeout=timeout) as client, client.get("/openapi.json") as got:
            return got.status == 200 and "poseidon-reconciler" in await got.text()
    except (aiohttp.ClientError, OSError, ValueError):
        return False


async def _look_at_poseidon(poseidon: PoseidonSettings, limit_s: float) -> Check:
    advice = "look at poseidon.address; without its statistics nobody knows where it is wrong about its pools"
    reached = await _look_at_receiver("Poseidon", str(poseidon.address), advice, limit_s)
    if reached.result != "ok":
        return reached
    try:
        async with new_session(limit_s) as session:
            statistics = await read_statistics(session, poseidon)
    except PoseidonError as error:
        return warn("Poseidon", f"{poseidon.address} {error}", advice)
    return ok("Poseidon", f"{poseidon.address} tells of {counted(len(statistics), 'environment')}")


async def _look_at_webhook(name: str, webhook: WebhookSettings, limit_s: float) -> Check:
    unreadable = _unreadable(webhook.secret_file)
    if unreadable is not None:
        advice = "give a file that this user may read: nothing is sent unsigned"
        return warn(f"webhook {name}", f"secret_file {unreadable}", advice)
    advice = "look at its url: until it takes them, notifications are dropped"
    return await _look_at_receiver(f"webhook {name}", webhook.url, advice, limit_s)


async def _look_at_receiver(name: str, url: str, advice: str, limit_s: float) -> Check:
    """Whether somebody takes connections at an URL, of which the path may be a secret."""
    try:
        place = Place.of(checked_url(url))
    except ValueError as error:
        return warn(name, f"the URL is {error}", advice)
    refused = await refusal(place, limit_s, ssl.create_default_context() if place.secure else None)
    if refused is not None:
        return warn(name, f"{place}: {refused}", advice)
    return ok(name, f"{place} takes connections")


def _unreadable(file: Path | None) -> str | None:
    """Why a secret cannot be read from a file; None if it can, or there is none."""
    if file is None:
        return None
    try:
        read_token_file(file)
    except ValueError as error:
        return f"{file}: {error}"
    return None
