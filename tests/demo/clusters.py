"""Small clusters with a pool each, and the jobs that a reconciler would register on them."""

from __future__ import annotations

from typing import Any

from poseidon_reconciler.nomad.documents import Stamp, protected, revived, runner_from_template
from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.documents import job_document
from poseidon_reconciler.twin.poseidon_jobs import environment_job, runner_job
from poseidon_reconciler.twin.records import JobKey
from tests.twin.labs import lab

ENVIRONMENT: JobKey = ("default", "template-10")
STAMP = Stamp("test/1")


def key(job_id: str) -> JobKey:
    return ("default", job_id)


def empty() -> Cluster:
    """A cluster whose agents are ready, and whose servers know what a disconnected client is."""
    return lab(version="1.10.5")


def fill(cluster: Cluster, target: int = 3, runners: int = 3, disconnect: dict[str, Any] | None = None) -> None:
    """Registers environment 10 and its runners `10-0`, `10-1`, … and lets them start."""
    for job in (environment_job(10, target), *(runner_job(f"10-{number}") for number in range(runners))):
        if disconnect is not None:
            job["TaskGroups"][0]["Disconnect"] = disconnect
        cluster.jobs.register(job)
    cluster.run_for(3)


def document(cluster: Cluster, job_key: JobKey) -> dict[str, Any]:
    """A job as the API would give it."""
    return dict(job_document(cluster.state.jobs[job_key]))


def create(cluster: Cluster, job_id: str, *, replaces: str | None = None) -> None:
    """What the reconciler does for `create-runner`."""
    template = document(cluster, ENVIRONMENT)
    cluster.jobs.register(runner_from_template(template, job_id, STAMP, replaces=replaces))


def protect(cluster: Cluster, job_id: str) -> None:
    """What the reconciler does for `protect-job`."""
    cluster.jobs.register(protected(document(cluster, key(job_id)), STAMP))


def revive(cluster: Cluster) -> None:
    """What the reconciler does for `revive-environment`."""
    cluster.jobs.register(revived(document(cluster, ENVIRONMENT), STAMP))
