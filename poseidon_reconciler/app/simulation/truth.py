"""What the cluster really is, read from its own tables and machines: nobody's belief, no event that was missed.

Promises are checked against this, so it shares nothing with the reconciler's own way of judging. Where somebody could
see it otherwise in good faith, it takes the view that breaks no promise: only what is certain counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from poseidon_reconciler.app.simulation.history import History
from poseidon_reconciler.policy import PoolPolicy
from poseidon_reconciler.twin import poseidon_jobs as pj
from poseidon_reconciler.twin.agents import Agent
from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.events import Batch
from poseidon_reconciler.twin.listening import jobs_concerned
from poseidon_reconciler.twin.local import LocalAllocation
from poseidon_reconciler.twin.records import Allocation, Job, JobKey

NAMESPACE: Final = "default"
TEMPLATE: Final = "template-"
_AWAY: Final = frozenset({"down", "disconnected"})


class Standing(Struct):
    """What a job is at the moment.

    Attributes:
        runs: an allocation of it runs where it can be reached.
        idle: so does one that stays there.
        starts_since: since when its first allocation has been about to start.
        waits: an evaluation of it will bring something.
        away: an allocation that is meant to run is where nobody can reach it.
        failed_at_once: it is dead by its own fault, and never ran.
        counted_since: the index since which it has been idle or coming, without a break; `there_since`: or away.
    """

    environment: str
    is_environment: bool
    used: bool = False
    stop: bool = False
    dead: bool = False
    runs: bool = False
    idle: bool = False
    starts_since: float | None = None
    waits: bool = False
    away: bool = False
    failed_at_once: bool = False
    counted_since: int | None = None
    there_since: int | None = None

    @property
    def free(self) -> bool:
        """Whether it is a runner that could be claimed."""
        return self.idle and not self.used and not self.is_environment

    @property
    def coming(self) -> bool:
        return self.waits or self.starts_since is not None


class Truth:
    """Keeps the standing of every job up to date, change by change.

    Attributes:
        jobs: the jobs that exist.
        targets: by environment, each size that its pool was to have, with the index since which.
        history: what became of jobs when.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.history = History()
        self.jobs: dict[JobKey, Standing] = {}
        self.targets: dict[str, list[tuple[int, int]]] = {}
        self._cluster = cluster
        self._restored = False

    def take(self, batch: Batch) -> None:
        """Looks again at every job that a batch of events is about."""
        for key in jobs_concerned(self._cluster, batch):
            self._look(key)

    def begin_anew(self) -> None:
        """The servers are not what they were: everything is looked at again."""
        self._restored = True
        self.jobs.clear()
        self.targets.clear()
        self.history.clear()
        for key in self._cluster.state.jobs:
            self._look(key)

    def _look(self, key: JobKey) -> None:
        before, job = self.jobs.pop(key, None), self._cluster.state.jobs.get(key)
        environment, index = environment_of(key[1]), self._cluster.state.index
        if environment is None:
            return
        standing = None
        if job is not None:
            standing = self.jobs[key] = self._standing(job, environment)
            if not standing.used and (standing.idle or standing.coming):
                standing.counted_since = _since(before.counted_since if before is not None else None, index)
            if not standing.used and (standing.idle or standing.coming or standing.away):
                standing.there_since = _since(before.there_since if before is not None else None, index)
        self.history.note(key, before, standing, index, self._cluster.now)

    def _standing(self, job: Job, environment: str) -> Standing:
        config = pj.config_of(dict(job.spec))
        standing = Standing(environment, job.id.startswith(TEMPLATE), config.get("used") == "true", job.stop)
        standing.dead = job.status == "dead"
        if standing.is_environment:
            self._note_target(environment, config.get("prewarmingPoolSize", ""))
        if job.stop:
            return standing
        nodes = self._cluster.state.nodes
        allocations = self._cluster.state.allocations_of(job.key)
        if standing.dead and allocations:
            standing.failed_at_once = allocations[-1].client_status == "failed" and not any(map(_ran, allocations))
        living = [a for a in allocations if not a.terminal]
        for allocation in living:
            node = nodes.get(allocation.node_id)
            if node is None or node.status in _AWAY or allocation.client_status == "unknown":
                standing.away = True
            elif _runs(allocation):
                standing.runs = True
                standing.idle |= node.drain is None and not allocation.migrate
            elif node.drain is None and allocation.client_status == "pending":
                standing.starts_since = allocation.created_at
        if not living:
            standing.waits = any(e.live for e in self._cluster.state.evaluations_of(job.key))
        return standing

    def _note_target(self, environment: str, text: str) -> None:
        target = int(text) if text.isdecimal() else 0
        history = self.targets.setdefault(environment, [])
        if not history or history[-1][1] != target:
            history.append((self._cluster.state.index, target))

    # -- sums --------------------------------------------------------------------------------------------------------

    def runners(self, environment: str) -> Iterator[tuple[JobKey, Standing]]:
        """The runners of an environment."""
        for key, standing in self.jobs.items():
            if standing.environment == environment and not standing.is_environment:
                yield key, standing

    def target(self, environment: str) -> int:
        """The size that a pool is to have now; 0 if nobody ever said."""
        history = self.targets.get(environment)
        return history[-1][1] if history else 0

    def highest_target(self, environment: str, since_index: int) -> int:
        """The highest size that a pool was to have since an index."""
        return max(self._targets_since(environment, since_index))

    def lowest_target(self, environment: str, since_index: int) -> int:
        """The lowest size that a pool was to have since an index."""
        return min(self._targets_since(environment, since_index))

    def _targets_since(self, environment: str, since_index: int) -> list[int]:
        history = self.targets.get(environment) or [(0, 0)]
        first = max((n for n, (index, _) in enumerate(history) if index <= since_index), default=0)
        return [target for _, target in history[first:]]

    def counts(self, key: JobKey, standing: Standing, policy: PoolPolicy) -> bool:
        """Whether a runner is idle or coming, or beyond reach where the policy has that count.

        One that runs where its node drains is leaving, whatever else of it is beyond reach.
        """
        if standing.used or standing.stop:
            return False
        if standing.idle or standing.waits:
            return True
        if standing.starts_since is not None:
            return self._cluster.now - standing.starts_since < policy.start_deadline_s
        match policy.disconnect_policy:
            case "at-least":
                return False
            case "leave-alone":
                return standing.away and not standing.runs
            case "exactly":
                return not standing.runs and bool(self.processes(key))

    # -- machines ----------------------------------------------------------------------------------------------------

    def processes(self, key: JobKey) -> list[tuple[Agent, LocalAllocation]]:
        """The allocations of a job of which a process runs, on whatever machine."""
        return [
            (agent, local)
            for agent in self._cluster.agents.values()
            for local in agent.local.values()
            if local.allocation.job.key == key and any(task.process for task in local.tasks)
        ]

    def process_of(self, allocation: Allocation) -> bool:
        """Whether a process of an allocation runs."""
        agent = self._cluster.agent_of(allocation.node_id)
        local = agent.local.get(allocation.id) if agent is not None else None
        return local is not None and any(task.process for task in local.tasks)

    def out_of_sight(self, key: JobKey) -> bool:
        """Whether the servers have lost an allocation of a job, and its machine has not come back to tell of it."""
        nodes = self._cluster.state.nodes
        return any(
            allocation.client_status in {"lost", "unknown"}
            and (node := nodes.get(allocation.node_id)) is not None
            and node.status in _AWAY
            for allocation in self._cluster.state.allocations_of(key)
        )

    def may_run_unseen(self, key: JobKey) -> bool:
        """Whether a machine is out of reach that has not told of the end of an allocation of a job."""
        nodes = self._cluster.state.nodes
        return any(a.node_id in nodes and self._is_untold(a) for a in self._cluster.state.allocations_of(key))

    def went_with_its_node(self, key: JobKey) -> bool:
        """Whether nobody has told of the end of a job's newest allocation, and its node is out of reach or removed."""
        return any(map(self._is_untold, self._cluster.state.allocations_of(key)[-1:]))

    def _is_untold(self, allocation: Allocation) -> bool:
        node = self._cluster.state.nodes.get(allocation.node_id)
        return allocation.client_status not in {"complete", "failed"} and (node is None or node.status in _AWAY)

    def contradicts_its_agent(self, key: JobKey) -> bool:
        """Whether the servers have forgotten, when they were restored, what an agent had told them of a job.

        Agents do not repeat themselves, so nobody who asks the servers can find out.
        """
        for allocation in self._cluster.state.allocations_of(key) if self._restored else ():
            agent = self._cluster.agent_of(allocation.node_id)
            local = agent.local.get(allocation.id) if agent is not None else None
            if local is not None and local.report().client_status != allocation.client_status:
                return True
        return False


def _since(kept: int | None, index: int) -> int:
    return kept if kept is not None else index


def _ran(allocation: Allocation) -> bool:
    return any(task.started_at is not None for task in allocation.task_states.values())


def _runs(allocation: Allocation) -> bool:
    states = allocation.task_states.values()
    return allocation.client_status == "running" and all(state.state == "running" for state in states)


def environment_of(job_id: str) -> str | None:
    """The number of the environment that a job belongs to, by its id; None if it is none of Poseidon's."""
    number = job_id.removeprefix(TEMPLATE).partition("-")[0]
    return number if number.isdecimal() else None
