"""What was given, where it was given, and whether there is a setting of that name."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable
from typing import NamedTuple

from poseidon_reconciler.config.observing import (
    FlightRecorderSettings,
    HttpSettings,
    LogSettings,
    PoseidonSettings,
    TelemetrySettings,
    WebhookSettings,
)
from poseidon_reconciler.config.settings import NomadSettings, Settings
from poseidon_reconciler.policy import MAX_QUOTED_CHARS, PacePolicy, PoolPolicy, Section, quoted

MAX_NAME_CHARS = 250

KeyPath = tuple[str, ...]
TOKEN, TOKEN_FILE = ("nomad", "token"), ("nomad", "token_file")
CERT_FILE, KEY_FILE = ("nomad", "cert_file"), ("nomad", "key_file")


class Origin(NamedTuple):
    """The place that gave a value, and its rank among all: down the file, then the variables by name."""

    rank: tuple[float, int, str]
    label: str


def in_variable(name: str) -> Origin:
    return Origin((math.inf, 0, name), shown(name))


class Given(NamedTuple):
    """A value as text, None if it was left empty."""

    text: str | None
    origin: Origin


class Layer:
    """What one source of settings gives, and what is wrong with it."""

    def __init__(self) -> None:
        self.given: dict[KeyPath, Given] = {}
        self.problems: list[tuple[Origin, str]] = []

    def put(self, path: KeyPath, text: str | None, origin: Origin) -> None:
        text = (text or "").strip()
        if not text.isprintable():
            self.problems.append((origin, "has a line break or another character that cannot be printed"))
        else:
            self.given[path] = Given(text or None, origin)


def _aliases(section: type[Section]) -> list[str]:
    return [field.alias or name for name, field in section.model_fields.items()]


KEYS: dict[KeyPath, list[str]] = {
    (): _aliases(Settings),
    ("nomad",): _aliases(NomadSettings),
    ("pool",): _aliases(PoolPolicy),
    ("pace",): _aliases(PacePolicy),
    ("http",): _aliases(HttpSettings),
    ("telemetry",): _aliases(TelemetrySettings),
    ("poseidon",): _aliases(PoseidonSettings),
    ("log",): _aliases(LogSettings),
    ("flight_recorder",): _aliases(FlightRecorderSettings),
}
# Sections whose members have names of the operator's choice, and the keys of each member.
NAMED: dict[str, list[str]] = {"environments": KEYS["pool",], "webhooks": _aliases(WebhookSettings)}


def keys_of(section: KeyPath) -> list[str]:
    return NAMED[section[0]] if len(section) == 2 and section[0] in NAMED else KEYS[section]


def is_value(path: KeyPath) -> bool:
    """Whether a known path holds a value; otherwise it is a section."""
    return path == ("state_dir",) or len(path) == (3 if path[0] in NAMED else 2)


def wrong_key(path: KeyPath) -> str | None:
    """What is wrong with the last key of `path`, whose section is known."""
    section, key = path[:-1], path[-1]
    if section == ("environments",):
        is_id = re.fullmatch(r"0|[1-9][0-9]{0,18}", key)
        return None if is_id else f"{quoted(key)} is not an environment's id, a decimal number such as 10"
    if section == ("webhooks",):
        is_name = len(key) <= 40 and re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)*", key)
        return None if is_name else f"{quoted(key)} is not a name such as on_call"
    known = [other for other in keys_of(section) if (*section, other) != TOKEN]
    return None if key in known else "unknown key" + did_you_mean(key, known)


def did_you_mean(word: str, known: Iterable[str], prefix: str = "") -> str:
    close = difflib.get_close_matches(word[:MAX_QUOTED_CHARS], known, n=1)
    return f" (did you mean {prefix}{close[0]}?)" if close else ""


def shown(name: str) -> str:
    """A key, a variable or a file as a part of one line, whatever it has in it."""
    return name if name and name.isprintable() and len(name) <= MAX_NAME_CHARS else quoted(name)
