"""Jobs laid out as Poseidon's, compared with recorded ones."""

from __future__ import annotations

from random import Random

from poseidon_reconciler.twin.jobspec import canonical
from poseidon_reconciler.twin.poseidon_jobs import (
    Work,
    config_of,
    environment_job,
    runner_id,
    runner_job,
    with_config,
)
from tests.twin.recordings import events, recorded


def test_jobs_are_laid_out_as_the_recorded_ones() -> None:
    jobs = {job["ID"]: job for topic, _, job in events(recorded("startup")) if topic == "Job"}
    assert canonical(environment_job(10, 5)) == canonical(jobs.pop("template-10"))
    for job_id, job in jobs.items():
        assert canonical(runner_job(job_id)) == canonical(job)


def test_with_config_leaves_the_original_alone() -> None:
    job = runner_job("10-a")
    used = with_config(job, used="true", timeout="60")
    assert (config_of(job), config_of(used)) == ({"used": "false"}, {"used": "true", "timeout": "60"})


def test_disconnect_settings_reach_the_group() -> None:
    group = runner_job("10-a", Work(stop_after_s=5.0, lost_after_s=7.0))["TaskGroups"][0]
    assert (group["StopAfterClientDisconnect"], group["MaxClientDisconnect"]) == (5_000_000_000, 7_000_000_000)


def test_ids_name_their_environment() -> None:
    assert runner_id(7, Random(1)).startswith("7-")
    assert runner_id(7, Random(1)) == runner_id(7, Random(1))
