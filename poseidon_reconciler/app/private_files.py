"""What is kept in `state_dir`: for the eyes of its user alone, and never half written.

A template may hold secrets of its tasks, and the reason of a pause is nobody else's business, whatever the umask says.
"""

from __future__ import annotations

import os
from pathlib import Path


def make_private_directory(path: Path) -> None:
    """Makes a directory that only its user may enter; one that is there keeps the mode that somebody gave it.

    Raises:
        OSError: it cannot be made.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


def replace_private_file(path: Path, content: bytes, *, at_once: bool = False) -> None:
    """Puts a file that only its user may read in the place of the one that is there; `at_once`: a machine that loses
    its power afterwards still has it.

    Raises:
        OSError: it cannot be written; the old one is still there.
    """
    temporary = path.with_suffix(".new")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        # One that was left behind keeps its mode when it is opened.
        os.fchmod(file.fileno(), 0o600)
        file.write(content)
        if at_once:
            file.flush()
            os.fsync(file.fileno())
    temporary.replace(path)
