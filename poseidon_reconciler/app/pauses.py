"""The pauses that were set while running, kept over restarts where there is a place for them.

Whoever paused a cluster for its maintenance and then sees the reconciler restarted counts on it still being paused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from poseidon_reconciler.app.private_files import make_private_directory, replace_private_file
from poseidon_reconciler.core.pauses import Pause

_FILE_NAME: Final = "pauses.json"


class PauseStore:
    """Pauses, one for each environment and one for everything, written to `state_dir` (if any) at each change."""

    def __init__(self, state_dir: Path | None) -> None:
        """Reads what was kept.

        Raises:
            OSError: the directory or the file cannot be used.
            ValueError: the file is not one that this class wrote.
        """
        self._pauses: dict[str | None, Pause] = {}
        self._path = state_dir / _FILE_NAME if state_dir is not None else None
        if self._path is not None:
            make_private_directory(self._path.parent)
            if self._path.exists():
                self._pauses = {pause.environment_id: pause for pause in _read(self._path)}

    def lasting(self, now: float) -> list[Pause]:
        """Those that have not expired."""
        return [pause for pause in self._pauses.values() if pause.lasts(now)]

    def set(self, pause: Pause, now: float) -> bool:
        """Keeps a pause, in the place of an earlier one for the same; returns whether it would outlast a restart."""
        self._pauses[pause.environment_id] = pause
        return self._write(now)

    def lift(self, environment_id: str | None, now: float) -> bool:
        """Drops a pause; returns whether that would outlast a restart."""
        self._pauses.pop(environment_id, None)
        return self._write(now)

    def _write(self, now: float) -> bool:
        self._pauses = {pause.environment_id: pause for pause in self.lasting(now)}
        if self._path is None:
            return False
        try:
            replace_private_file(self._path, msgspec.json.encode(list(self._pauses.values())), at_once=True)
        except OSError:
            return False
        return True


def _read(path: Path) -> list[Pause]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[Pause])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not a file of pauses ({error}); remove it") from None
