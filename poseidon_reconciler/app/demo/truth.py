"""What a demo's cluster really is, read from its own tables: no event that was missed, no belief of anybody's.

Promises are checked against this, so nothing here is shared with the reconciler's own way of judging.
"""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from poseidon_reconciler.twin import poseidon_jobs as pj
from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.events import Batch
from poseidon_reconciler.twin.listening import jobs_concerned
from poseidon_reconciler.twin.records import Allocation, Job, JobKey

_TEMPLATE = "template-"
# A job may be dead for an instant before an evaluation brings it back.
_DEAD_FOR_GOOD_S = 1.0


class Standing(Struct):
    """What a job is at the moment.

    Attributes:
        coming: it does not run, but Nomad will start it, or start it again.
        starting_on: the node on which it is about to run for the first time.
        out_of_reach: it runs, as far as anybody knows, where nobody can see it.
        counts_since: since when it has been idle or coming; None if it is not.
        dead_since: since when it has been dead although nobody stopped it.
    """

    environment: str
    is_environment: bool
    used: bool = False
    runs: bool = False
    idle: bool = False
    coming: bool = False
    out_of_reach: bool = False
    starting_on: str = ""
    counts_since: float | None = None
    dead_since: float | None = None


class Truth:
    """Keeps everybody's standing up to date, change by change.

    Attributes:
        jobs: the jobs that exist.
        targets: the size that each pool should have, also where its environment's own job is gone.
        lost: the jobs that were dead for good although nobody had stopped them.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.jobs: dict[JobKey, Standing] = {}
        self.targets: dict[str, int] = {}
        self.lost: set[JobKey] = set()
        self._cluster = cluster

    def take(self, batch: Batch) -> None:
        """Looks again at every job that a batch of events is about."""
        for key in jobs_concerned(self._cluster, batch):
            self._look(key)

    def _look(self, key: JobKey) -> None:
        before, job = self.jobs.pop(key, None), self._cluster.state.jobs.get(key)
        now = self._cluster.now
        if before is not None and before.dead_since is not None and now - before.dead_since >= _DEAD_FOR_GOOD_S:
            self.lost.add(key)
        environment = environment_of(key)
        if job is None or environment is None:
            return
        standing = self._standing(job, environment)
        if standing.idle or standing.coming:
            kept = before.counts_since if before is not None else None
            standing.counts_since = kept if kept is not None else now
        if job.status == "dead" and not job.stop:
            kept = before.dead_since if before is not None else None
            standing.dead_since = kept if kept is not None else now
        self.jobs[key] = standing

    def _standing(self, job: Job, environment: str) -> Standing:
        config = pj.config_of(dict(job.spec))
        standing = Standing(environment, job.id.startswith(_TEMPLATE), used=config.get("used") == "true")
        if standing.is_environment:
            size = config.get("prewarmingPoolSize", "")
            self.targets[environment] = int(size) if size.isdecimal() else 0
        if job.stop or job.status == "dead":
            return standing
        living = [a for a in self._cluster.state.allocations_of(job.key) if not a.terminal]
        nodes = self._cluster.state.nodes
        for allocation in living:
            node = nodes.get(allocation.node_id)
            if node is None or node.status in {"down", "disconnected"} or allocation.client_status == "unknown":
                standing.out_of_reach = True
            elif _runs(allocation):
                standing.runs = True
                standing.idle |= not standing.used and node.drain is None
            elif node.drain is None:
                standing.coming = True
                if not any(task.started_at is not None for task in allocation.task_states.values()):
                    standing.starting_on = allocation.node_name
        standing.coming |= not living
        return standing

    # -- sums --------------------------------------------------------------------------------------------------------

    def runners(self, environment: str) -> list[tuple[JobKey, Standing]]:
        """The runners of an environment."""
        return [
            (key, standing)
            for key, standing in self.jobs.items()
            if standing.environment == environment and not standing.is_environment
        ]

    def idle(self, environment: str) -> int:
        """How many of its runners could be claimed."""
        return sum(standing.idle for _, standing in self.runners(environment))

    def is_full(self, environment: str) -> bool:
        """Whether a pool has what it should have, and its environment's own job runs."""
        own = self.jobs.get(("default", f"{_TEMPLATE}{environment}"))
        return own is not None and own.runs and self.idle(environment) >= self.targets[environment]

    @property
    def all_full(self) -> bool:
        """Whether all pools are."""
        return all(map(self.is_full, self.targets))

    def settle(self) -> None:
        """Everything is over: what has been dead long enough by now is lost."""
        for key in list(self.jobs):
            self._look(key)

    def ready_nodes(self) -> int:
        """How many nodes can start something."""
        return sum(node.status == "ready" and node.drain is None for node in self._cluster.state.nodes.values())

    def containers(self) -> Counter[JobKey]:
        """How many containers of each job run on any machine, whether its agent can be reached or not."""
        return Counter(
            local.allocation.job.key
            for agent in self._cluster.agents.values()
            for local in agent.local.values()
            for task in local.tasks
            if task.process
        )

    def starting_per_node(self, created_after: int) -> Counter[str]:
        """How many runners that were created after an index wait for their first start on each node."""
        jobs = self._cluster.state.jobs
        return Counter(
            standing.starting_on
            for key, standing in self.jobs.items()
            if standing.starting_on and not standing.is_environment and jobs[key].create_index > created_after
        )


def _runs(allocation: Allocation) -> bool:
    states = allocation.task_states.values()
    running = allocation.client_status == "running" and all(state.state == "running" for state in states)
    return running and allocation.desired_status == "run"


def environment_of(key: JobKey) -> str | None:
    """The number of the environment that a job belongs to, by its id; None if it is none of Poseidon's."""
    number = key[1].removeprefix(_TEMPLATE).partition("-")[0]
    return number if number.isdecimal() else None
