"""Faults: which request they happen to, how often, and what the client sees of them."""

from __future__ import annotations

import aiohttp
import pytest

from poseidon_reconciler.twin.faults import Fault, Faults, Stale
from poseidon_reconciler.twin.poseidon_jobs import runner_job
from tests.twin.labs import lab, with_runner
from tests.twin.serving import serving


def test_a_fault_happens_to_what_it_is_meant_for() -> None:
    faults = Faults()
    jobs = faults.add(Fault("/v1/jobs?", method="GET", times=2, skip=1))
    rest = faults.add(Fault("/v1/.*"))
    taken = [faults.take("GET", "/v1/jobs") for _ in range(4)]
    assert taken == [rest, jobs, jobs, rest]
    assert faults.take("PUT", "/v1/jobs") is rest
    assert faults.take("GET", "/v2/jobs") is None
    assert (jobs.hits, rest.hits) == (2, 3)
    faults.remove(rest)
    assert list(faults) == [jobs]
    faults.clear()
    assert faults.take("GET", "/v1/jobs") is None


async def test_an_error_answers_instead_of_the_cluster() -> None:
    async with serving(lab(1)) as client:
        client.server.faults.add(Fault("/v1/jobs", times=1, status=503, text="down for a while"))
        assert (await client.ask("POST", "/v1/jobs", {"Job": runner_job("10-a")}))[:2] == (503, "down for a while")
        assert await client.get("/v1/jobs") == []


@pytest.mark.parametrize(("lose", "written"), [("before", False), ("after", True)])
async def test_an_answer_may_be_lost_before_or_after_the_write(lose: str, written: bool) -> None:
    cluster = lab(1)
    async with serving(cluster) as client:
        client.server.faults.add(Fault("/v1/jobs", method="POST", times=1, lose=lose))
        with pytest.raises(aiohttp.ClientError):
            await client.ask("POST", "/v1/jobs", {"Job": runner_job("10-a")})
        assert (("default", "10-a") in cluster.state.jobs) is written


async def test_an_answer_may_be_late() -> None:
    async with serving(lab(1)) as client:
        client.server.faults.add(Fault("/v1/nodes", times=1, delay_s=3.0))
        before = client.server.clock.now()
        await client.get("/v1/nodes")
        assert client.server.clock.now() - before >= 3.0


@pytest.mark.parametrize("admitted", [True, False])
async def test_a_read_may_be_stale(admitted: bool) -> None:
    cluster = lab(1)
    with_runner(cluster)
    old = cluster.state.snapshot()
    cluster.jobs.deregister(("default", "10-a"), purge=True)
    cluster.run_for(2)
    async with serving(cluster) as client:
        client.server.faults.add(Fault("/v1/jobs", times=1, stale=Stale(old, admitted=admitted)))
        _, jobs, headers = await client.ask("GET", "/v1/jobs")
        assert [job["ID"] for job in jobs] == ["10-a"]
        assert headers["X-Nomad-Index"] == str(old.table_index["jobs"])
        assert headers["X-Nomad-Knownleader"] == ("false" if admitted else "true")
        assert headers["X-Nomad-Lastcontact"] == ("60000" if admitted else "0")
        assert await client.get("/v1/jobs") == []
