"""Whether the last known templates can be kept where the configuration says."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

from poseidon_reconciler.app.check.report import Check, fail, ok
from poseidon_reconciler.app.templates import TemplateStore
from poseidon_reconciler.core.wording import counted
from poseidon_reconciler.policy import os_reason

_NAME: Final = "state_dir"


def look_at_state_dir(state_dir: Path | None) -> Check:
    """Tries to write into the directory, and to read what was kept there; makes none."""
    if state_dir is None:
        return ok(_NAME, "not set: what an environment looked like is known until the program ends")
    if not state_dir.exists():
        return _to_be_made(state_dir)
    try:
        with tempfile.TemporaryFile(dir=state_dir):
            kept = len(TemplateStore(state_dir))
    except OSError as error:
        detail = f"{state_dir}: {os_reason(error)}"
        return fail(_NAME, detail, "give a directory that this user may write to")
    except ValueError as error:
        return fail(_NAME, str(error), "move the file away; it is written anew")
    return ok(_NAME, f"{state_dir}, {counted(kept, 'environment')} kept")


def _to_be_made(state_dir: Path) -> Check:
    parent = next(parent for parent in state_dir.absolute().parents if parent.exists())
    if parent.is_dir() and os.access(parent, os.W_OK | os.X_OK):
        return ok(_NAME, f"{state_dir} will be made")
    return fail(_NAME, f"{state_dir} cannot be made in {parent}", "make it, for the user that `run` runs as")
