"""Reading the lists until enough of them could be read, and is no older than what the stream had told by then.

Lists that are asked for after a line has come tell of that line's change, or of another history: that of servers which
were restored from a snapshot. Neither the model nor what is waiting to be applied may then be mixed with them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from poseidon_reconciler.controller.inputs import ListsRead
from poseidon_reconciler.core.events import Snapshot

_FIRST_RETRY_S: Final = 1.0
_LONGEST_RETRY_S: Final = 60.0
_NEEDED: Final = ("jobs", "allocations", "evaluations")
_ALL: Final = frozenset({"Jobs", "Allocations", "Evaluations", "Nodes"})


class Lists(Protocol):
    """Reads the whole cluster."""

    async def read(self) -> tuple[Snapshot, str]:
        """What could be read, and in one line what could not and why."""
        ...


class Heard(NamedTuple):
    """What the present stream has brought: the newest index, and how many lines are kept until lists are read."""

    newest: int
    kept: int


async def read_lists(
    lists: Lists,
    generation: int,
    heard: Callable[[], Heard],
    not_read: Callable[[str], None],
    outdated: Callable[[str], None],
) -> ListsRead:
    """Reads lists, again and again; `not_read` and `outdated` are told why they are of no use."""
    wait_s = _FIRST_RETRY_S
    while True:
        before = heard()
        try:
            snapshot, problems = await lists.read()
        except Exception as error:  # noqa: BLE001 - whatever it is, reading must be tried again
            snapshot, problems = Snapshot(), f"{type(error).__name__}: {error}"
        if any(getattr(snapshot, table) is None for table in _NEEDED):
            not_read(problems)
        elif not snapshot.indexes.keys() >= _ALL:
            # The change that was told last may be one of a list that was not read.
            return ListsRead(generation, snapshot, problems)
        elif max(snapshot.indexes.values()) < before.newest:
            outdated(f"the lists are older than index {before.newest}, of which the stream has told")
        else:
            return ListsRead(generation, snapshot, problems, superseded=before.kept)
        await asyncio.sleep(wait_s)
        wait_s = min(2 * wait_s, _LONGEST_RETRY_S)
