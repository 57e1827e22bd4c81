"""What was asked for and has not been seen yet, so that nothing is asked for twice.

A new runner counts from the moment it is decided on (`expected`): between the request and its first event lie
seconds in which the pool would look as short as before. The entry ends when the runner is seen, when the request is
known to have failed, or when a list that is newer than its creation does not have it. Any other action is done once
for each version of the job that called for it.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Literal

from msgspec import Struct

from poseidon_reconciler.core.events import UNKNOWN

ActionKind = Literal[
    "protect-job", "create-runner", "revive-environment", "restore-environment", "remove-job", "stop-surplus"
]

Result = Literal["done", "not-done", "not-wanted", "unknown", "withdrawn"]


class Action(Struct, frozen=True, gc=False):
    """One thing to do, and why. `at` in seconds; `replaces` is the id of the lost runner that a new one stands for."""

    at: float
    kind: ActionKind
    environment_id: str
    job_id: str
    reason: str
    replaces: str | None = None


class ActionOutcome(Struct, frozen=True, gc=False):
    """What became of an action: `not-wanted` where the world had changed, `unknown` where it may have been done,
    `withdrawn` where it was not even begun because it is not called for any more, or not to be done now.

    `index` is the Raft index of what was registered, if anything was; `trouble` is what was read of the job that it was
    about: what its agent or the scheduler said of why it did not run.
    """

    result: Result
    detail: str
    index: int = UNKNOWN
    trouble: str = ""


class _Expected(Struct, gc=False):
    environment_id: str
    # The Raft index of the registration, once the server has confirmed it.
    index: int | None = None
    # Whether a request for it got no answer: it may be there.
    in_doubt: bool = False


class Ledger:
    """What is under way.

    Attributes:
        written_index: the highest Raft index at which the servers have confirmed a registration to us.
    """

    def __init__(self) -> None:
        self.written_index = UNKNOWN
        self._expected: dict[str, _Expected] = {}
        self._expected_by_environment: dict[str, int] = {}
        self._done: dict[str, dict[ActionKind, int]] = {}

    @property
    def expected_total(self) -> int:
        return len(self._expected)

    def expected_in(self, environment_id: str) -> int:
        """How many runners of an environment were asked for and not seen yet."""
        return self._expected_by_environment.get(environment_id, 0)

    def is_expected(self, job_id: str) -> bool:
        return job_id in self._expected

    def expect(self, job_id: str, environment_id: str) -> None:
        """A runner was decided on."""
        self._expected[job_id] = _Expected(environment_id)
        self._expected_by_environment[environment_id] = self.expected_in(environment_id) + 1

    def confirm(self, job_id: str, index: int) -> None:
        """The server has registered the runner, at this Raft index."""
        if (entry := self._expected.get(job_id)) is not None:
            entry.index = index

    def doubt(self, job_id: str) -> None:
        """Nobody knows whether the runner was registered."""
        if (entry := self._expected.get(job_id)) is not None:
            entry.in_doubt = True

    def is_in_doubt(self, job_id: str) -> bool:
        """Whether a runner that is expected may be there although its latest request has failed."""
        entry = self._expected.get(job_id)
        return entry is not None and entry.in_doubt

    def settle(self, job_id: str) -> None:
        """The runner was seen, or its registration is known to have failed: it is expected no more."""
        if (entry := self._expected.pop(job_id, None)) is not None:
            self._expected_by_environment[entry.environment_id] -= 1

    def lapse(self, index: int, known: Container[str]) -> list[str]:
        """A list of all jobs was read at `index`: what had been registered by then and is not `known` is gone again.

        Returns the ids of the environments that are short of a runner by that.
        """
        lapsed = [
            (job_id, entry.environment_id)
            for job_id, entry in self._expected.items()
            if entry.index is not None and entry.index <= index and job_id not in known
        ]
        for job_id, _ in lapsed:
            self.settle(job_id)
        return [environment_id for _, environment_id in lapsed]

    def is_done(self, kind: ActionKind, job_id: str, version: int) -> bool:
        """Whether an action was decided on for this version of a job before."""
        return self._done.get(job_id, {}).get(kind) == version

    def do_once(self, kind: ActionKind, job_id: str, version: int) -> None:
        """An action was decided on for this version of a job."""
        self._done.setdefault(job_id, {})[kind] = version

    def undo(self, kind: ActionKind, job_id: str) -> None:
        """An action did not come about; it may be decided on again."""
        self._done.get(job_id, {}).pop(kind, None)

    def forget_environment(self, environment_id: str) -> None:
        """The environment is no longer remembered; what is expected in it still is."""
        if not self.expected_in(environment_id):
            self._expected_by_environment.pop(environment_id, None)

    def forget(self, job_id: str) -> None:
        """The job is no longer remembered."""
        self._done.pop(job_id, None)
