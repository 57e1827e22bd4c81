"""The verdicts on a cluster as it is."""

from __future__ import annotations

import pytest

from poseidon_reconciler.app.demo.judge import Judge
from poseidon_reconciler.policy import Policy
from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.poseidon_jobs import Work, runner_job
from tests.demo.clusters import empty, fill, key


@pytest.fixture
def cluster() -> Cluster:
    return empty()


@pytest.fixture
def losses() -> list[str]:
    return []


@pytest.fixture
def judge(cluster: Cluster, losses: list[str]) -> Judge:
    judge = Judge(cluster, Policy(), lambda change: losses.append(f"{change.job.id} {change.verdict.cause}"))
    fill(cluster)
    return judge


def test_it_follows_the_cluster(cluster: Cluster, judge: Judge) -> None:
    row = judge.rows()["10"]
    assert (row.state, row.target, row.idle, row.deficit, row.surplus) == ("active", 3, 3, 0, 0)
    assert judge.numbers("10")["idle"] == 3


def test_a_loss_is_told_once(cluster: Cluster, judge: Judge, losses: list[str]) -> None:
    cluster.jobs.register(runner_job("10-done", Work(("sleep", "1"))))
    cluster.run_for(30)
    judge.advance()
    judge.advance()
    assert losses == ["10-done stuck-complete"]


def test_what_it_would_have_done_itself_does_not_count(cluster: Cluster, judge: Judge) -> None:
    cluster.jobs.deregister(key("10-0"))
    cluster.run_for(60)
    judge.advance()
    assert judge.core.planner.deficit("10") == 0
    assert judge.rows()["10"].deficit == 1


def test_an_environment_that_is_not_known_has_no_runners(judge: Judge) -> None:
    assert set(judge.numbers("99").values()) == {0}
