"""A small Nomad: makes histories that a real one could have told, and knows what is true meanwhile.

It sends what a server sends, in the order of the recordings: a node goes down, evaluations follow, each is worked on in
an index of its own, and much later the agents say what became of their allocations. The batch scheduler's trap is in
here too: an old allocation that is reported complete ends the job. Nothing happens by itself: whoever writes a history
says what happens next.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from tests.core.builders import START, Wire, allocation, evaluation, event, job, node, node_id

TABLES: Final = ("Jobs", "Allocations", "Nodes", "Evaluations")
LIVE: Final = ("pending", "blocked")
PLACED: Final = ("pending", "running", "unknown")
_AWAY: Final = ("down", "disconnected")


class Cluster:
    """Jobs, allocations, evaluations and nodes as the servers have them, and what really runs on the agents.

    Attributes:
        sent: the lines of the stream, each with the time at which it was sent.
        indexes: the index of each table, as its list would carry it.
        versions: the job version of each allocation, which only lists tell.
        processes: the allocations whose task really runs, and when it ends by itself (agents without a server).
        evictions: whether a drain leaves batch jobs without a successor, as newer servers do.
    """

    def __init__(self, nodes: int = 3, *, stop_after_s: float | None = None, evictions: bool = False) -> None:
        self.index, self.now = 0, START
        self.sent: list[tuple[float, bytes]] = []
        self.indexes = dict.fromkeys(TABLES, 0)
        self.jobs: dict[str, Wire] = {}
        self.allocations: dict[str, Wire] = {}
        self.evaluations: dict[str, Wire] = {}
        self.nodes: dict[str, Wire] = {}
        self.versions: dict[str, int] = {}
        self.attempts: dict[str, int] = {}
        self.processes: dict[str, float] = {}
        self.stop_after_s = stop_after_s
        self.evictions = evictions
        self._serial = 0
        for number in range(1, nodes + 1):
            self.nodes[node_id(number)] = node(node_id(number), index=self.advance())
            self.send("Nodes", event(self.nodes[node_id(number)]))

    # --- what is sent -------------------------------------------------------------------------------------------

    def advance(self) -> int:
        """Opens the next index."""
        self.index += 1
        return self.index

    def send(self, *events: Any) -> None:
        """Sends a line of the present index; a table's name among the events says that it changed."""
        for table in (each for each in events if isinstance(each, str)):
            self.indexes[table] = self.index
        told = [each for each in events if not isinstance(each, str)]
        self.sent.append((self.now, orjson.dumps({"Index": self.index, "Events": told})))

    def touch(self, wire: Wire, **changes: Any) -> Wire:
        """Changes an object at the present index; returns the event that tells of it."""
        wire.update(changes)
        wire["ModifyIndex"] = self.index
        return event(wire)

    def name(self, kind: str) -> str:
        """A new id; they sort otherwise than they were made."""
        self._serial += 1
        return f"{self._serial * 7919 % 9973:04x}{kind}{self._serial}"

    def timestamp(self, after_s: float) -> str:
        return datetime.fromtimestamp(self.now + after_s, UTC).isoformat().replace("+00:00", "Z")

    def lists(self, tables: Iterable[str] = TABLES, *, stubs: bool = False) -> Wire:
        """The lists of these tables as the API gives them now, each with its index."""
        objects = {"Jobs": self.jobs, "Allocations": self.allocations, "Nodes": self.nodes}
        found: Wire = {"Indexes": {}}
        for table in tables:
            rows = [dict(wire) for wire in objects.get(table, self.evaluations).values()]
            for row in rows:
                if table == "Jobs" and stubs:
                    del row["TaskGroups"], row["Version"]
                elif table == "Allocations":
                    row["JobVersion"] = self.versions[row["ID"]]
            found[table] = rows
            found["Indexes"][table] = self.indexes[table]
        return found

    # --- what is true -------------------------------------------------------------------------------------------

    def allocations_of(self, job_id: str) -> list[Wire]:
        return [wire for wire in self.allocations.values() if wire["JobID"] == job_id]

    def live_evaluations(self, job_id: str) -> list[Wire]:
        return [wire for wire in self.evaluations.values() if wire["JobID"] == job_id and wire["Status"] in LIVE]

    def placed(self, job_id: str) -> list[Wire]:
        """The allocations that the servers want to run and believe not to have ended."""
        return [wire for wire in self.allocations_of(job_id) if is_placed(wire)]

    def has_future(self, job_id: str) -> bool:
        """Whether a job runs, or Nomad will see to it."""
        wire = self.jobs.get(job_id)
        return wire is not None and not wire["Stop"] and bool(self.placed(job_id) or self.live_evaluations(job_id))

    def is_used(self, job_id: str) -> bool:
        return bool(self.jobs[job_id]["TaskGroups"][1]["Meta"]["used"] == "true")

    def is_away(self, node_id_: str) -> bool:
        return node_id_ not in self.nodes or self.nodes[node_id_]["Status"] in _AWAY

    def runs(self, allocation_id: str) -> bool:
        """Whether a task really runs, whatever the servers believe."""
        return self.processes.get(allocation_id, 0.0) > self.now

    def room(self) -> list[str]:
        """The nodes that can take an allocation, the emptiest first."""
        ready = [id_ for id_, wire in self.nodes.items() if wire["Status"] == "ready" and "DrainStrategy" not in wire]
        load = dict.fromkeys(ready, 0)
        for wire in self.allocations.values():
            if is_placed(wire) and wire["NodeID"] in load:
                load[wire["NodeID"]] += 1
        return sorted(ready, key=lambda id_: (load[id_], id_))

    def schedulable(self) -> list[Wire]:
        """The evaluations that the scheduler can work on now."""
        room = bool(self.room())
        return [
            wire
            for wire in self.evaluations.values()
            if (wire["Status"] == "pending" and wire.get("DueAt", 0.0) <= self.now)
            or (wire["Status"] == "blocked" and room)
        ]

    # --- jobs ---------------------------------------------------------------------------------------------------

    def register(self, job_id: str, **settings: Any) -> None:
        """Registers a new job, or a new version of one, that can be brought about in place. `settings`: as of `job`."""
        index = self.advance()
        old = self.jobs.get(job_id)
        group = {"StopAfterClientDisconnect": int(self.stop_after_s * 1e9)} if self.stop_after_s else None
        if old is None:
            wire = self.jobs[job_id] = job(job_id, "pending", index=index, group=group, **settings)
        else:
            kept = {"created": old["CreateIndex"], "registered": index, "version": old["Version"] + 1}
            wire = self.jobs[job_id] = job(job_id, old["Status"], index=index, group=group, **kept, **settings)
        self.send("Jobs", event(wire))
        self.evaluate(job_id, "JobRegistered")

    def evaluate(self, job_id: str, type_: str, status: str = "pending", **more: Any) -> Wire:
        """Adds an evaluation at the present index, in a line of its own, with what it makes of the job's status."""
        wire = evaluation(self.name("e"), job_id, status, index=self.index, **more)
        self.evaluations[wire["ID"]] = wire
        self.send("Evaluations", event(wire, type_), *self.settle_status(job_id, type_))
        return wire

    def settle_status(self, job_id: str, type_: str) -> list[Any]:
        """Brings a job's status up to date; returns the event of it, if it changed."""
        wire = self.jobs.get(job_id)
        if wire is None:
            return []
        status = "running" if self.placed(job_id) else "pending" if self.live_evaluations(job_id) else "dead"
        if status == wire["Status"]:
            return []
        self.touch(wire, Status=status)
        return ["Jobs", event(wire, type_)]

    def stop(self, job_id: str) -> None:
        """Deregisters a job without purging it."""
        wire = self.jobs[job_id]
        wire["JobModifyIndex"] = self.advance()
        self.send("Jobs", {**self.touch(wire, Stop=True, Version=wire["Version"] + 1), "Type": "JobDeregistered"})
        self.evaluate(job_id, "JobDeregistered")

    def purge(self, job_id: str, *, tells_of_job: bool = False) -> None:
        """Deregisters a job for good; newer servers tell of the job too."""
        self.advance()
        wire = self.jobs.pop(job_id)
        if tells_of_job:
            self.touch(wire, Stop=True)
            self.send("Jobs", event(wire, "JobDeregistered", Deleted=True))
        self.indexes["Jobs"] = self.index
        self.evaluate(job_id, "JobDeregistered")

    def collect(self, job_id: str) -> None:
        """Collects a dead job with all that hangs on it; only its end is told."""
        self.advance()
        del self.jobs[job_id]
        for table in (self.allocations, self.evaluations):
            for id_ in [id_ for id_, wire in table.items() if wire["JobID"] == job_id]:
                del table[id_]
        self.indexes.update(Jobs=self.index, Allocations=self.index)
        self.evaluate(job_id, "JobBatchDeregistered")

    def collect_ended(self) -> None:
        """Collects evaluations that are over, and allocations that nothing can come of, without a word."""
        self.advance()
        ended = [id_ for id_, wire in self.evaluations.items() if wire["Status"] not in LIVE]
        for id_ in ended:
            del self.evaluations[id_]
        for id_ in [id_ for id_, wire in self.allocations.items() if self._is_over(wire)]:
            del self.allocations[id_]
        self.indexes.update(Evaluations=self.index, Allocations=self.index)

    def _is_over(self, wire: Wire) -> bool:
        ended = wire["ClientStatus"] in ("complete", "failed", "lost") and not self.runs(wire["ID"])
        return ended and (wire["JobID"] not in self.jobs or bool(wire.get("NextAllocation")))

    # --- nodes and agents ---------------------------------------------------------------------------------------

    def lose_node(self, id_: str, status: str = "down", *, crash: bool) -> None:
        """The servers hear no more of an agent. Unless it crashed, what stands on it runs on."""
        for wire in self._standing_on(id_):
            if crash:
                self.processes.pop(wire["ID"], None)
            elif wire["ID"] in self.processes and self.stop_after_s is not None:
                self.processes[wire["ID"]] = min(self.processes[wire["ID"]], self.now + self.stop_after_s)
        self._change_node(id_, Status=status)

    def return_node(self, id_: str) -> None:
        """An agent is back; what it has to say about its allocations comes later."""
        self._change_node(id_, Status="ready")

    def remove_node(self, id_: str) -> None:
        """A node that is down is collected: its event tells it as it was."""
        self.advance()
        wire = self.nodes.pop(id_)
        for each in self._standing_on(id_):
            self.processes.pop(each["ID"], None)
        self.send("Nodes", event(wire, "NodeDeregistration"))

    def drain(self, id_: str, *, on: bool) -> None:
        """Begins a drain, or ends it."""
        wire = self.nodes[id_]
        wire.pop("DrainStrategy", None)
        self.advance()
        self.send("Nodes", self.touch(wire, **({"DrainStrategy": {"Deadline": 60}} if on else {})))
        standing = [each for each in self._standing_on(id_) if is_placed(each)]
        if not on or not standing:
            return
        self.advance()
        order = {"Migrate": True, **({"MigrateDisablePlacement": True} if self.evictions else {})}
        self.send("Allocations", *[self.touch(each, DesiredTransition=order) for each in standing])
        for job_id in sorted({each["JobID"] for each in standing}):
            self.evaluate(job_id, "AllocationUpdateDesiredStatus")

    def _change_node(self, id_: str, **changes: Any) -> None:
        self.advance()
        self.send("Nodes", self.touch(self.nodes[id_], **changes))
        self.advance()
        for job_id in sorted({each["JobID"] for each in self._standing_on(id_)}):
            if job_id in self.jobs:
                self.evaluate(job_id, "EvaluationUpdated")

    def _standing_on(self, id_: str) -> list[Wire]:
        return [wire for wire in self.allocations.values() if wire["NodeID"] == id_]

    def report(self, id_: str, *, halfway: bool = False) -> None:
        """An agent says what became of its allocations: those that were to start run, those that were to stop have.

        `halfway`: what is to stop still runs.
        """
        self.advance()
        news: list[Any] = []
        reconnected = []
        for wire in self._standing_on(id_):
            before, status = wire["ClientStatus"], self._status_on_agent(wire, halfway=halfway)
            if status != before:
                news.append(self.touch(wire, ClientStatus=status, TaskStates=_task(status, wire)))
                news += self.settle_status(wire["JobID"], "AllocationUpdated")
                if before == "unknown":
                    reconnected.append(wire["JobID"])
        if news:
            self.send("Allocations", *news)
        for job_id in reconnected:
            self.evaluate(job_id, "AllocationUpdated")

    def _status_on_agent(self, wire: Wire, *, halfway: bool) -> str:
        id_, told = wire["ID"], str(wire["ClientStatus"])
        if wire["DesiredStatus"] == "stop":
            if told in ("complete", "failed"):
                return told
            if halfway and self.runs(id_):
                return "running"
            self.processes.pop(id_, None)
            return "complete"
        if told == "pending":
            self.processes[id_] = float("inf")
            return "running"
        if told == "unknown":
            return "running" if self.runs(id_) else "failed"
        return told

    def restart(self, id_: str) -> None:
        """A task ends and is started again in place."""
        wire = self.allocations[id_]
        restarts = wire["TaskStates"]["default-task"]["Restarts"] + 1
        self.advance()
        state = {"default-task": {"State": "pending", "Restarts": restarts}}
        self.send("Allocations", self.touch(wire, ClientStatus="pending", TaskStates=state))

    def end_task(self, id_: str, status: str) -> None:
        """A task ends by itself, `complete` or `failed`; a failed one may be worth another attempt."""
        wire = self.allocations[id_]
        self.advance()
        self.processes.pop(id_, None)
        told = self.touch(wire, ClientStatus=status, TaskStates=_task(status, wire))
        self.send("Allocations", told, *self.settle_status(wire["JobID"], "AllocationUpdated"))
        if status == "failed" and self.attempts[id_] > 0 and wire["JobID"] in self.jobs:
            self.evaluate(wire["JobID"], "AllocationUpdated")


def is_placed(wire: Wire) -> bool:
    """Whether an allocation is meant to run and has not ended, by what the servers know."""
    return wire["DesiredStatus"] == "run" and wire["ClientStatus"] in PLACED


def _task(status: str, wire: Wire) -> Wire:
    states = {"pending": "pending", "running": "running"}
    restarts = wire["TaskStates"]["default-task"]["Restarts"]
    return {"default-task": {"State": states.get(status, "dead"), "Restarts": restarts}}


def new_allocation(cluster: Cluster, job_id: str, home: str, **links: Any) -> Wire:
    """An allocation that is placed at the present index."""
    return allocation(cluster.name("a"), job_id, "pending", index=cluster.index, node=home, **links)
