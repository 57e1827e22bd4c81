"""What the API's reads show."""

from __future__ import annotations

from msgspec.structs import replace

from poseidon_reconciler.twin.poseidon_jobs import runner_job
from tests.twin.labs import lab, newest, with_environment, with_runner
from tests.twin.serving import serving


async def test_lists_and_single_objects_agree() -> None:
    cluster = lab()
    with_environment(cluster)
    key = with_runner(cluster)
    allocation = newest(cluster, key)
    async with serving(cluster) as client:
        assert [job["ID"] for job in await client.get("/v1/jobs")] == ["10-a", "template-10"]
        assert [job["ID"] for job in await client.get("/v1/jobs", prefix="template-10")] == ["template-10"]
        assert (await client.get("/v1/job/10-a"))["TaskGroups"][1]["Meta"] == {"used": "false"}
        assert [a["ID"] for a in await client.get("/v1/job/10-a/allocations")] == [allocation.id]
        whole = await client.get(f"/v1/allocation/{allocation.id}")
        assert (whole["Job"]["ID"], whole["TaskStates"]["default-task"]["State"]) == ("10-a", "running")
        assert [a["ID"] for a in await client.get("/v1/allocations", prefix=allocation.id[:8])] == [allocation.id]
        (bare,) = await client.get("/v1/allocations", prefix=allocation.id[:8], task_states="false")
        assert bare["TaskStates"] is None
        (evaluation,) = await client.get("/v1/job/10-a/evaluations")
        assert (await client.get(f"/v1/evaluation/{evaluation['ID']}"))["JobID"] == "10-a"
        assert len(await client.get(f"/v1/evaluation/{evaluation['ID']}/allocations")) == 1
        assert len(await client.get("/v1/evaluations", job="10-a", status="complete")) == 1
        assert await client.get("/v1/evaluations", job="10-a", status="blocked") == []
        node = await client.get(f"/v1/node/{allocation.node_id}")
        assert (node["Name"], node["Status"]) == (allocation.node_name, "ready")
        assert len(await client.get(f"/v1/node/{allocation.node_id}/allocations")) >= 1
        assert await client.get("/v1/job/10-a/deployments") == []
        assert await client.get("/v1/job/10-a/deployment") is None
        summary = (await client.get("/v1/job/10-a/summary"))["Summary"]["default-group"]
        assert (summary["Running"], summary["Queued"]) == (1, 0)


async def test_versions_come_newest_first() -> None:
    cluster = lab(1)
    for priority in (50, 51, 52):
        cluster.jobs.register({**runner_job("10-a"), "Priority": priority})
    async with serving(cluster) as client:
        versions = (await client.get("/v1/job/10-a/versions"))["Versions"]
    assert [(version["Version"], version["Priority"]) for version in versions] == [(2, 52), (1, 51), (0, 50)]


async def test_namespaces_are_kept_apart() -> None:
    cluster = lab(1)
    cluster.jobs.register(runner_job("10-a"))
    cluster.jobs.register({**runner_job("10-a"), "Namespace": "other"})
    cluster.run_for(2)
    async with serving(cluster) as client:
        for namespace, count in (("default", 1), ("other", 1), ("*", 2), ("none", 0)):
            assert len(await client.get("/v1/jobs", namespace=namespace)) == count
            assert len(await client.get("/v1/allocations", namespace=namespace)) == count
        assert (await client.get("/v1/job/10-a", namespace="other"))["Namespace"] == "other"
        assert [n["Name"] for n in await client.get("/v1/namespaces")] == ["default", "other"]


async def test_allocations_of_an_earlier_job_are_shown_when_asked_for() -> None:
    cluster = lab(1, version="1.1.2")
    key = with_runner(cluster)
    cluster.jobs.deregister(key, purge=True)
    cluster.run_for(3)
    with_runner(cluster)
    async with serving(cluster) as client:
        assert len(await client.get("/v1/job/10-a/allocations")) == 1
        assert len(await client.get("/v1/job/10-a/allocations", all="true")) == 2


async def test_the_meta_of_jobs_is_shown_when_asked_for() -> None:
    cluster = lab(1)
    cluster.jobs.register({**runner_job("10-a"), "Meta": {"a": "1"}})
    async with serving(cluster) as client:
        assert (await client.get("/v1/jobs", meta="true"))[0]["Meta"] == {"a": "1"}
        assert "Meta" not in (await client.get("/v1/jobs"))[0]


async def test_a_lost_allocation_is_counted_in_the_summary() -> None:
    cluster = lab(1)
    key = with_runner(cluster)
    write = cluster.state.begin(None)
    write.put_allocation(replace(newest(cluster, key), client_status="lost", desired_status="stop"))
    write.commit()
    async with serving(cluster) as client:
        assert (await client.get("/v1/job/10-a/summary"))["Summary"]["default-group"]["Lost"] == 1
