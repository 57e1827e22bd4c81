"""What has become of jobs, and at which index: whether a reconciler could have known of it when it decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poseidon_reconciler.twin.records import JobKey

if TYPE_CHECKING:
    from poseidon_reconciler.app.simulation.truth import Standing


class History:
    """Remembers of each job what its standing alone does not tell any more.

    Attributes:
        free_until: by environment, the index at which a runner that could have been claimed no longer could be.
        free_since: when a runner last became one that could be claimed.
        unmarked: the index at which a runner that was marked used no longer was.
        claims: by environment, at which index and when runners were marked used.
        failed: the index since which a runner has been dead by its own fault without ever having run.
    """

    def __init__(self) -> None:
        self.free_until: dict[str, dict[JobKey, int]] = {}
        self.free_since: dict[JobKey, float] = {}
        self.unmarked: dict[JobKey, int] = {}
        self.claims: dict[str, list[tuple[int, float]]] = {}
        self.failed: dict[JobKey, int] = {}

    def clear(self) -> None:
        """The servers were restored: what they went through since then never was."""
        self.__init__()  # type: ignore[misc]

    def note(self, key: JobKey, before: Standing | None, after: Standing | None, index: int, now: float) -> None:
        """A job's standing became another one; None where there is no job."""
        was_free, is_free = before is not None and before.free, after is not None and after.free
        if before is not None and was_free and not is_free:
            self.free_until.setdefault(before.environment, {})[key] = index
        if after is None:
            return
        if is_free and not was_free:
            self.free_since[key] = now
        if before is not None and before.used and not after.used:
            self.unmarked[key] = index
        # One that is marked when it is seen first, after a restore, was claimed long ago.
        if before is not None and after.used and not before.used:
            self.claims.setdefault(after.environment, []).append((index, now))
        if after.failed_at_once:
            self.failed.setdefault(key, index)
