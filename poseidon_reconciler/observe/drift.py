"""What Poseidon believes of its pools, beside what is, and since when the two differ.

Pure. Poseidon's view lags behind Nomad's by design, and an answer of it is older than the moment in which it is
compared: only what differs in the same way in several answers on end means anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from poseidon_reconciler.core.status import EnvironmentRow
from poseidon_reconciler.core.wording import counted
from poseidon_reconciler.observe.adoption import Adoptions

# In so many answers after the first must a difference be seen before it is told.
PATIENCE: Final = 3

# The truth about an environment of which Nomad has no job.
_ABSENT: Final = EnvironmentRow(
    state="gone", cause=None, rule="template-gone", target=None, idle=0, used=0, starting=0, recovering=0, blocked=0,
    disconnected=0, leaving=0, lost=0, deficit=0, surplus=0,
)  # fmt: skip

# It believes in runners that are dead or used, does not know ones that live, or does not know the environment at all.
Drift = Literal["too-many-idle", "too-few-idle", "unknown-environment"]


class Statistics(Struct, frozen=True, rename="camel"):
    """What Poseidon says of one environment."""

    id: int
    prewarming_pool_size: int
    idle_runners: int
    used_runners: int


class EnvironmentView(Struct, frozen=True):
    """An environment as Poseidon has it, beside the truth.

    Attributes:
        believed: Poseidon's numbers; None if it does not know the environment.
        idle, used, target: the truth when its answer came.
        drift: in what they differ, if they do; since when, and whether for longer than any lag.
        waiting: runners that we created and that it may still adopt.
        adopted, not_adopted: how many it did and did not adopt, since we run.
    """

    believed: Statistics | None
    idle: int
    used: int
    target: int | None
    drift: Drift | None = None
    since: float | None = None
    lasting: bool = False
    waiting: int = 0
    adopted: int = 0
    not_adopted: int = 0


class PoseidonView(Struct, frozen=True):
    """The latest comparison.

    Attributes:
        at: when Poseidon answered last, in seconds; None if it never did.
        problem: why it does not answer now; None if it does.
        environments: by id, in the order of their numbers.
    """

    at: float | None = None
    problem: str | None = None
    environments: dict[str, EnvironmentView] = {}


class DriftNote(Struct, frozen=True):
    """Something to be told: the name of the message, and a text that begins with the environment."""

    event: str
    detail: str


class _Seen(Struct):
    drift: Drift
    since: float
    answers: int = 0

    @property
    def lasting(self) -> bool:
        return self.answers >= PATIENCE


class DriftWatch:
    """Compares answers, one after the other.

    Attributes:
        view: the latest comparison.
    """

    def __init__(self) -> None:
        self.view = PoseidonView()
        self._seen: dict[str, _Seen] = {}
        self._adoptions: dict[str, Adoptions] = {}

    def created(self, environment_id: str, job_id: str) -> None:
        """We created a runner."""
        self._adoptions.setdefault(environment_id, Adoptions()).created(job_id)

    def changed(self, environment_id: str, job_id: str, state: str) -> None:
        """A runner is in another state."""
        if environment_id in self._adoptions:
            self._adoptions[environment_id].changed(job_id, state)

    def failed(self, problem: str) -> None:
        """Poseidon did not answer."""
        self.view = replace(self.view, problem=problem)

    def answered(
        self, statistics: Mapping[str, Statistics], rows: Mapping[str, EnvironmentRow], now: float
    ) -> list[DriftNote]:
        """Compares an answer with the truth of this moment; returns what is to be told."""
        # Environments that it has elsewhere (on AWS) it tells without a pool; those are no business of Nomad's.
        believed = {id_: each for id_, each in statistics.items() if id_ in rows or each.prewarming_pool_size}
        compared = {id_: rows.get(id_, _ABSENT) for id_ in sorted(rows.keys() | believed.keys(), key=int)}
        notes = [note for id_, row in compared.items() for note in self._compare(id_, believed.get(id_), row, now)]
        for gone in (self._seen.keys() | self._adoptions.keys()) - compared.keys():
            self._seen.pop(gone, None)
            self._adoptions.pop(gone, None)
        views = {id_: self._view(id_, believed.get(id_), row) for id_, row in compared.items()}
        self.view = PoseidonView(now, None, views)
        return notes

    def _compare(self, id_: str, believed: Statistics | None, row: EnvironmentRow, now: float) -> Iterator[DriftNote]:
        before, drift = self._seen.pop(id_, None), drift_of(believed, row)
        if drift is not None:
            again = before is not None and before.drift == drift
            seen = _Seen(drift, before.since, before.answers + 1) if before is not None and again else _Seen(drift, now)
            self._seen[id_] = seen
            if seen.answers == PATIENCE:
                yield DriftNote("poseidon-drift", f"environment {id_}: {_sentence(drift, believed, row)}")
        elif before is not None and before.lasting:
            yield DriftNote("poseidon-agrees", f"environment {id_}: {row.idle} idle runners")
        if id_ in self._adoptions:
            unknown = row.idle - (believed.idle_runners if believed is not None else 0)
            adopted, not_adopted = self._adoptions[id_].answered(max(0, unknown))
            if adopted:
                yield DriftNote("poseidon-adopted", f"environment {id_}: {counted(adopted, 'runner')} of ours")
            if not_adopted:
                yield DriftNote("poseidon-not-adopted", f"environment {id_}: {counted(not_adopted, 'runner')} of ours")

    def _view(self, id_: str, believed: Statistics | None, row: EnvironmentRow) -> EnvironmentView:
        seen, ours = self._seen.get(id_), self._adoptions.get(id_, Adoptions())
        return EnvironmentView(
            believed=believed,
            idle=row.idle,
            used=row.used,
            target=row.target,
            drift=seen.drift if seen is not None else None,
            since=seen.since if seen is not None else None,
            lasting=seen is not None and seen.lasting,
            waiting=ours.waiting,
            adopted=ours.adopted,
            not_adopted=ours.not_adopted,
        )


def drift_of(believed: Statistics | None, row: EnvironmentRow) -> Drift | None:
    """In what Poseidon's view of an environment differs from the truth."""
    if believed is None:
        # One that has neither a job nor runners is nobody's concern.
        alive = row.state not in ("gone", "stopped") or row.idle > 0
        return "unknown-environment" if alive else None
    if believed.idle_runners > row.idle:
        return "too-many-idle"
    return "too-few-idle" if believed.idle_runners < row.idle else None


def _sentence(drift: Drift, believed: Statistics | None, row: EnvironmentRow) -> str:
    if believed is None:
        return f"Poseidon does not know it; {row.idle} of {row.target} runners are idle"
    verb = "believes in" if drift == "too-many-idle" else "knows only"
    return f"Poseidon {verb} {believed.idle_runners} idle runners, {row.idle} are"
