"""The embedded cluster's server as its users meet it: with python-nomad, over TLS, through agents that come and go."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import aiohttp
import nomad
import pytest
import trustme

from poseidon_reconciler.twin.clock import RealClock
from poseidon_reconciler.twin.player import Player, cluster_for
from poseidon_reconciler.twin.poseidon_jobs import environment_job, runner_job
from poseidon_reconciler.twin.scenarios import SCENARIOS
from poseidon_reconciler.twin.server import TwinServer
from tests.twin.labs import lab, with_runner
from tests.twin.serving import serving


async def test_python_nomad_finds_what_it_looks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOMAD_ADDR", raising=False)

    def use(port: int) -> dict[str, Any]:
        client = nomad.Nomad(host="127.0.0.1", port=port, timeout=5)
        client.job.register_job("template-10", {"Job": environment_job(10, 2)})
        client.jobs.register_job({"Job": runner_job("10-a")})
        seen: dict[str, Any] = {"jobs": {job["ID"] for job in client.jobs.get_jobs()}}
        seen["allocations"] = len(client.allocations.get_allocations())
        seen["plan"] = client.job.plan_job("10-a", {"Job": runner_job("10-a")})["Annotations"]["DesiredTGUpdates"]
        seen["evaluation"] = client.job.evaluate_job("10-a")["EvalID"]
        seen["same"] = client.evaluation.get_evaluation(seen["evaluation"])["JobID"]
        seen["nodes"] = sorted(node["Name"] for node in client.nodes.get_nodes())
        client.node.eligible_node(client.nodes.get_nodes()[0]["ID"], ineligible=True)
        seen["leader"] = client.status.leader.get_leader()
        seen["members"] = client.agent.get_members()["Members"][0]["Name"]
        client.job.deregister_job("10-a", purge=True)
        seen["gone"] = "10-a" not in client.job
        client.system.initiate_garbage_collection()
        return seen

    async with serving() as client:
        host, _, port = client.server.address.rpartition(":")
        seen = await asyncio.to_thread(use, int(port))
    assert seen["jobs"] == {"template-10", "10-a"}
    assert seen["allocations"] >= 1
    assert set(seen["plan"]) == {"default-group", "config"}
    assert seen["same"] == "10-a"
    assert seen["nodes"] == ["agent-1", "agent-2", "agent-3"]
    assert seen["leader"] == f"{host.removeprefix('http://')}:{port}"
    assert seen["members"] == "server-1.global"
    assert seen["gone"]


async def test_tls_is_served_and_checked() -> None:
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    trusting, strict = ssl.create_default_context(), ssl.create_default_context()
    authority.configure_trust(trusting)
    async with TwinServer(lab(1), tls=context) as server, aiohttp.ClientSession() as http:
        assert server.address.startswith("https://127.0.0.1:")
        async with http.get(f"{server.address}/v1/jobs", ssl=trusting) as answer:
            assert answer.status == 200
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await http.get(f"{server.address}/v1/jobs", ssl=strict)


async def test_agents_are_in_hand_while_the_cluster_runs() -> None:
    async with serving(lab(2)) as client:
        cluster = client.server.touch()
        key = with_runner(cluster, run_s=0.0)
        await client.until(lambda: cluster.state.jobs[key].status == "running")
        await client.until(lambda: cluster.state.allocations_of(key)[-1].client_status == "running")
        name = cluster.state.allocations_of(key)[-1].node_name
        client.server.agents[name].stop()
        await client.until(lambda: len(cluster.state.allocations_of(key)) == 2)
        allocations = await client.get(f"/v1/job/{key[1]}/allocations")
        assert "lost" in {allocation["ClientStatus"] for allocation in allocations}


async def test_a_scenario_plays_behind_the_server() -> None:
    scenario = SCENARIOS["restart-together-20s"]
    cluster = cluster_for(scenario, seed=1)
    async with serving(cluster, speed=200.0) as client:
        player = Player(client.server.touch(), scenario)
        player.begin()
        await client.until(lambda: player.done)
        jobs = await client.get("/v1/jobs")
    assert {job["Status"] for job in jobs} <= {"dead", "running"}
    assert len(jobs) == 6


async def test_each_server_has_an_address_of_its_own() -> None:
    cluster = lab(servers=3)
    async with TwinServer(cluster, clock=RealClock(speed=20)) as server, aiohttp.ClientSession() as http:
        assert len(set(server.addresses.values())) == 3
        async with http.get(f"{server.addresses['server-3']}/v1/status/leader") as answer:
            assert await answer.json() == server.address.removeprefix("http://")
        async with http.get(f"{server.address}/v1/status/peers") as answer:
            assert len(await answer.json()) == 3
        server.touch().stop_server("server-2")
        with pytest.raises(aiohttp.ClientError):
            await http.get(f"{server.addresses['server-2']}/v1/jobs")
        async with http.get(f"{server.addresses['server-3']}/v1/jobs") as answer:
            assert answer.status == 200
        server.touch().stop_server("server-1")
        async with http.get(f"{server.addresses['server-3']}/v1/jobs") as answer:
            assert (answer.status, await answer.text()) == (500, "No cluster leader")
        async with http.get(f"{server.addresses['server-3']}/v1/jobs?stale") as answer:
            assert (answer.status, answer.headers["X-Nomad-Knownleader"]) == (200, "false")


async def test_a_port_may_be_chosen(unused_tcp_port: int) -> None:
    async with TwinServer(lab(1), port=unused_tcp_port) as server:
        assert server.address == f"http://127.0.0.1:{unused_tcp_port}"
