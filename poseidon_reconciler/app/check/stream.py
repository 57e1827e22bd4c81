"""Whether each topic of the event stream is to be had, and soon.

The server sends a heartbeat at once, even if nothing happens. What does not arrive within seconds is held back on the
way, most of the time by a proxy that collects answers before it hands them on.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

import aiohttp

from poseidon_reconciler.app.check.report import Check, fail, ok
from poseidon_reconciler.app.check.rights import NODE_RULE, namespace_rule
from poseidon_reconciler.app.check.version import denies_silently
from poseidon_reconciler.core.framing import MAX_LINE_BYTES
from poseidon_reconciler.nomad.items import Ending, FrameReceived, Heartbeat, MalformedLine, ending_of_status
from poseidon_reconciler.nomad.probe import Probe
from poseidon_reconciler.nomad.reader import StreamReader
from poseidon_reconciler.nomad.stream import TOPICS

_PATH: Final = "/v1/event/stream"
# What 1.11.2 says it speaks, on this path.
_OLD_HTTP: Final = "HTTP/0.0"
_REFUSAL_BYTES: Final = 2048
_SHOWN_CHARACTERS: Final = 200
# Of these ends the reader tells what it saw, of all others what the server wrote.
_OWN_WORDS: Final = ("eof", "nothing", "not-nomad")
_NOT_NOMAD: Final = "what answers here is no event stream: give the address of Nomad itself in nomad.address"
_ADVICE: Final[dict[Ending, str]] = {
    "bad-request": "see that Nomad is 1.0 or later",
    "not-nomad": _NOT_NOMAD,
    "cut-line": _NOT_NOMAD,
    "refused": "look again; see the servers' logs, and that enable_event_broker is not switched off there",
    "silent": "does a proxy hold the answer back? Have it not buffer /v1/event/stream (nginx: proxy_buffering off)",
}


async def listen(probe: Probe, version: str | None, limit_s: float) -> list[Check]:
    """Opens a stream for each topic and waits for its first line."""
    return list(await asyncio.gather(*[_listen(probe, topic, version, limit_s) for topic in TOPICS]))


async def _listen(probe: Probe, topic: str, version: str | None, limit_s: float) -> Check:
    name = f"stream {topic}"
    began_at = time.monotonic()
    try:
        async with asyncio.timeout(limit_s):
            ending, detail = await _first_line(probe, topic)
    except TimeoutError:
        ending, detail = "silent", f"no heartbeat within {limit_s:g} s"
    except (aiohttp.ClientError, OSError, ValueError) as error:
        ending, detail = "cut", probe.told(error)
        if _OLD_HTTP in detail:
            return fail(name, f"the server answers with {_OLD_HTTP}, which is none", "upgrade Nomad (to 1.11.3)")
    if ending is None:
        return ok(name, f"{detail} after {(time.monotonic() - began_at) * 1000:.0f} ms")
    advice = _ADVICE.get(ending, "look again; see the servers' logs")
    rule = f"add to the token's policy: {NODE_RULE if topic == 'Node' else namespace_rule(probe.namespace, 'read-job')}"
    if ending in ("denied", "nothing"):
        return fail(name, f"not allowed: {detail}", rule)
    if ending == "silent" and denies_silently(version):
        return fail(name, f"{detail}: not allowed, or held back", f"{rule}; if it is in it, {advice}")
    return fail(name, detail, advice)


async def _first_line(probe: Probe, topic: str) -> tuple[Ending | None, str]:
    """How the stream ended before it began (None: it did begin), and what was seen."""
    async with probe.open(_PATH, {"topic": f"{topic}:*"}) as response:
        if response.status != 200:
            body = await response.content.read(_REFUSAL_BYTES)
            text = " ".join(probe.hidden(body.decode("utf-8", "replace")).split())[:_SHOWN_CHARACTERS]
            return ending_of_status(response.status, text), f"{response.status} {text}".rstrip()
        reader = StreamReader(None, MAX_LINE_BYTES)
        while True:
            data = await response.content.readany()
            if not data:
                items, ending, reason = reader.close(0.0)
                return (None, "first line") if items else (ending, reason if ending in _OWN_WORDS else ending)
            for item in reader.feed(data, 0.0):
                if isinstance(item, Heartbeat):
                    return None, "first heartbeat"
                if isinstance(item, FrameReceived):
                    return None, "first events"
                if isinstance(item, MalformedLine):
                    return "not-nomad", "200, but this is no event stream"
            if reader.oversized:
                return "oversized", f"a line of more than {MAX_LINE_BYTES} bytes"
