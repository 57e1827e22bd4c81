"""What the API's writes do, and what they answer."""

from __future__ import annotations

import pytest

from poseidon_reconciler.twin.poseidon_jobs import runner_job, with_config
from tests.twin.labs import lab, newest, with_runner
from tests.twin.serving import serving


@pytest.mark.parametrize("method", ["PUT", "POST"])
@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/job/10-a"])
async def test_jobs_are_registered_either_way(method: str, path: str) -> None:
    cluster = lab(1)
    async with serving(cluster) as client:
        status, answer, _ = await client.ask(method, path, {"Job": runner_job("10-a")})
        job = cluster.state.jobs["default", "10-a"]
        assert (status, answer["JobModifyIndex"], answer["EvalCreateIndex"]) == (
            200,
            job.job_modify_index,
            job.create_index,
        )
        evaluation = await client.get(f"/v1/evaluation/{answer['EvalID']}")
        assert evaluation["TriggeredBy"] == "job-register"


async def test_conditions_are_told_apart() -> None:
    cluster = lab(1)
    with_runner(cluster)
    async with serving(cluster) as client:
        body = {"Job": runner_job("10-a"), "EnforceIndex": True, "JobModifyIndex": 0}
        status, text, _ = await client.ask("POST", "/v1/jobs", body)
        assert (status, text) == (500, "Enforcing job modify index 0: job already exists")
        index = (await client.get("/v1/job/10-a"))["JobModifyIndex"]
        body |= {"Job": with_config(runner_job("10-a"), used="true"), "JobModifyIndex": index}
        assert (await client.ask("POST", "/v1/jobs", body))[0] == 200
        status, text, _ = await client.ask("POST", "/v1/jobs", body)
        assert status == 500
        assert text.startswith(f"Enforcing job modify index {index}: job exists with conflicting job modify index: ")


async def test_names_must_agree() -> None:
    async with serving(lab(1)) as client:
        status, text, _ = await client.ask("POST", "/v1/job/10-b", {"Job": runner_job("10-a")})
        assert (status, text) == (400, "Job ID does not match name")
        assert (await client.ask("POST", "/v1/jobs", {"Job": None}))[:2] == (400, "Job must be specified")


async def test_a_job_may_be_written_back_as_it_was_read() -> None:
    cluster = lab(1)
    with_runner(cluster)
    async with serving(cluster) as client:
        read = await client.get("/v1/job/10-a")
        await client.ask("POST", "/v1/jobs", {"Job": read})
        assert (await client.get("/v1/job/10-a"))["Version"] == 0
        await client.ask("POST", "/v1/jobs", {"Job": with_config(read, x="1")})
        assert (await client.get("/v1/job/10-a"))["Version"] == 1


@pytest.mark.parametrize(
    ("change", "kind", "counted"),
    [
        ({}, "None", {"Ignore": 1}),
        ({"Priority": 60}, "Edited", {"InPlaceUpdate": 1}),
        ({"Meta": {"a": "b"}}, "Edited", {"DestructiveUpdate": 1}),
    ],
)
async def test_plans(change: dict[str, object], kind: str, counted: dict[str, int]) -> None:
    cluster = lab(1)
    with_runner(cluster)
    async with serving(cluster) as client:
        body = {"Job": {**runner_job("10-a"), **change}, "Diff": True}
        _, answer, _ = await client.ask("POST", "/v1/job/10-a/plan", body)
        updates = answer["Annotations"]["DesiredTGUpdates"]["default-group"]
        assert {name: count for name, count in updates.items() if count} == counted
        assert answer["Diff"]["Type"] == kind
        assert answer["JobModifyIndex"] == (await client.get("/v1/job/10-a"))["JobModifyIndex"]


async def test_a_plan_of_what_cannot_be_placed_says_why() -> None:
    raw = runner_job("10-new")
    raw["TaskGroups"][0]["Tasks"][0]["Resources"]["CPU"] = 99_999
    async with serving(lab(1)) as client:
        _, answer, _ = await client.ask("POST", "/v1/job/10-new/plan", {"Job": raw, "Diff": True})
        assert answer["FailedTGAllocs"]["default-group"]["DimensionExhausted"] == {"cpu": 1}
        assert (answer["Diff"]["Type"], answer["JobModifyIndex"]) == ("Added", 0)
        _, answer, _ = await client.ask("POST", "/v1/validate/job", {"Job": {"ID": "x", "Type": "batch"}})
        assert "Missing job task groups" in answer["Error"]


async def test_stopping_purging_and_evaluating() -> None:
    cluster = lab(1)
    with_runner(cluster)
    async with serving(cluster) as client:
        _, answer, _ = await client.ask("POST", "/v1/job/10-a/evaluate", {"EvalOptions": {"ForceReschedule": True}})
        assert cluster.state.evaluations[answer["EvalID"]].triggered_by == "job-register"
        assert (await client.ask("POST", "/v1/job/10-x/evaluate"))[:2] == (404, "job not found")
        await client.ask("DELETE", "/v1/job/10-a")
        assert (await client.get("/v1/job/10-a"))["Stop"] is True
        _, answer, _ = await client.ask("DELETE", "/v1/job/10-a", purge="true")
        assert answer["EvalID"]
        assert (await client.ask("GET", "/v1/job/10-a"))[0] == 404
        _, answer, _ = await client.ask("DELETE", "/v1/job/10-never-was", purge="true")
        assert bool(answer["EvalID"]) is (not cluster.traits.refuses_unknown_deregistration)


async def test_an_allocation_may_be_stopped() -> None:
    cluster = lab(2)
    key = with_runner(cluster)
    old = newest(cluster, key)
    async with serving(cluster) as client:
        _, answer, _ = await client.ask("POST", f"/v1/allocation/{old.id}/stop")
        assert cluster.state.evaluations[answer["EvalID"]].triggered_by == "alloc-stop"
        await client.until(lambda: newest(cluster, key).id != old.id)
    assert cluster.state.allocations[old.id].next_id == newest(cluster, key).id


async def test_nodes_are_closed_drained_and_evaluated() -> None:
    cluster = lab(2)
    key = with_runner(cluster)
    node_id = newest(cluster, key).node_id
    async with serving(cluster) as client:
        path = f"/v1/node/{node_id}"
        _, answer, _ = await client.ask("POST", f"{path}/eligibility", {"Eligibility": "ineligible"})
        assert (answer["NodeModifyIndex"], answer["EvalIDs"]) == (cluster.state.nodes[node_id].modify_index, None)
        _, answer, _ = await client.ask("POST", f"{path}/eligibility", {"Eligibility": "eligible"})
        assert len(answer["EvalIDs"]) == 1
        assert (await client.ask("POST", f"{path}/eligibility", {"Eligibility": "odd"}))[0] == 500
        await client.ask("POST", f"{path}/drain", {"DrainSpec": {"Deadline": 60_000_000_000}})
        assert (await client.get(path))["DrainStrategy"]["Deadline"] == 60_000_000_000
        assert (await client.ask("POST", f"{path}/eligibility", {"Eligibility": "eligible"}))[0] == 500
        await client.ask("POST", f"{path}/drain", {"DrainSpec": None, "MarkEligible": True})
        told = await client.get(path)
        assert (told["Drain"], told["SchedulingEligibility"]) == (False, "eligible")
        _, answer, _ = await client.ask("POST", f"{path}/evaluate")
        assert len(answer["EvalIDs"]) >= 1
        await client.ask("POST", f"{path}/drain", {"DrainSpec": {"Deadline": -1}})
        await client.until(lambda: newest(cluster, key).node_id != node_id)


async def test_garbage_is_collected_on_demand() -> None:
    cluster = lab(1)
    key = with_runner(cluster)
    cluster.jobs.deregister(key)
    cluster.run_for(3)
    async with serving(cluster) as client:
        status, text, _ = await client.ask("PUT", "/v1/system/gc")
        assert (status, text) == (200, "")
        assert await client.get("/v1/jobs") == []
