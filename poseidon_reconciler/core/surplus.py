"""Runners beyond a pool's target: how they came about, and which of them may go.

A node that comes back brings runners that were replaced meanwhile; two who refill at once order twice; a target is
lowered. It does no harm but costs room, and Poseidon itself never takes a runner away. Where the policy says so, idle
ones are stopped: the youngest, a few at a time, and never near a claim, because Poseidon claims a runner in memory
first and marks it a moment later. Where they come again as soon as they are gone, somebody believes in another target
than the environment's own job says: then each round waits longer than the one before.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from msgspec import Struct

from poseidon_reconciler.core.deficit import Deficit
from poseidon_reconciler.core.desk import Desk
from poseidon_reconciler.core.diagnosis import Change
from poseidon_reconciler.core.ids import is_derived
from poseidon_reconciler.core.ledger import Action
from poseidon_reconciler.core.pace import RateLimit
from poseidon_reconciler.core.records import Job
from poseidon_reconciler.core.retries import Patience

AT_ONCE: Final = 2

_RETURNED: Final = "came back from nodes out of reach"
_REVIVED: Final = "came back to life"
_OURS: Final = "ordered by us"
_OTHERS: Final = "ordered by others"


class _Excess(Struct):
    """What one pool has beyond its target. `came` counts what has come since there was none; `target` is the last;
    `left`: how many were too much when a round of stops began, less those stopped since; None between rounds.
    """

    idle: Deficit
    came: Counter[str]
    size: int = 0
    target: int = 0
    lowered_from: int | None = None
    left: int | None = None


class Surplus:
    """The excess of all pools.

    Attributes:
        rate: how many may be stopped in a second.
        rounds: how long to wait before what has come again is stopped again.
    """

    def __init__(self, desk: Desk) -> None:
        self.rate = RateLimit(desk.policy.pace.max_creates_per_second)
        self._desk = desk
        self.clear()

    def clear(self) -> None:
        """A new epoch of the cluster began."""
        self.rounds = Patience()
        self._pools: dict[str, _Excess] = {}

    def observe(self, change: Change) -> None:
        """Takes note of a verdict on a runner that became another one."""
        job, before, verdict = change.job, change.before, change.verdict
        if job.kind != "runner":
            return
        if verdict.counts and (before is None or not before.counts):
            excess = self._pools.setdefault(job.environment_id, _Excess(Deficit(), Counter()))
            excess.came[_how_it_came(change)] += 1

    def forget_environment(self, environment_id: str) -> None:
        """The environment is no longer remembered."""
        self._pools.pop(environment_id, None)

    def assess(self, environment_id: str, now: float) -> None:
        """Brings up to date what a pool has beyond its target."""
        pool = self._desk.diagnosis.pools.get(environment_id)
        target = self._desk.target(environment_id)
        if pool is None or target is None:
            self._pools.pop(environment_id, None)
            return
        excess = self._pools.setdefault(environment_id, _Excess(Deficit(), Counter()))
        if target < excess.target:
            excess.lowered_from = excess.target
        excess.target = target
        excess.size = max(0, pool.counting - target)
        if excess.size == 0:
            excess.came.clear()
            excess.lowered_from = None
        idle = min(excess.size, max(0, pool.count("idle") - target))
        self._note_round(environment_id, excess, idle, now)
        if idle != excess.idle.size:
            excess.idle.set(idle, now)

    def _note_round(self, environment_id: str, excess: _Excess, idle: int, now: float) -> None:
        """A round ends when all that was too much when it began is gone, what waited for room too; what comes then
        begins another.
        """
        tried_at = self.rounds.tried_at(environment_id)
        if idle and excess.idle.size == 0 and tried_at is not None:
            self.rounds.ended(environment_id, tried_at, now)
        elif idle == 0 and excess.left is not None and (excess.left <= 0 or excess.size == 0):
            excess.left = None
            self.rounds.tried(environment_id, now)

    def size(self, environment_id: str) -> int:
        """How many idle and coming runners a pool has beyond its target."""
        excess = self._pools.get(environment_id)
        return excess.size if excess is not None else 0

    def story(self, environment_id: str) -> str:
        """How a surplus came about; empty if there is none."""
        excess = self._pools.get(environment_id)
        if excess is None or not excess.size:
            return ""
        parts = [f"{number} {how}" for how, number in sorted(excess.came.items())]
        if excess.lowered_from is not None:
            parts.append(f"the target was lowered from {excess.lowered_from} to {excess.target}")
        return ", ".join(parts) or "it was so when we began to look"

    def is_wanted(self, environment_id: str) -> bool:
        """Whether runners of a pool are to be stopped, now or later."""
        excess = self._pools.get(environment_id)
        trims = self._desk.policy_of(environment_id).surplus == "trim"
        return trims and excess is not None and excess.idle.size > 0

    def claims_settle_at(self, environment_id: str) -> float:
        """From when on no claim in a pool is too recent."""
        settle_s = self._desk.policy_of(environment_id).settle_s
        return self._desk.model.environments[environment_id].claimed_at + settle_s

    def waits_until(self, environment_id: str, now: float) -> float | None:
        """From when on a runner of a pool may be stopped; None for now."""
        idle = self._pools[environment_id].idle
        settle_s = self._desk.policy_of(environment_id).settle_s
        lasted_at = now if idle.older_than(settle_s, now) else idle.next_at(settle_s, now)
        ready_at = max(self.claims_settle_at(environment_id), self.rounds.ready_at(environment_id), lasted_at or now)
        return ready_at if ready_at > now else None

    def plan(self, environment_id: str, now: float) -> list[Action]:
        """The idle runners to stop at `now`."""
        desk = self._desk
        if not self.is_wanted(environment_id):
            return []
        wait_until = self.waits_until(environment_id, now)
        if wait_until is not None:
            desk.alarm.set(wait_until)
            return []
        excess, settle_s = self._pools[environment_id], desk.policy_of(environment_id).settle_s
        old_enough = excess.idle.older_than(settle_s, now)
        idle = self._idle_runners(environment_id)
        asked = [job for job in idle if desk.ledger.is_done("stop-surplus", job.id, job.create_index)]
        room = min(AT_ONCE, old_enough) - len(asked)
        actions: list[Action] = []
        for job in idle:
            if len(actions) >= room:
                break
            if job in asked:
                continue
            if not self.rate.take(now):
                desk.alarm.set(self.rate.next_at())
                break
            desk.ledger.do_once("stop-surplus", job.id, job.create_index)
            excess.left = (excess.size if excess.left is None else excess.left) - 1
            reason = f"{self.size(environment_id)} more than the target: {self.story(environment_id)}"
            actions.append(Action(now, "stop-surplus", environment_id, job.id, reason))
        return actions

    def _idle_runners(self, environment_id: str) -> list[Job]:
        """The idle runners of an environment, the youngest first."""
        verdicts = self._desk.diagnosis.verdicts
        runners = self._desk.model.environments[environment_id].runners.values()
        idle = [job for job in runners if job.id in verdicts and verdicts[job.id].state == "idle"]
        return sorted(idle, key=lambda job: (job.create_index, job.id), reverse=True)


def _how_it_came(change: Change) -> str:
    before = change.before.state if change.before is not None else None
    if before in ("disconnected", "leaving"):
        return _RETURNED
    if before in ("lost", "gone"):
        return _REVIVED
    return _OURS if is_derived(change.job.id) else _OTHERS
