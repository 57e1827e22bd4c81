"""A loss is confirmed only by what can be read now, and contradicted by any sign of life."""

from __future__ import annotations

from typing import Any

import msgspec
import orjson
import pytest

from poseidon_reconciler.core.events import AllocationPayload, EvaluationPayload, Frame, JobPayload
from poseidon_reconciler.core.model import Model
from poseidon_reconciler.nomad.api import Api, JobRead
from poseidon_reconciler.nomad.confirm import AsOf, View, read_view, why_not_lost
from poseidon_reconciler.nomad.outcomes import Failure
from poseidon_reconciler.nomad.trouble import ToldAllocation
from poseidon_reconciler.policy import PoolPolicy
from tests.nomad.fake_nomad import FakeNomad, text
from tests.nomad.jobs import RUNNER, runner

AS_OF = AsOf(create_index=10, job_index=20, allocation_index=30, evaluation_index=30)


def allocation(client: str, desired: str = "stop", **fields: Any) -> AllocationPayload:
    base = {"ID": "a1", "JobID": RUNNER, "ClientStatus": client, "DesiredStatus": desired, "NodeID": "n1"}
    return msgspec.convert({"CreateIndex": 12, "JobVersion": 0, **base, **fields}, AllocationPayload)


def evaluation(status: str, modify_index: int = 25, wait_until: str = "0001-01-01T00:00:00Z") -> EvaluationPayload:
    wire = {"ID": "e1", "JobID": RUNNER, "Status": status, "ModifyIndex": modify_index, "WaitUntil": wait_until}
    return msgspec.convert(wire, EvaluationPayload)


def view(
    *allocations: AllocationPayload,
    evaluations: tuple[EvaluationPayload, ...] = (),
    used: str = "false",
    out_of_reach: frozenset[str] = frozenset(),
    **fields: Any,
) -> View:
    job = {**runner(used=used), "Status": "dead", "Stop": False, "Version": 0, "CreateIndex": 10, "ModifyIndex": 20}
    body = orjson.dumps({**job, **fields})
    read = JobRead(msgspec.json.decode(body, type=JobPayload), body, 40)
    told = [ToldAllocation(**msgspec.structs.asdict(allocation)) for allocation in allocations]
    return View(read, told, list(evaluations), out_of_reach)


AWAY = frozenset({"n1"})
# What is left over when a node was disconnected: it waits for when that node would have been away for too long.
DELAYED = (evaluation("pending", wait_until="2026-12-02T10:00:00Z"),)


@pytest.mark.parametrize(
    "lost",
    [
        view(),
        view(allocation("complete")),
        view(allocation("complete", "run")),
        view(allocation("lost")),
        view(allocation("failed", "run")),
        view(allocation("running", "run"), out_of_reach=AWAY, Status="running"),
        view(allocation("unknown", "run"), out_of_reach=AWAY, Status="running"),
        view(allocation("running"), out_of_reach=AWAY),
        view(allocation("pending", "run"), Status="running"),
        view(allocation("pending", "run"), evaluations=DELAYED, Status="running"),
        view(allocation("pending", "run"), evaluations=(evaluation("blocked"),), Status="running"),
        view(allocation("complete"), evaluations=(evaluation("complete"), evaluation("canceled"))),
        view(allocation("complete"), evaluations=(evaluation("blocked", 19),)),
        view(allocation("complete"), used="true"),
        view(Status="pending"),
        view(
            allocation("running", "run", TaskStates={"default-task": {"State": "pending"}}),
            Status="running",
        ),
    ],
)
def test_what_is_lost_is_confirmed(lost: View) -> None:
    assert why_not_lost(lost, AS_OF, PoolPolicy()) is None


@pytest.mark.parametrize(
    ("alive", "why"),
    [
        (view(allocation("running", "run")), "it runs"),
        (view(allocation("running")), "it runs"),
        (view(allocation("running", "run", TaskStates={"default-task": {"State": "running"}})), "it runs"),
        (view(allocation("unknown", "run")), "its node is back"),
        (view(allocation("pending", "run", CreateIndex=31)), "it has a new allocation"),
        (view(allocation("complete"), allocation("pending", "run", ID="a2", CreateIndex=31)), "it has a new"),
        (view(allocation("complete"), evaluations=(evaluation("pending"),)), "an evaluation of it is pending"),
        (view(allocation("complete"), evaluations=DELAYED), "an evaluation of it is pending"),
        (view(allocation("pending", "run"), evaluations=(evaluation("pending"),)), "an evaluation of it is pending"),
        (view(allocation("pending", "run"), evaluations=DELAYED, out_of_reach=AWAY), "an evaluation of it is pending"),
        (view(allocation("complete"), evaluations=(evaluation("blocked", 20),)), "an evaluation of it is blocked"),
        (view(evaluations=(evaluation("blocked", 5),), Status="pending"), "an evaluation of it is blocked"),
        (view(allocation("complete"), CreateIndex=35), "it was registered anew"),
        (view(allocation("unknown", "run"), out_of_reach=AWAY, used="true"), "it is used"),
        (view(allocation("running", "run"), out_of_reach=AWAY, used="true"), "it is used"),
        (view(allocation("pending", "run"), used="true"), "it is used"),
    ],
)
def test_any_sign_of_life_contradicts_a_loss(alive: View, why: str) -> None:
    assert (why_not_lost(alive, AS_OF, PoolPolicy()) or "").startswith(why)


def test_without_evidence_a_pending_allocation_is_a_sign_of_life() -> None:
    assert why_not_lost(view(allocation("pending", "run")), AsOf(), PoolPolicy()) == "it has a new allocation"


@pytest.mark.parametrize(
    ("found", "at_risk"),
    [
        (view(allocation("lost")), True),
        (view(allocation("complete")), True),
        (view(allocation("running", "run"), allocation("complete", ID="a2")), True),
        (view(allocation("complete", "run")), False),
        (view(allocation("failed")), False),
        (view(allocation("running")), False),
        (view(allocation("complete", NextAllocation="a2")), False),
        (view(allocation("complete", JobVersion=0), Version=1), False),
        (view(), False),
    ],
)
def test_at_risk_is_a_finished_unlinked_allocation_of_the_current_version(found: View, at_risk: bool) -> None:
    assert found.at_risk == at_risk


def test_as_of_tells_the_newest_of_each_table_that_the_model_saw() -> None:
    model = Model()
    events = [
        {
            "Topic": "Job",
            "Type": "JobRegistered",
            "Namespace": "default",
            "Payload": {"Job": {**runner(), "Status": "running", "CreateIndex": 3, "ModifyIndex": 8}},
        },
        *[
            {
                "Topic": "Allocation",
                "Type": "PlanResult",
                "Namespace": "default",
                "Payload": {
                    "Allocation": {
                        "ID": f"a{index}",
                        "JobID": RUNNER,
                        "ClientStatus": "running",
                        "DesiredStatus": "run",
                        "CreateIndex": index,
                        "ModifyIndex": index,
                    }
                },
            }
            for index in (5, 7)
        ],
    ]
    model.apply(msgspec.convert({"Index": 9, "Events": events}, Frame), 1.0)

    assert AsOf.of(model.jobs[RUNNER]) == AsOf(3, 8, 7, -1)


async def test_a_view_has_everything_that_is_to_be_read(nomad: FakeNomad, api: Api) -> None:
    nomad.add_job(runner(used="true"))
    nomad.add_allocation(RUNNER, "a1", NodeID="n1")
    nomad.add_allocation(RUNNER, "a2", NodeID="n2")
    nomad.add_allocation(RUNNER, "a3", NodeID="n3", ClientStatus="complete")
    nomad.add_allocation(RUNNER, "a4", NodeID="gone")
    nomad.add_evaluation(RUNNER, "e1", "pending")
    nomad.add_node("n1", "ready")
    nomad.add_node("n2", "down")

    found = await read_view(api, RUNNER, AsOf())

    assert isinstance(found, View)
    assert found.used
    assert found.out_of_reach == {"n2", "gone"}
    assert [a.id for a in found.placed] == ["a1", "a2", "a4"]
    assert [e.id for e in found.live_evaluations] == ["e1"]
    assert "/v1/node/n3" not in nomad.paths("GET")


@pytest.mark.parametrize("part", ["", "/allocations", "/evaluations", "node"])
async def test_a_view_that_cannot_be_read_whole_is_none(nomad: FakeNomad, api: Api, part: str) -> None:
    nomad.add_job(runner())
    nomad.add_allocation(RUNNER, "a1")
    nomad.add_node("n1", "down")
    path = "/v1/node/n1" if part == "node" else f"/v1/job/{RUNNER}{part}"
    nomad.script("GET", path, *[text(500, "No cluster leader")] * 4)

    found = await read_view(api, RUNNER, AsOf())

    assert isinstance(found, Failure)
    assert found.kind == "unavailable"


@pytest.mark.parametrize("table", ["job_index", "allocation_index", "evaluation_index"])
async def test_a_view_older_than_the_evidence_is_none(nomad: FakeNomad, api: Api, table: str) -> None:
    nomad.add_job(runner())

    found = await read_view(api, RUNNER, AsOf(**{table: nomad.index + 1}))

    assert isinstance(found, Failure)
    assert found.kind == "unknown"


@pytest.mark.parametrize(("policy", "objects"), [("at-least", False), ("exactly", True), ("leave-alone", True)])
def test_where_copies_out_of_reach_matter_nothing_may_have_been_heard_of_them_since(policy: str, objects: bool) -> None:
    changed = view(allocation("lost", "stop"))
    changed.allocations[0].modify_index = AS_OF.allocation_index + 1

    why = why_not_lost(changed, AS_OF, PoolPolicy.model_validate({"disconnect_policy": policy}))

    assert why == ("an allocation of it has changed" if objects else None)
