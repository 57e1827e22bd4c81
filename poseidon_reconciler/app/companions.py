"""What runs beside a reconciler: none of it may end, delay or change what is reconciled.

Each part runs for itself, reads what the reconciler knows, and begins anew when it fails.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

_FAILED_WAIT_S: Final = 60.0


class Companion(Struct, frozen=True):
    """A part, by its name for people. `run` goes on until it is cancelled; having failed, it can be called again."""

    name: str
    run: Callable[[], Coroutine[Any, Any, None]]

    async def keep_running(self, note: Callable[[str, str], None]) -> None:
        """Runs it until it ends by itself or is cancelled; each failure is noted, and it begins anew a while later."""
        while True:
            try:
                return await self.run()
            except Exception as error:  # noqa: BLE001 - whatever it is, the reconciling goes on
                note("companion-failed", f"{self.name}: {_where(error)}")
            await asyncio.sleep(_FAILED_WAIT_S)


def _where(error: BaseException) -> str:
    """What went wrong where; not its own text, which may have an URL in it that is a secret."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    at = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(at.filename).name}, line {at.lineno}"
