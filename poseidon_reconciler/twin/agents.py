"""A Nomad agent on a machine: it registers, pulls its allocations, and reports what became of them.

The order in which a returning agent speaks is what kills jobs, so it is kept: it registers, pulls, and then reports
every 200 ms; its first heartbeat, which makes its node `ready` again, may come before all that or seconds later.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from poseidon_reconciler.twin.kernel import Kernel, Timer
from poseidon_reconciler.twin.local import LocalAllocation
from poseidon_reconciler.twin.records import Allocation, NodeSpec
from poseidon_reconciler.twin.reports import Report
from poseidon_reconciler.twin.runner import AgentPace, Runner
from poseidon_reconciler.twin.tasks import Script


class Servers(Protocol):
    """What an agent needs of the servers."""

    @property
    def reachable(self) -> bool:
        """Whether there is a leader to talk to."""

    def register(self, node_id: str, spec: NodeSpec, status: str) -> str:
        """An agent tells that it is there; gives the status that it has."""

    def heartbeat(self, node_id: str) -> None:
        """An agent tells that it still is."""

    def miss(self, node_id: str) -> None:
        """From now on an agent's heartbeats are missing."""

    def report(self, node_id: str, reports: list[Report]) -> bool:
        """An agent tells what became of its allocations; says whether it was heard."""

    def allocations_on(self, node_id: str) -> list[Allocation]:
        """All allocations that the servers know on a node."""

    def allocation(self, identity: str) -> Allocation | None:
        """One allocation, if the servers know it."""


class Agent:
    """One agent. `up`: its process runs; `frozen`: it is halted; `linked`: it can reach the servers."""

    def __init__(self, kernel: Kernel, servers: Servers, spec: NodeSpec, pace: AgentPace, script: Script) -> None:
        self._kernel = kernel
        self._servers = servers
        self.spec = spec
        self.pace = pace
        self.node_id = kernel.new_id()
        self.up = self.frozen = self._registered = False
        self.linked = True
        self._runner = Runner(kernel, pace, script, self._after, self._mark)
        self._life = 0
        self._phase = 0.0
        self._halted: list[Callable[[], None]] = []
        self._dirty: dict[str, LocalAllocation] = {}
        self._told: dict[str, None] = {}
        self._pull: Timer | None = None
        self._report: Timer | None = None

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def local(self) -> dict[str, LocalAllocation]:
        """What the agent knows of its allocations, by id."""
        return self._runner.local

    @property
    def in_touch(self) -> bool:
        """Whether agent and servers hear each other."""
        return self.up and not self.frozen and self.linked and self._servers.reachable

    def start(self) -> None:
        """Starts the agent's process."""
        if self.up:
            return
        self.up, self._registered = True, False
        self._life += 1
        self._runner.restore()
        self._after(self._kernel.spread(self.pace.boot_s), self._register)

    def stop(self) -> None:
        """Kills the agent's process; the tasks run on."""
        if not self.up:
            return
        was_registered = self._registered
        self.up = self.frozen = self._registered = False
        self._life += 1
        self._halted.clear()
        self._pull = self._report = None
        self._runner.abandon()
        if was_registered:
            self._servers.miss(self.node_id)

    def reboot(self) -> None:
        """The machine goes down: the agent and all its tasks are gone. `start` brings it back."""
        self.stop()
        self._runner.kill_processes()

    def lose_disk(self, *, new_identity: bool = True) -> None:
        """The machine goes down and forgets all; it comes back as a new node, unless its identity is kept elsewhere."""
        self.reboot()
        self._runner.local.clear()
        self._dirty.clear()
        if new_identity:
            self.node_id = self._kernel.new_id()

    def freeze(self) -> None:
        """Halts the agent's process; the tasks run on."""
        if self.up and not self.frozen:
            self.frozen = True
            self._runner.watching = False
            self._servers.miss(self.node_id)

    def thaw(self) -> None:
        """The agent's process goes on where it was halted, and finds its heartbeat overdue."""
        if not self.frozen:
            return
        self.frozen = False
        halted, self._halted = self._halted, []
        self._runner.watching = True
        for action in halted:
            action()
        self._runner.notice_ends()
        self._back_in_touch()

    def cut(self) -> None:
        """The agent and the servers do not reach each other any more."""
        if self.linked:
            self.linked = False
            self.out_of_touch()

    def heal(self) -> None:
        """The agent and the servers reach each other again."""
        self.linked = True
        self._back_in_touch()

    def out_of_touch(self) -> None:
        """The servers are out of reach: groups that ask for it are stopped when that has lasted."""
        if not self.up:
            return
        self._servers.miss(self.node_id)
        for local in list(self.local.values()):
            if local.stop_after_s is not None and not local.dead:
                self._after(local.stop_after_s, lambda held=local: self._stop_if_away(held))  # type: ignore[misc]

    def resync(self) -> None:
        """The servers are back, or are not what they were: everything is compared anew."""
        self._back_in_touch()

    def told_of(self, allocation_id: str) -> None:
        """The servers changed what they want of an allocation on this node."""
        if self._registered:
            self._told[allocation_id] = None
            self._plan_pull()

    def _after(self, delay_s: float, action: Callable[[], None]) -> Timer:
        """Does something later in this life of the agent's process; a halted process does it when it goes on."""
        life = self._life

        def act() -> None:
            if life == self._life:
                if self.frozen:
                    self._halted.append(act)
                else:
                    action()

        return self._kernel.after(delay_s, act)

    def _back_in_touch(self) -> None:
        if not self.in_touch:
            return
        if not self._registered:
            self._register()
            return
        self._after(self._kernel.spread(0.02), self._heartbeat)
        self._after(self._kernel.spread(self.pace.pull_s), self._pull_all)
        self._plan_pull()
        self._plan_report()

    def _register(self) -> None:
        if not self.in_touch or self._registered:
            return
        self._registered = True
        self._phase = self._kernel.now + self.pace.first_report_s
        self._told.clear()
        waits = self._servers.register(self.node_id, self.spec, "initializing") == "down"
        rng = self._kernel.rng
        prompt = rng.random() < self.pace.prompt_share
        wait_s = self._kernel.spread(0.006) if prompt else rng.uniform(0.0, self.pace.heartbeat_s)
        self._after(wait_s, self._heartbeat)
        # A node that is still given up asks for its allocations only when it has been taken back.
        self._after((wait_s if waits else 0.0) + self._kernel.spread(self.pace.pull_s), self._pull_all)
        self._after(rng.uniform(0.75, 1.35) * self.pace.fingerprint_s, self._fingerprint)
        self._plan_report()

    def _heartbeat(self) -> None:
        if self.in_touch:
            self._servers.heartbeat(self.node_id)

    def _fingerprint(self) -> None:
        if self.in_touch:
            self._servers.register(self.node_id, self.spec, "ready")

    def _plan_pull(self) -> None:
        if self._told and self._pull is None and self.in_touch:
            self._pull = self._after(self._kernel.spread(self.pace.pull_s), self._pull_told)

    def _pull_told(self) -> None:
        self._pull = None
        if not self.in_touch:
            return
        told, self._told = self._told, {}
        for identity in told:
            allocation = self._servers.allocation(identity)
            if allocation is None:
                self._runner.forget(identity)
            elif allocation.node_id == self.node_id:
                self._runner.take(allocation)

    def _pull_all(self) -> None:
        if not self.in_touch:
            return
        known = {allocation.id: allocation for allocation in self._servers.allocations_on(self.node_id)}
        for identity in [identity for identity in self.local if identity not in known]:
            self._runner.forget(identity)
        for allocation in known.values():
            self._runner.take(allocation)

    def _stop_if_away(self, local: LocalAllocation) -> None:
        if not self.in_touch:
            self._runner.stop(local)

    def _mark(self, local: LocalAllocation) -> None:
        """There is something to tell the servers about an allocation."""
        self._dirty[local.id] = local
        self._plan_report()

    def _plan_report(self) -> None:
        if not self._dirty or self._report is not None or not self._registered or not self.in_touch:
            return
        ticks = math.floor((self._kernel.now - self._phase) / self.pace.report_s) + 1
        due = self._phase + max(0, ticks) * self.pace.report_s
        self._report = self._after(due - self._kernel.now, self._flush)

    def _flush(self) -> None:
        self._report = None
        if not self.in_touch:
            return
        dirty, self._dirty = self._dirty, {}
        reports = [local.report() for local in dirty.values()]
        if reports and not self._servers.report(self.node_id, reports):
            self._dirty = {**dirty, **self._dirty}
            self._report = self._after(self.pace.report_again_s, self._flush)
