"""Small clusters for tests, with agents that are heard of at once, so that nothing depends on chance."""

from __future__ import annotations

from poseidon_reconciler.twin.cluster import Cluster, Settings
from poseidon_reconciler.twin.nodes import Heartbeats
from poseidon_reconciler.twin.poseidon_jobs import IDLE, Work, environment_job, runner_job
from poseidon_reconciler.twin.records import Allocation, Job, JobKey
from poseidon_reconciler.twin.runner import AgentPace

PROMPT = AgentPace(prompt_share=1.0)
QUICK = Heartbeats(min_ttl_s=2.0, grace_s=1.0)


def lab(
    nodes: int = 3, *, seed: int = 1, version: str = "1.1.2", servers: int = 1, agents: AgentPace = PROMPT
) -> Cluster:
    """A cluster whose agents are all ready."""
    settings = Settings(version=version, servers=servers, agents=agents, heartbeats=QUICK)
    cluster = Cluster(nodes, seed=seed, settings=settings)
    cluster.run_for(15)
    assert all(node.status == "ready" for node in cluster.state.nodes.values())
    return cluster


def with_runner(cluster: Cluster, work: Work = IDLE, *, name: str = "10-a", run_s: float = 2.0) -> JobKey:
    """Registers a runner and lets it start."""
    job, _ = cluster.jobs.register(runner_job(name, work))
    cluster.run_for(run_s)
    return job.key


def with_environment(cluster: Cluster, *, number: int = 10, run_s: float = 2.0) -> JobKey:
    """Registers an environment and lets it start."""
    job, _ = cluster.jobs.register(environment_job(number, 1))
    cluster.run_for(run_s)
    return job.key


def job_of(cluster: Cluster, key: JobKey) -> Job:
    return cluster.state.jobs[key]


def newest(cluster: Cluster, key: JobKey) -> Allocation:
    """A job's newest allocation."""
    return cluster.state.allocations_of(key)[-1]


def statuses(cluster: Cluster, key: JobKey) -> list[str]:
    """Client and desired status of a job's allocations, oldest first."""
    return [f"{a.client_status}/{a.desired_status}" for a in cluster.state.allocations_of(key)]
