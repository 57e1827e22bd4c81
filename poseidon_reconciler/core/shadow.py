"""The shadow score of a dry run: what would have been done, and what became of it without us.

Each thing that would have been done is one entry, however often it is decided on: in a dry run nothing changes by our
doing, so that the same decisions come back. It stays open until somebody else has done it, it is too late, or it is
not needed any more. What is compared with what is the cluster as the model tells it.
"""

from __future__ import annotations

import statistics
from collections import Counter, deque
from typing import Final, Literal

from msgspec import Struct

from poseidon_reconciler.core.diagnosis import Verdict
from poseidon_reconciler.core.events import UNKNOWN
from poseidon_reconciler.core.ledger import Action, ActionKind, ActionOutcome
from poseidon_reconciler.core.reconciler import Reconciler, Step
from poseidon_reconciler.core.records import Job

KINDS: Final[tuple[ActionKind, ...]] = (
    "protect-job", "revive-environment", "restore-environment", "create-runner", "remove-job", "stop-surplus"
)  # fmt: skip
_KEPT_DELAYS: Final = 1_000
_ENDED: Final = frozenset({"gone", "stopped"})

Ending = Literal["by-others", "by-nomad", "too-late", "obsolete"]


class ShadowScore(Struct, frozen=True):
    """The actions of one kind.

    Attributes:
        would: how many would have been done, each counted once.
        by_others: how many of them somebody did: Poseidon, an operator, another reconciler.
        after_s: how long after our decision they did, in seconds, the median of the latest; None if nobody did any.
        by_nomad: how many came about by Nomad's own doing.
        too_late: how many ended as they would have prevented: a job that was to be protected has died.
        obsolete: how many are not needed any more for another reason, or were not confirmed.
        open: how many are still to be done.
        repeats: how many decisions were about something that was counted already.
    """

    kind: ActionKind
    would: int
    by_others: int
    after_s: float | None
    by_nomad: int
    too_late: int
    obsolete: int
    open: int
    repeats: int


class _Entry(Struct, gc=False):
    """`version` is the job's when it was decided on, `target` the pool's."""

    action: Action
    version: int
    target: int


class _Tally:
    def __init__(self) -> None:
        self.would = self.repeats = 0
        self.ended: Counter[Ending] = Counter()
        self.delays_s: deque[float] = deque(maxlen=_KEPT_DELAYS)


class Shadow:
    """Keeps the score of one core. It has the shape of a controller's observer, and is to be told first."""

    def __init__(self, core: Reconciler) -> None:
        self._core = core
        self._tallies = {kind: _Tally() for kind in KINDS}
        self._open: dict[tuple[ActionKind, str], _Entry] = {}
        # Runners that would have been created stand for a lack, not for a name: by environment, the oldest first.
        self._lacking: dict[str, dict[str, _Entry]] = {}

    def stepped(self, step: Step) -> None:
        """Takes note of what happened, then of what was decided on it."""
        if step.new_epoch:
            self._drop_everything()
        for change in step.changes:
            for kind in KINDS:
                entry = self._open.get((kind, change.job.id))
                if entry is not None and (ending := _ending_of(entry, change.job, change.verdict)) is not None:
                    self._end(self._open.pop((kind, change.job.id)), ending)
        self._compare_pools()
        for action in step.actions:
            self._take(action)

    def acted(self, action: Action, outcome: ActionOutcome) -> None:
        """What the confirming reads of a dry run found: what is not confirmed would not have been done."""
        if outcome.result != "not-wanted":
            return
        entries = self._lacking.get(action.environment_id, {})
        entry = (
            entries.pop(action.job_id, None)
            if action.kind == "create-runner"
            else self._open.pop((action.kind, action.job_id), None)
        )
        if entry is not None:
            self._end(entry, "obsolete")

    def noted(self, event: str, detail: str) -> None:
        """Nothing of the rest matters here."""

    def scores(self) -> list[ShadowScore]:
        """How it stands, of each kind of which there was anything."""
        self._compare_pools()
        opened = Counter(kind for kind, _ in self._open)
        opened["create-runner"] = sum(map(len, self._lacking.values()))
        return [self._score(kind, opened[kind]) for kind in KINDS if self._tallies[kind].would]

    def _score(self, kind: ActionKind, opened: int) -> ShadowScore:
        tally = self._tallies[kind]
        return ShadowScore(
            kind=kind,
            would=tally.would,
            by_others=tally.ended["by-others"],
            after_s=statistics.median(tally.delays_s) if tally.delays_s else None,
            by_nomad=tally.ended["by-nomad"],
            too_late=tally.ended["too-late"],
            obsolete=tally.ended["obsolete"],
            open=opened,
            repeats=tally.repeats,
        )

    # --- what would have been done -------------------------------------------------------------------------------

    def _take(self, action: Action) -> None:
        tally = self._tallies[action.kind]
        if self._is_known(action):
            tally.repeats += 1
            return
        tally.would += 1
        job = self._core.model.jobs.get(action.job_id)
        version = job.job_modify_index if job is not None else UNKNOWN
        entry = _Entry(action, version, self._core.planner.desk.target(action.environment_id) or 0)
        if action.kind == "create-runner":
            self._lacking.setdefault(action.environment_id, {})[action.job_id] = entry
        else:
            self._open[action.kind, action.job_id] = entry

    def _is_known(self, action: Action) -> bool:
        if action.kind != "create-runner":
            return (action.kind, action.job_id) in self._open
        entries = self._lacking.get(action.environment_id, {})
        return action.job_id in entries or len(entries) >= self._lack(action.environment_id)

    def _lack(self, environment_id: str) -> int:
        """How many runners a pool lacks, whatever was decided on."""
        pool = self._core.diagnosis.pools.get(environment_id)
        target = self._core.planner.desk.target(environment_id)
        return max(0, target - pool.counting) if target is not None and pool is not None else 0

    # --- what became of it ---------------------------------------------------------------------------------------

    def _end(self, entry: _Entry, ending: Ending) -> None:
        tally = self._tallies[entry.action.kind]
        tally.ended[ending] += 1
        if ending == "by-others":
            tally.delays_s.append(self._core.now - entry.action.at)

    def _drop_everything(self) -> None:
        for entry in self._open.values():
            self._end(entry, "obsolete")
        for entries in self._lacking.values():
            for entry in entries.values():
                self._end(entry, "obsolete")
        self._open.clear()
        self._lacking.clear()

    def _compare_pools(self) -> None:
        """Where a pool lacks less than would have been created, others have filled it, from the oldest lack on."""
        for environment_id, entries in list(self._lacking.items()):
            target = self._core.planner.desk.target(environment_id)
            excess = len(entries) - self._lack(environment_id)
            for job_id, entry in sorted(entries.items(), key=lambda item: not self._is_back(item[1]))[: max(0, excess)]:
                del entries[job_id]
                if target is None or target < entry.target:
                    self._end(entry, "obsolete")
                else:
                    self._end(entry, "by-nomad" if self._is_back(entry) else "by-others")
            if not entries:
                del self._lacking[environment_id]

    def _is_back(self, entry: _Entry) -> bool:
        """Whether what a new runner would have replaced is there again."""
        verdict = self._core.diagnosis.verdicts.get(entry.action.replaces or "")
        return verdict is not None and verdict.counts


def _ending_of(entry: _Entry, job: Job, verdict: Verdict) -> Ending | None:
    """What became of an entry by what its job is now; None while it is open."""
    state = verdict.state
    # A new version is somebody's doing; without one Nomad did it.
    doer: Ending = "by-others" if job.job_modify_index != entry.version else "by-nomad"
    match entry.action.kind:
        case "protect-job":
            died = job.status == "dead" and not job.stop
            if state == "lost" or (state in _ENDED and died):
                return "too-late"
            if state in _ENDED:
                return "obsolete"
            # One that is dead, or on its way out, has stopped being at risk in another way.
            return None if verdict.at_risk or died or state == "leaving" else doer
        case "revive-environment":
            return doer if state == "active" else "obsolete" if state in _ENDED else None
        case "restore-environment":
            return "by-others" if state not in _ENDED else None
        case "remove-job" | "stop-surplus":
            if state in _ENDED:
                return "by-nomad" if job.gone == "collected" else "by-others"
            # Looked at once more by Nomad, a dead job is still dead.
            wanted = state in ("lost", "recovering") if entry.action.kind == "remove-job" else state != "used"
            return None if wanted else "obsolete"
        case _:
            return None
