"""What somebody means who names a job, its beginning, or an environment."""

from __future__ import annotations

import pytest

from poseidon_reconciler.core.explanation import EnvironmentExplanation, JobExplanation, OrderExplanation
from poseidon_reconciler.core.subjects import UnknownSubjectError, explain
from tests.core.builders import TEMPLATE, bench_with_pool, lose, runner


@pytest.mark.parametrize(
    ("subject", "job_id"),
    [(runner(1), runner(1)), (runner(1)[:11], runner(1)), (TEMPLATE, TEMPLATE), ("template-", TEMPLATE)],
)
def test_a_job_is_meant_by_its_id_or_a_beginning_that_only_it_has(subject: str, job_id: str) -> None:
    found = explain(bench_with_pool(3).core, subject)
    assert isinstance(found, JobExplanation)
    assert found.job_id == job_id


def test_an_environment_is_meant_by_its_number() -> None:
    found = explain(bench_with_pool(3).core, "10")
    assert isinstance(found, EnvironmentExplanation)
    assert found.environment_id == "10"


def test_a_runner_that_was_only_ordered_is_meant_by_its_id_or_a_beginning() -> None:
    bench = bench_with_pool(3)
    lose(bench, 0, index=300)
    bench.wait(60)
    (ordered,) = [action.job_id for action in bench.actions if action.kind == "create-runner"]
    for subject in (ordered, ordered[:11]):
        found = explain(bench.core, subject)
        assert isinstance(found, OrderExplanation)
        assert found.job_id == ordered
    with pytest.raises(UnknownSubjectError, match="4 jobs begin with '10-'"):
        explain(bench.core, "10-")


@pytest.mark.parametrize(
    ("subject", "said", "near"),
    [
        ("10-", "3 jobs begin with '10-': give more of the id", [runner(0), runner(1), runner(2)]),
        (runner(1)[:-1] + "7", "neither a job nor an environment", [runner(1), runner(0), runner(2)]),
        ("1", "neither", ["10"]),
        ("templat-10", "neither", [TEMPLATE]),
        ("nonsense", "neither", []),
        ("", "neither", []),
        ("10-" + "x" * 500, "…'", []),
    ],
)
def test_of_what_is_not_known_what_begins_alike_is_named(subject: str, said: str, near: list[str]) -> None:
    with pytest.raises(UnknownSubjectError) as caught:
        explain(bench_with_pool(3).core, subject)
    assert said in str(caught.value)
    assert sorted(caught.value.near) == sorted(near)
