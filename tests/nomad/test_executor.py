"""No action is for a job that it cannot be about."""

from __future__ import annotations

import asyncio

import pytest

from poseidon_reconciler.core.ledger import Action, ActionKind
from poseidon_reconciler.nomad.api import Api
from poseidon_reconciler.nomad.confirm import AsOf
from poseidon_reconciler.nomad.executor import Executor
from poseidon_reconciler.policy import Policy
from tests.nomad.actions import STAMP, Acting, kill
from tests.nomad.fake_nomad import FakeNomad
from tests.nomad.jobs import RUNNER, TEMPLATE, runner, template


@pytest.mark.parametrize(
    ("kind", "job_id"),
    [
        ("remove-job", TEMPLATE),
        ("create-runner", TEMPLATE),
        ("revive-environment", RUNNER),
        ("restore-environment", RUNNER),
        ("remove-job", "web"),
        ("protect-job", "template-10-x"),
        ("remove-job", "11-57e2b1f4-ecff-11f1-b606-02fc00000001"),
        ("protect-job", "template-1"),
        ("stop-surplus", "template-10"),
    ],
)
async def test_an_action_is_only_for_its_kind_of_job(
    nomad: FakeNomad, act: Acting, kind: ActionKind, job_id: str
) -> None:
    result = await act(kind, job_id)

    assert result.outcome == "failed"
    assert result.detail == f"{kind} is not for {job_id!r}"
    assert nomad.requests == []


async def test_the_same_action_twice_at_once_is_done_once(nomad: FakeNomad, api: Api) -> None:
    nomad.add_job(template())
    executor = Executor(api, Policy(), {})
    action = Action(1.0, "create-runner", "10", RUNNER, "why")

    results = await asyncio.gather(*[executor.execute(action, STAMP, AsOf()) for _ in range(2)])

    assert sorted(result.outcome for result in results) == ["already", "done"]
    assert {result.index for result in results} == {nomad.jobs[RUNNER]["JobModifyIndex"]}
    assert nomad.jobs[RUNNER]["Version"] == 0


async def test_two_removals_at_once_remove_once(nomad: FakeNomad, api: Api) -> None:
    nomad.add_job(runner())
    kill(nomad)
    executor = Executor(api, Policy(), {})
    action = Action(1.0, "remove-job", "10", RUNNER, "why")

    results = await asyncio.gather(*[executor.execute(action, STAMP, AsOf()) for _ in range(2)])

    assert {result.outcome for result in results} <= {"done", "already", "skipped"}
    assert nomad.jobs == {}
