"""The servers' side of the nodes: registration, missed heartbeats, drains, and the evaluations that each change asks
for.

Agents that can be reached send heartbeats all the time; only what is missed is simulated.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from poseidon_reconciler.twin.evaluations import Evaluator
from poseidon_reconciler.twin.kernel import Timer
from poseidon_reconciler.twin.records import Allocation, Drain, Evaluation, JobKey, LastDrain, Node, NodeEvent, NodeSpec
from poseidon_reconciler.twin.state import State
from poseidon_reconciler.twin.traits import Traits

# How long the servers take to see that a drain has something to do.
_DRAIN_POLL_S = 1.0


class Heartbeats(Struct, frozen=True):
    """When the servers give a node up: a time to live between `min_ttl_s` and twice that, and the grace on top."""

    min_ttl_s: float = 10.0
    grace_s: float = 10.0


class Nodes:
    """What the servers do about nodes."""

    def __init__(self, state: State, evaluator: Evaluator, heartbeats: Heartbeats, traits: Traits) -> None:
        self._state = state
        self._kernel = state.kernel
        self._evaluator = evaluator
        self._traits = traits
        self.heartbeats = heartbeats
        self._expiries: dict[str, Timer] = {}

    def register(self, node_id: str, spec: NodeSpec, status: str) -> str:
        """An agent registers: at its start as `initializing`, later with the status that it thinks it has.

        Gives the status that the node has now.
        """
        known, now = self._state.nodes.get(node_id), self._kernel.now
        write = self._state.begin("NodeRegistration")
        if known is None:
            events: tuple[NodeEvent, ...] = (NodeEvent("Node registered", now),)
            node = Node(
                node_id, spec, computed_class(spec), write.index, write.index, status, updated_at=now, events=events
            )
        else:
            events = known.events
            if known.status == "down":
                events = (*events, NodeEvent("Node re-registered", now, write.index))[-10:]
                if self._traits.hears_only_live_nodes:
                    status = "down"
            node = replace(known, spec=spec, status=status, updated_at=now, events=events)
        write.put_node(node)
        write.commit()
        if known is not None:
            self._after_status(known, self._state.nodes[node_id])
        if node.status == "ready":
            # Its room is offered even if it was ready before, when its jobs are not looked at again.
            self._evaluator.unblock(node.computed_class)
        if status == "ready":
            self._cancel_expiry(node_id)
        else:
            self._expect_heartbeat(node_id, self._ttl_s())
        return self._state.nodes[node_id].status

    def heartbeat(self, node_id: str) -> None:
        """An agent is heard of: it is `ready`, whatever it was before."""
        self._cancel_expiry(node_id)
        node = self._state.nodes.get(node_id)
        if node is not None and node.status != "ready":
            missed = node.status in {"down", "disconnected"}
            self._set_status(node, "ready", "Node reregistered by heartbeat" if missed else None)

    def miss(self, node_id: str) -> None:
        """From now on an agent's heartbeats do not arrive; its last one came some time ago."""
        if node_id not in self._expiries:
            self._expect_heartbeat(node_id, self._ttl_s() * self._kernel.rng.random())

    def suspend(self) -> None:
        """Without a leader nobody is given up."""
        for node_id in list(self._expiries):
            self._cancel_expiry(node_id)

    def resume(self, reachable: Iterable[str]) -> None:
        """A new leader gives every agent that it does not hear of its time anew."""
        self.suspend()
        heard = set(reachable)
        for node in self._state.nodes.values():
            if node.id not in heard and node.status != "down":
                self._expect_heartbeat(node.id, self._ttl_s())

    def set_eligible(self, node_id: str, *, eligible: bool) -> None:
        """Lets the scheduler use a node, or not."""
        node = self._state.nodes[node_id]
        word = "eligible" if eligible else "ineligible"
        write = self._state.begin("NodeDrain")
        event = NodeEvent(f"Node marked as {word} for scheduling", self._kernel.now, write.index)
        changed = replace(
            node, eligible=eligible, events=node.events if node.eligible == eligible else (*node.events, event)
        )
        write.put_node(changed)
        write.commit()
        if eligible and not node.eligible:
            self._offer(changed)

    def drain(self, node_id: str, deadline_s: float, *, ignore_system_jobs: bool = False) -> None:
        """Empties a node: batch allocations may stay until the deadline (negative: at once; zero: for ever)."""
        node, now = self._state.nodes[node_id], self._kernel.now
        at = None if deadline_s == 0 else now + max(0.0, deadline_s)
        drain = Drain(now, deadline_s, at, ignore_system_jobs)
        write = self._state.begin("NodeDrain")
        event = NodeEvent("Node drain strategy set", now, write.index, "Drain")
        write.put_node(
            replace(
                node, drain=drain, eligible=False, last_drain=LastDrain(now, now, "draining"),
                events=(*node.events, event),
            )
        )  # fmt: skip
        write.commit()
        self._kernel.at((at if at is not None else now) + _DRAIN_POLL_S, lambda: self._drain_due(node_id, drain))

    def cancel_drain(self, node_id: str, *, eligible: bool) -> None:
        """Ends a drain before it is complete."""
        node = self._state.nodes[node_id]
        self._end_drain(node, "canceled", eligible=eligible)
        if eligible:
            self._offer(self._state.nodes[node_id])

    def _drain_due(self, node_id: str, drain: Drain) -> None:
        node = self._state.nodes.get(node_id)
        if node is None or node.drain != drain:
            return
        living = [a for a in self._state.allocations_on(node_id) if not a.terminal]
        if living and drain.deadline_at is None:
            self._kernel.after(_DRAIN_POLL_S, lambda: self._drain_due(node_id, drain))
            return
        if living:
            self.migrate(living, "node-drain", final=self._traits.drains_batch_for_good)
        self._end_drain(node, "complete", eligible=False)

    def migrate(self, allocations: list[Allocation], triggered_by: str, *, final: bool = False) -> list[Evaluation]:
        """Orders allocations away from their nodes; `final` means that batch allocations are not placed anew."""
        write = self._state.begin("AllocationUpdateDesiredStatus")
        for allocation in allocations:
            disable = final and allocation.job.type == "batch"
            write.put_allocation(replace(allocation, migrate=True, disable_placement=disable))
        made = [
            self._evaluator.create(write, key, triggered_by, job_modify_index=self._job_index(key, triggered_by))
            for key in dict.fromkeys(allocation.job_key for allocation in allocations)
        ]
        write.commit(settle=False)
        for evaluation in made:
            self._evaluator.enqueue(evaluation)
        return made

    def _job_index(self, key: JobKey, triggered_by: str) -> int:
        job = self._state.jobs.get(key)
        return job.job_modify_index if job is not None and triggered_by == "alloc-stop" else 0

    def evaluate(self, node: Node) -> list[Evaluation]:
        """Every job that ever had an allocation on the node is looked at again."""
        keys = dict.fromkeys(allocation.job_key for allocation in self._state.allocations_on(node.id))
        if not keys:
            return []
        write = self._state.begin("EvaluationUpdated")
        made = [
            self._evaluator.create(write, key, "node-update", node_id=node.id, node_modify_index=node.modify_index)
            for key in keys
        ]
        write.commit()
        for evaluation in made:
            self._evaluator.enqueue(evaluation)
        return made

    def _offer(self, node: Node) -> None:
        self.evaluate(node)
        if node.schedulable:
            self._evaluator.unblock(node.computed_class)

    def _set_status(self, node: Node, status: str, message: str | None) -> None:
        now = self._kernel.now
        write = self._state.begin("NodeStreamEvent")
        events = node.events if message is None else (*node.events, NodeEvent(message, now, write.index))[-10:]
        changed = replace(node, status=status, updated_at=now, events=events)
        write.put_node(changed)
        write.commit()
        self._after_status(node, self._state.nodes[node.id])

    def _after_status(self, before: Node, after: Node) -> None:
        if after.status in {"down", "disconnected"} and before.status != after.status:
            self.evaluate(after)
        elif after.status == "ready" and before.status != "ready":
            self._offer(after)

    def _ttl_s(self) -> float:
        return self.heartbeats.min_ttl_s * self._kernel.rng.uniform(1.0, 2.0)

    def _expect_heartbeat(self, node_id: str, within_s: float) -> None:
        self._cancel_expiry(node_id)
        due_s = within_s + self.heartbeats.grace_s
        self._expiries[node_id] = self._kernel.after(due_s, lambda: self._expire(node_id))

    def _cancel_expiry(self, node_id: str) -> None:
        timer = self._expiries.pop(node_id, None)
        if timer is not None:
            timer.cancel()

    def _expire(self, node_id: str) -> None:
        """No heartbeat came in time. A node is disconnected as long as anything on it may return, and is looked at
        again and again until then.
        """
        self._expiries.pop(node_id, None)
        node = self._state.nodes.get(node_id)
        if node is None or node.status == "down":
            return
        may_return = self._traits.knows_disconnects and node.status != "initializing"
        may_return = may_return and any(map(self._may_return, self._state.allocations_on(node_id)))
        self._set_status(node, "disconnected" if may_return else "down", "Node heartbeat missed")
        if may_return:
            self._expect_heartbeat(node_id, self._ttl_s())

    def _may_return(self, allocation: Allocation) -> bool:
        """Whether an allocation that is wanted may be out of reach for a while, whatever was heard of it last."""
        lost_after_s = _lost_after_s(allocation)
        if lost_after_s is None or allocation.desired_status != "run":
            return False
        since = allocation.unknown_at
        return allocation.client_status != "unknown" or since is None or self._kernel.now < since + lost_after_s

    def _end_drain(self, node: Node, status: str, *, eligible: bool) -> None:
        now, drain = self._kernel.now, node.drain
        if drain is None:
            return
        write = self._state.begin("NodeDrain")
        reached = {"deadline_reached": "true"} if status == "complete" and drain.deadline_at is not None else None
        event = NodeEvent(f"Node drain {status}", now, write.index, "Drain", reached)
        write.put_node(
            replace(
                node, drain=None, eligible=eligible, last_drain=LastDrain(drain.started_at, now, status),
                events=(*node.events, event),
            )
        )  # fmt: skip
        write.commit()


def _lost_after_s(allocation: Allocation) -> float | None:
    group = allocation.job.group(allocation.group_name)
    return group.lost_after_s if group is not None else None


def computed_class(spec: NodeSpec) -> str:
    """The class that nodes with the same abilities share."""
    shape = (
        spec.datacenter,
        spec.node_class,
        spec.cpu_mhz,
        spec.memory_mb,
        spec.drivers,
        sorted(spec.attributes.items()),
    )
    return f"v1:{zlib.crc32(repr(shape).encode()) << 20}"
