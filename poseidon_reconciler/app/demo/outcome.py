"""How a demo ended: as a document for programs, and as a few sentences for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from poseidon_reconciler.core.status import EnvironmentRow
from poseidon_reconciler.core.wording import counted
from poseidon_reconciler.policy import format_duration


class Outcome(Struct, frozen=True):
    """The end of a demo; times in seconds of the cluster's time.

    Attributes:
        reconciled: whether there was a reconciler.
        lost: jobs, environments' own too, that were dead for good although nobody had stopped them.
        protected, created, removed, trimmed, revived: what the reconciler did to how many jobs.
        time_to_target_s: from the beginning of the failure until all pools were full for good; None if they are not.
        after_last_step_s: the same from the failure's last step on; 0 if they were full before it.
        promises_broken: each in words.
        purged: jobs that Poseidon deleted because their allocation had ended.
        ordered_by_alert: runners that Poseidon ordered because a pool had been short for too long.
        refused: learners who found no idle runner.
        peak_starting: the most new runners that waited for their first start on one node.
    """

    scenario: str
    reconciled: bool
    environments: dict[str, EnvironmentRow]
    lost: int
    protected: int
    created: int
    removed: int
    trimmed: int
    revived: int
    time_to_target_s: float | None
    after_last_step_s: float | None
    promises_broken: list[str]
    purged: int
    ordered_by_alert: int
    refused: int
    peak_starting: int

    @property
    def is_good(self) -> bool:
        """Whether every pool is back and every promise was kept."""
        return self.time_to_target_s is not None and not self.promises_broken

    def document(self) -> dict[str, Any]:
        """What `demo --json` prints."""
        return {
            "scenario": self.scenario,
            "environments": msgspec.to_builtins(self.environments),
            "lost": self.lost,
            "protected": self.protected,
            "created": self.created,
            "removed": self.removed,
            "revived": self.revived,
            "time_to_target_s": self.time_to_target_s,
            "promises_broken": self.promises_broken,
        }

    def sentences(self) -> Iterator[str]:
        """What a person wants to know, one line each."""
        if self.time_to_target_s is None:
            yield "The pools are not back: " + "; ".join(self._short()) + "."
        elif self.time_to_target_s == 0:
            yield "The pools were full all the time."
        else:
            taken = _seconds(self.time_to_target_s)
            yield f"The pools were full again {taken} after the failure began{self._since_end()}."
        yield f"Dead for good: {self.lost}. Deleted by Poseidon with their allocation: {self.purged}."
        surplus = sum(row.surplus for row in self.environments.values())
        if surplus:
            above = f"{counted(surplus, 'runner')} above the targets"
            yield f"Nomad brought back what had been replaced: {above}."
        if self.reconciled:
            repaired = f"created {self.created}, revived {self.revived} and removed {self.removed}"
            yield f"The reconciler protected {self.protected}, {repaired}."
            if self.trimmed:
                yield f"It stopped {counted(self.trimmed, 'idle runner')} above the targets."
        if self.ordered_by_alert:
            yield f"Poseidon's alert ordered {counted(self.ordered_by_alert, 'runner')} at once."
        if self.refused:
            yield f"Learners who found no idle runner while it failed: {self.refused}."
        if self.peak_starting:
            yield f"At most {self.peak_starting} new runners, whoever ordered them, were starting on one node."
        if self.promises_broken:
            yield "Promises broken: " + "; ".join(self.promises_broken) + "."

    def _short(self) -> Iterator[str]:
        for environment_id, row in self.environments.items():
            state = row.state + (f" ({row.cause})" if row.cause else "")
            yield f"environment {environment_id} is {state} and has {row.idle} of {row.target} idle runners"

    def _since_end(self) -> str:
        return f", {_seconds(self.after_last_step_s)} after its last step" if self.after_last_step_s else ""


def _seconds(duration_s: float) -> str:
    return format_duration(round(duration_s, 1))
