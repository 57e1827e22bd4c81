"""A log that is written to a file and read again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from poseidon_reconciler.config.observing import LogSettings
from poseidon_reconciler.observe.logs.observer import LogObserver
from poseidon_reconciler.observe.logs.pipeline import Logs


@pytest.fixture
def lines(tmp_path: Path) -> Callable[..., list[str]]:
    """Runs something while logs are open, and gives the lines."""

    def written(act: Callable[[LogObserver], object], **settings: Any) -> list[str]:
        path = tmp_path / "log"
        with path.open("wb") as file, Logs(LogSettings(**settings), file.fileno()) as logs:
            act(logs.observer)
        return path.read_text().splitlines()

    return written
