"""What all actions share: what they are given, what they give back, and how they look after what they did."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from poseidon_reconciler.core.events import UNKNOWN
from poseidon_reconciler.core.ledger import Action
from poseidon_reconciler.nomad.api import Api
from poseidon_reconciler.nomad.confirm import AsOf
from poseidon_reconciler.nomad.documents import Stamp
from poseidon_reconciler.nomad.outcomes import Conflict, Failure, NotFound, Unknown
from poseidon_reconciler.policy import Policy

T = TypeVar("T")

Result = Literal["done", "already", "would", "skipped", "failed", "unknown"]

# Up to about five seconds: an evaluation takes some hundredths of a second, unless the servers are busy.
_LOOKS_S: Final = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0)


@dataclass(frozen=True, slots=True)
class Executed:
    """What became of an action.

    Attributes:
        outcome: `done`; `already`: the world was as wanted; `would`: it would have been done, but this is a dry run;
            `skipped`: it is not wanted any more; `failed`: nothing was changed although it is wanted; `unknown`: it may
            have been done or not.
        detail: what was seen, in one line.
        index: the job's new `JobModifyIndex`; `UNKNOWN` where nothing was registered.
        cause: what Nomad answered, where that is the reason.
        trouble: why the job that it was about does not run, where that was read.
    """

    action: Action
    outcome: Result
    detail: str
    index: int = UNKNOWN
    cause: Failure | None = None
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Tools:
    """What actions work with. `templates` are the environments' own jobs as last read, by job id."""

    api: Api
    policy: Policy
    templates: MutableMapping[str, bytes]
    dry_run: bool
    sleep: Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Task:
    """One action to execute: decided on as of these indexes, in the decision that `stamp` names."""

    action: Action
    stamp: Stamp
    as_of: AsOf

    def done(self, detail: str, index: int = UNKNOWN) -> Executed:
        return Executed(self.action, "done", detail, index)

    def already(self, detail: str, index: int = UNKNOWN) -> Executed:
        return Executed(self.action, "already", detail, index)

    def skipped(self, detail: str) -> Executed:
        return Executed(self.action, "skipped", detail)

    def failed(self, detail: str, index: int = UNKNOWN) -> Executed:
        return Executed(self.action, "failed", detail, index)

    def unknown(self, detail: str, index: int = UNKNOWN) -> Executed:
        return Executed(self.action, "unknown", detail, index)

    def would(self, what: str) -> Executed:
        """The end of a dry run: everything was looked at, nothing is done."""
        return Executed(self.action, "would", f"dry run: would {what}")

    def unconfirmed(self, failure: Failure) -> Executed:
        """Something could not be read before anything was done."""
        if isinstance(failure, NotFound):
            return Executed(self.action, "skipped", f"it is gone ({failure.detail})", cause=failure)
        return Executed(self.action, "failed", f"not confirmed, nothing done: {failure.detail}", cause=failure)

    def not_written(self, failure: Failure) -> Executed:
        """A write did not succeed, or nobody knows."""
        if isinstance(failure, NotFound | Conflict):
            return Executed(self.action, "skipped", f"it changed meanwhile: {failure.detail}", cause=failure)
        outcome: Result = "unknown" if isinstance(failure, Unknown) else "failed"
        return Executed(self.action, outcome, failure.detail, cause=failure)


async def look_until(tools: Tools, look: Callable[[], Awaitable[T | None]]) -> T | None:
    """Looks again and again, for some seconds, until there is something to see; None if there never is."""
    for wait_s in _LOOKS_S:
        await tools.sleep(wait_s)
        seen = await look()
        if seen is not None:
            return seen
    return None
