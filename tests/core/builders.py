"""A cluster's words, written the way Nomad sends them, and a reconciler that is fed with them by hand.

Every test of the core says what the server said, and when: nothing here decides anything. All of it goes through the
decoder, so that a test's events are as real as a recording's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson

from poseidon_reconciler.core.diagnosis import Change, Verdict
from poseidon_reconciler.core.events import Frame, Snapshot
from poseidon_reconciler.core.ledger import Action
from poseidon_reconciler.core.lines import Line, read_line
from poseidon_reconciler.core.reconciler import Reconciler, Step
from poseidon_reconciler.core.records import Job
from poseidon_reconciler.policy import Policy, PoolPolicy

Wire = dict[str, Any]

NODE: Final = "a0000000-0000-0000-0000-000000000001"
TEMPLATE: Final = "template-10"
RUNNER: Final = "10-11111111-1111-11f1-8000-000000000001"
START: Final = 1_800_000_000.0
_TABLES: Final = ("Jobs", "Allocations", "Nodes", "Evaluations")


def runner(number: int, environment_id: str = "10") -> str:
    """The id of the `number`-th runner, as Poseidon forms it."""
    return f"{environment_id}-{number:08x}-1111-11f1-8000-000000000001"


# --- objects, as the API lists them -------------------------------------------------------------------------------


def job(
    job_id: str = RUNNER,
    status: str = "running",
    *,
    index: int,
    created: int | None = None,
    registered: int | None = None,
    version: int = 0,
    used: bool = False,
    target: int | None = None,
    group: Mapping[str, Any] | None = None,
    **more: Any,
) -> Wire:
    """A whole job that was last changed at `index`, created and registered there too unless said otherwise."""
    meta = {"used": "true" if used else "false"}
    if target is not None:
        meta["prewarmingPoolSize"] = str(target)
    created = index if created is None else created
    groups = [
        {"Name": "default-group", "Count": 1, "Tasks": [{"Name": "default-task"}], **(group or {})},
        {"Name": "config", "Count": 0, "Meta": meta},
    ]
    return {
        "ID": job_id,
        "Type": "batch",
        "Status": status,
        "Stop": False,
        "Version": version,
        "CreateIndex": created,
        "ModifyIndex": index,
        "JobModifyIndex": created if registered is None else registered,
        "TaskGroups": groups,
        **more,
    }


def stub(whole: Wire) -> Wire:
    """The job as a list of jobs shows it."""
    return {key: value for key, value in whole.items() if key not in ("TaskGroups", "Version")}


def allocation(
    allocation_id: str,
    job_id: str = RUNNER,
    client: str = "running",
    desired: str = "run",
    *,
    index: int,
    created: int | None = None,
    node: str = NODE,
    task: str | None = None,
    restarts: int = 0,
    **more: Any,
) -> Wire:
    """An allocation that was last changed at `index`; its task is in the state that its status implies, or `task`."""
    created = index if created is None else created
    states = {"pending": "pending", "running": "running", "unknown": "running"}
    task_state = {"State": task or states.get(client, "dead"), "Restarts": restarts}
    return {
        "ID": allocation_id,
        "JobID": job_id,
        "TaskGroup": "default-group",
        "NodeID": node,
        "ClientStatus": client,
        "DesiredStatus": desired,
        "CreateIndex": created,
        "ModifyIndex": index,
        "AllocModifyIndex": created,
        "TaskStates": {"default-task": task_state},
        **more,
    }


def evaluation(
    evaluation_id: str,
    job_id: str = RUNNER,
    status: str = "complete",
    *,
    index: int,
    created: int | None = None,
    **more: Any,
) -> Wire:
    """An evaluation that was last changed at `index`."""
    return {
        "ID": evaluation_id,
        "JobID": job_id,
        "Status": status,
        "CreateIndex": index if created is None else created,
        "ModifyIndex": index,
        **more,
    }


def node(node_id: str = NODE, status: str = "ready", *, index: int, draining: bool = False, **more: Any) -> Wire:
    """A node that was last changed at `index`."""
    strategy = {"DrainStrategy": {"Deadline": 60}} if draining else {}
    return {"ID": node_id, "Name": f"agent-{node_id[:2]}", "Status": status, "ModifyIndex": index, **strategy, **more}


# --- events and lines ---------------------------------------------------------------------------------------------


def event(wire: Wire, type_: str | None = None, *, namespace: str = "default", **payload: Any) -> Wire:
    """The event that tells of an object; its topic follows from what the object is."""
    topic, usual = _kind_of(wire)
    return {
        "Topic": topic,
        "Type": type_ or usual,
        "Key": wire["ID"],
        "Namespace": "" if topic == "Node" else namespace,
        "Index": wire["ModifyIndex"],
        "Payload": {topic: wire, **payload},
    }


def _kind_of(wire: Wire) -> tuple[str, str]:
    if "ClientStatus" in wire:
        return "Allocation", "AllocationUpdated"
    if "JobID" in wire:
        return "Evaluation", "EvaluationUpdated"
    if "Type" in wire:
        return "Job", "JobRegistered"
    return "Node", "NodeRegistration"


def line_of(value: Any) -> Line:
    """A JSON value as the line that it is."""
    return read_line(orjson.dumps(value))


def frame_of(index: int, objects: Iterable[Wire]) -> Frame:
    """The line of one Raft index; plain objects become their usual events."""
    events = [wire if "Topic" in wire else event(wire) for wire in objects]
    return line_of({"Index": index, "Events": events})


def snapshot_of(index: int | Mapping[str, int], **lists: list[Wire]) -> Snapshot:
    """Lists by table (`Jobs=[…]`), all true at one index or at one each. A list that is not given was not read."""
    indexes = index if isinstance(index, Mapping) else {table: index for table in _TABLES if table in lists}
    snapshot = line_of({"Snapshot": {**lists, "Indexes": dict(indexes)}}).snapshot
    assert snapshot is not None
    return snapshot


# --- a reconciler on the bench -------------------------------------------------------------------------------------


class Bench:
    """A reconciler, fed by hand under a clock that is moved by hand.

    Attributes:
        actions: all that was decided so far, in order.
        changes: all verdicts that became different so far, in order.
    """

    def __init__(self, policy: Policy | None = None, **core: Any) -> None:
        self.core = Reconciler(policy or Policy(), **core)
        self.now = START
        self.actions: list[Action] = []
        self.changes: list[Change] = []
        self.steps: list[Step] = []

    def feed(self, *objects: Wire, index: int | None = None, after_s: float = 0.0) -> Step:
        """Hears one line, `after_s` seconds later. Its index is that of its newest object unless given."""
        self.wait(after_s)
        if index is None:
            index = max(wire["Index"] if "Topic" in wire else wire["ModifyIndex"] for wire in objects)
        return self._keep(self.core.feed_frame(frame_of(index, objects), self.now))

    def read(self, index: int | Mapping[str, int], after_s: float = 0.0, **lists: list[Wire]) -> Step:
        """Reads lists."""
        self.wait(after_s)
        return self._keep(self.core.feed_snapshot(snapshot_of(index, **lists), self.now))

    def wait(self, seconds: float) -> list[Action]:
        """Lets time pass, and everything happen that is due meanwhile; returns what was decided."""
        before = len(self.actions)
        until = self.now + seconds
        while (due := self.core.next_due()) is not None and due <= until:
            self._keep(self.core.advance(due))
        self.now = until
        return self.actions[before:]

    def job(self, job_id: str = RUNNER) -> Job:
        return self.core.model.jobs[job_id]

    def verdict(self, job_id: str = RUNNER) -> Verdict:
        return self.core.diagnosis.verdicts[job_id]

    def judged(self, job_id: str = RUNNER) -> tuple[str, str | None, str]:
        """State, cause and rule."""
        verdict = self.verdict(job_id)
        return verdict.state, verdict.cause, verdict.rule

    def state(self, job_id: str = RUNNER) -> str | None:
        """The state of a job; None for one of which nothing is known."""
        verdict = self.core.diagnosis.verdicts.get(job_id)
        return verdict.state if verdict is not None else None

    def kinds(self) -> list[str]:
        """The kinds of all actions so far, in order."""
        return [action.kind for action in self.actions]

    def _keep(self, step: Step) -> Step:
        self.actions += step.actions
        self.changes += step.changes
        self.steps.append(step)
        return step


def bench_with_pool(
    runners: int = 1,
    target: int | None = None,
    policy: Policy | None = None,
    *,
    nodes: int = 3,
    environment: str = "10",
) -> Bench:
    """A pool at rest that was told in one line: `nodes` ready nodes (indexes 1, 2, …), the environment (created at
    100), and runners (created at 200, 210, …), all of them running.

    The runner `runner(n)` has the allocation `a<n>`, created one index after it; they stand on the nodes in turn.
    """
    bench = Bench(policy)
    template = f"template-{environment}"
    objects = [node(node_id(number), index=number) for number in range(1, nodes + 1)]
    objects.append(job(template, index=102, created=100, target=runners if target is None else target))
    objects.append(allocation("t", template, index=102, created=101, node=node_id(1)))
    for number in range(runners):
        created = 200 + 10 * number
        name = runner(number, environment)
        objects.append(job(name, index=created + 2, created=created))
        home = node_id(1 + number % nodes)
        objects.append(allocation(f"a{number}", name, index=created + 2, created=created + 1, node=home))
    bench.feed(*objects)
    bench.wait(60)
    return bench


def lose(bench: Bench, number: int, *, index: int) -> None:
    """The runner's task ends with 0: its job is dead, and Nomad will never start it again."""
    created = 200 + 10 * number
    ended = allocation(
        f"a{number}", runner(number), "complete", index=index, created=created + 1, node=node_id(1 + number % 3)
    )
    bench.feed(ended, job(runner(number), "dead", index=index, created=created))


def haunted(bench: Bench, job_id: str, *, index: int, **old: Any) -> Wire:
    """An allocation of a living job that passes for its success as soon as its agent is back."""
    created = bench.job(job_id).job_modify_index
    return allocation(f"old-{job_id}", job_id, "lost", "stop", index=index, created=created, **old)


def end_template(bench: Bench, *, index: int) -> None:
    """The environment's own job ends with 0."""
    bench.feed(
        allocation("t", TEMPLATE, "complete", index=index, created=101, node=node_id(1)),
        job(TEMPLATE, "dead", index=index, created=100, target=bench.job(TEMPLATE).target),
    )


def purge(bench: Bench, job_id: str, *, index: int) -> None:
    """Somebody purges a job; servers before 1.7.4 tell only with the evaluation."""
    bench.feed(event(evaluation(f"purge-{index}", job_id, "pending", index=index), "JobDeregistered"))


def node_id(number: int) -> str:
    return f"a{number:07x}-0000-0000-0000-000000000001"


def pool_policy(**settings: Any) -> Policy:
    """A policy with these settings for every pool."""
    return Policy(pool=PoolPolicy(**settings))
