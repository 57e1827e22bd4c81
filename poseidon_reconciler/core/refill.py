"""Which runners are created: what each pool lacks, for how long it has, and how much of that at once.

A deficit is filled when it has lasted for `settle`, so that Poseidon goes first; then within what the ready nodes can
start, within the rate, within what exists already, and one at a time where new runners fail. The pool that is closest
to empty comes first, for each single runner, so that no pool waits for another to be full.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from poseidon_reconciler.core.deficit import Deficit
from poseidon_reconciler.core.desk import Desk
from poseidon_reconciler.core.diagnosis import Pool
from poseidon_reconciler.core.ids import refill_id, replacement_id, template_id
from poseidon_reconciler.core.ledger import Action
from poseidon_reconciler.core.pace import RateLimit, jitter
from poseidon_reconciler.core.poison import Poison
from poseidon_reconciler.core.records import Job


class Refill:
    """The deficits of all pools, and the creations that fill them.

    Attributes:
        rate: how many are created in a second.
        poison: the environments whose new runners fail.
    """

    def __init__(self, desk: Desk) -> None:
        self.rate = RateLimit(desk.policy.pace.max_creates_per_second)
        self._desk = desk
        self.clear()

    def clear(self) -> None:
        """A new epoch of the cluster began."""
        self.poison = Poison()
        self._deficits: dict[str, Deficit] = {}
        # Creations of which nobody knows whether they came about, to be asked for once more.
        self._repeats: dict[str, Action] = {}

    def repeat_later(self, action: Action) -> None:
        """A creation may have come about or not: it is asked for again under its name."""
        self._repeats[action.job_id] = action

    @property
    def repeats(self) -> bool:
        """Whether any creation is to be asked for once more."""
        return bool(self._repeats)

    def forget_environment(self, environment_id: str) -> None:
        """The environment is no longer remembered."""
        self._deficits.pop(environment_id, None)
        self.poison.forget_environment(environment_id)

    # --- what is lacking -----------------------------------------------------------------------------------------

    def assess(self, environment_id: str, now: float) -> None:
        """Brings up to date what an environment lacks."""
        self.poison.look(environment_id, now)
        pool = self._desk.diagnosis.pools[environment_id]
        target = self._desk.target(environment_id)
        size = max(0, self._limit(pool, target) - self._provided(pool)) if target is not None else 0
        deficit = self._deficits.setdefault(environment_id, Deficit())
        if size != deficit.size:
            deficit.set(size, now)

    def lacking(self, environment_id: str) -> Deficit | None:
        """What an environment lacks, by age, what is asked for not counted as lacking; None if nothing."""
        deficit = self._deficits.get(environment_id)
        return deficit if deficit is not None and deficit.size else None

    def _limit(self, pool: Pool, target: int) -> int:
        """How many runners may be idle or coming by our doing: within the surge, what Nomad has yet to bring back is
        ordered besides.
        """
        return target + min(self._desk.policy_of(pool.environment_id).surge, pool.counted.get("recovering", 0))

    def _provided(self, pool: Pool) -> int:
        return pool.counting + self._desk.ledger.expected_in(pool.environment_id)

    # --- how much of it at once ----------------------------------------------------------------------------------

    def room_to_start(self) -> int:
        """How many more runners may be starting at once, over all environments."""
        desk = self._desk
        nodes = [node for node in desk.model.nodes.values() if node.status]
        ready = sum(node.status == "ready" and not node.draining for node in nodes) if nodes else 1
        starting = sum(pool.count("starting") for pool in desk.diagnosis.pools.values())
        expected = desk.ledger.expected_total if not desk.imagines else 0
        return desk.policy.pace.max_starting_per_node * ready - starting - expected

    def room_in(self, environment_id: str) -> int:
        """How many more unused runners an environment may have in existence, dead ones and expected ones counted."""
        desk = self._desk
        pool, target = desk.diagnosis.pools[environment_id], desk.target(environment_id) or 0
        existing = sum(number for state, number in pool.states.items() if state not in ("gone", "used"))
        most = desk.policy_of(environment_id).most_jobs(target)
        room = most - existing - desk.ledger.expected_in(environment_id)
        # Used ones that are dead or out of reach are looked for only where they could make a difference.
        return room if room > 0 else room + self._used_but_not_live(environment_id)

    def _used_but_not_live(self, environment_id: str) -> int:
        verdicts = self._desk.diagnosis.verdicts
        runners = self._desk.model.environments[environment_id].runners
        used = [verdicts[job_id].state for job_id, job in runners.items() if job.used and job_id in verdicts]
        return sum(state not in ("gone", "used") for state in used)

    def _trust(self, pool: Pool, now: float) -> int | None:
        """How many more runners an environment is trusted with while its new ones fail; None for any number."""
        poisoning = self.poison.of(pool.environment_id)
        if poisoning is None:
            return None
        if now < poisoning.ready_at:
            self._desk.alarm.set(poisoning.ready_at)
            return 0
        proven_at = self.poison.proven_at(pool.environment_id)
        self._desk.alarm.set(proven_at)
        coming = sum(pool.counted.get(state, 0) for state in ("starting", "recovering", "blocked"))
        on_trial = coming + (proven_at is not None) + self._desk.ledger.expected_in(pool.environment_id)
        return max(0, 1 - on_trial)

    def _wanted(self, pool: Pool, now: float) -> int:
        """How many runners of a pool are to be created now, as far as the pool itself is concerned."""
        deficit = self._deficits[pool.environment_id]
        settle_s = self._desk.policy_of(pool.environment_id).settle_s
        ready = deficit.older_than(settle_s, now)
        if deficit.size > ready:
            self._desk.alarm.set(deficit.next_at(settle_s, now))
        if not ready:
            return 0
        trusted = self._trust(pool, now)
        wanted = min(ready, self.room_in(pool.environment_id))
        return max(0, wanted if trusted is None else min(wanted, trusted))

    # --- what is created -----------------------------------------------------------------------------------------

    def plan(self, environment_ids: Iterable[str], now: float) -> list[Action]:
        """The runners to create at `now` in these environments."""
        pools = [self._desk.diagnosis.pools[environment_id] for environment_id in environment_ids]
        wanted = {pool.environment_id: number for pool in pools if (number := self._wanted(pool, now))}
        sources = {pool.environment_id: self._sources(pool, now) for pool in pools if pool.environment_id in wanted}
        actions: list[Action] = []
        room = self.room_to_start()
        while wanted and len(actions) < room:
            if not self.rate.take(now):
                self._desk.alarm.set(self.rate.next_at())
                break
            environment_id = min(wanted, key=self._fullness)
            wanted[environment_id] -= 1
            if not wanted[environment_id]:
                del wanted[environment_id]
            action = next(sources[environment_id])
            self.rate.put_off(jitter(action.job_id))
            self._desk.ledger.expect(action.job_id, environment_id)
            self._deficits[environment_id].fill()
            actions.append(action)
        return actions

    def _fullness(self, environment_id: str) -> tuple[float, str]:
        pool = self._desk.diagnosis.pools[environment_id]
        soon = pool.count("idle") + pool.count("starting") + self._desk.ledger.expected_in(environment_id)
        return soon / max(1, self._desk.target(environment_id) or 0), environment_id

    def _sources(self, pool: Pool, now: float) -> Iterator[Action]:
        """The creations of a pool: what takes the place of a loss first, the oldest first; then what replaces nothing
        known. A pool that is short and knows of no loss lacks runners that nobody saw, or never had them.
        """
        environment_id, verdicts = pool.environment_id, self._desk.diagnosis.verdicts
        # One that still counts is to be removed first: until then it may run after all.
        losses = [job for job in pool.lost.values() if not job.used and not verdicts[job.id].counts]
        for lost in [job for job in losses if not self.is_replaced(job)]:
            job_id = replacement_id(environment_id, lost.id, lost.create_index)
            reason = f"replaces a runner that is lost: {verdicts[lost.id].cause}"
            self._desk.ledger.do_once("create-runner", lost.id, lost.create_index)
            yield Action(now, "create-runner", environment_id, job_id, reason, replaces=lost.id)
        for job_id in self._free_refill_ids(environment_id):
            short = f"the pool is {self._deficits[environment_id].size} short"
            reason = f"{short} of its target {self._desk.target(environment_id)}"
            yield Action(now, "create-runner", environment_id, job_id, reason)

    def is_replaced(self, job: Job) -> bool:
        """Whether another was asked for in the place of a job that was lost."""
        if self._desk.ledger.is_done("create-runner", job.id, job.create_index):
            return True
        return replacement_id(job.environment_id, job.id, job.create_index) in self._desk.model.jobs

    def _free_refill_ids(self, environment_id: str) -> Iterator[str]:
        """The names of the pool that are not in use: the same for everybody who sees the same."""
        version = self._desk.model.jobs[template_id(environment_id)].job_modify_index
        for number in itertools.count():
            job_id = refill_id(environment_id, version, number)
            if job_id not in self._desk.model.jobs and not self._desk.ledger.is_expected(job_id):
                yield job_id

    # --- what may have been created ------------------------------------------------------------------------------

    def repeat(self, now: float) -> list[Action]:
        """Asks once more for what may have been created, where it is still lacking, within the same bounds."""
        desk = self._desk
        actions = []
        for action in list(self._repeats.values()):
            if desk.ledger.is_expected(action.job_id):
                if desk.is_paused(action.environment_id, now):
                    continue
                if self.is_too_much(action.environment_id):
                    # If it is there, it is too much; if the next list does not have it, it was never made.
                    desk.ledger.confirm(action.job_id, desk.model.index)
                elif self.room_to_start() < 0 or self.room_in(action.environment_id) < 0:
                    continue
                elif not self.rate.take(now):
                    desk.alarm.set(self.rate.next_at())
                    break
                else:
                    self.rate.put_off(jitter(action.job_id))
                    actions.append(replace(action, at=now))
            del self._repeats[action.job_id]
        return actions

    def is_too_much(self, environment_id: str) -> bool:
        """Whether a pool has more than it may have by our doing, what is asked for counted."""
        target = self._desk.target(environment_id)
        pool = self._desk.diagnosis.pools.get(environment_id)
        if target is None or pool is None:
            return True
        return self._provided(pool) > self._limit(pool, target)
