"""SIGHUP: the configuration is read anew while `run` goes on; what is wrong changes nothing.

What the core decides by takes effect at once. What the edges were built with (addresses, ports, files, exporters) would
have to be built anew, and that is what a restart is for, which is safe at any moment: it is said, and not done.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from poseidon_reconciler.app.running import Running
from poseidon_reconciler.config import ConfigError, Settings, load
from poseidon_reconciler.controller import Observer

# The sections that make the policy; everything else needs a restart.
_POLICY: Final = ("pool", "pace", "environments")
# A key of `pool` that changes does so in each of the exceptions too.
_MOST_KEYS_TOLD: Final = 12
# Read from its file whenever it is needed, or from the environment, which cannot change any more.
_TOKEN: Final = "nomad.token"  # noqa: S105 - a key, no token


class Reload:
    """Takes the configuration up anew each time it is called."""

    def __init__(self, path: Path | None, started_with: Settings, running: Running, observer: Observer) -> None:
        """`path` and the environment are read again; `started_with` is what they said at the start."""
        self._path = path
        self._started_with = started_with
        self._now = started_with
        self._running = running
        self._observer = observer

    def __call__(self) -> None:
        """Applies what can be applied, and tells of it; must be called on the event loop."""
        try:
            settings = load(self._path, os.environ)
        except ConfigError as error:
            for problem in error.problems:
                self._observer.noted("reload-refused", problem)
            return
        self._tell_of_restart(settings)
        changed = [key for key in changed_keys(self._now, settings) if _is_policy(key)]
        if not changed:
            self._observer.noted("reloaded", "nothing that decides has changed")
            return
        self._now = self._now.model_copy(update={section: getattr(settings, section) for section in _POLICY})
        self._running.change_policy(self._now.policy())
        self._observer.noted("reloaded", f"in effect now: {_listed(changed)}")

    def _tell_of_restart(self, settings: Settings) -> None:
        keys = [key for key in changed_keys(self._started_with, settings) if not _is_policy(key) and key != _TOKEN]
        if keys:
            self._observer.noted("restart-needed", f"in effect only after a restart: {_listed(keys)}")


def changed_keys(before: Settings, after: Settings) -> list[str]:
    """The keys that differ, as they are written in the file, in its order."""
    old, new = dict(_leaves(before)), dict(_leaves(after))
    return [key for key in {**old, **new} if key not in old or key not in new or old[key] != new[key]]


def _listed(keys: list[str]) -> str:
    more = len(keys) - _MOST_KEYS_TOLD
    return ", ".join(keys[:_MOST_KEYS_TOLD]) + (f" and {more} more" if more > 0 else "")


def _is_policy(key: str) -> bool:
    return key.partition(".")[0] in _POLICY


def _leaves(value: object, prefix: str = "") -> Iterator[tuple[str, Any]]:
    members: Mapping[str, object]
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        members = {field.alias or name: getattr(value, name) for name, field in fields.items()}
    elif isinstance(value, dict):
        members = value
    else:
        yield prefix, value
        return
    for name, member in members.items():
        yield from _leaves(member, f"{prefix}.{name}" if prefix else str(name))
