"""Poseidon's statistics over HTTP, as the real one tells them."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from poseidon_reconciler.twin.poseidon_http import PoseidonServer
from tests.twin.test_poseidon import Pool

PATH = "/api/v1/statistics/execution-environments"


async def get(server: PoseidonServer, token: str | None = None) -> tuple[int, Any]:
    headers = {"Poseidon-Token": token} if token is not None else {}
    async with aiohttp.ClientSession() as session, session.get(server.address + PATH, headers=headers) as answer:
        return answer.status, await answer.json() if answer.status == 200 else None


async def test_it_tells_what_it_believes() -> None:
    pool = Pool(target=4)
    pool.poseidon.claim(10)
    async with PoseidonServer(pool.poseidon, touch=lambda: pool.cluster.run_for(0)) as server:
        assert await get(server) == (
            200,
            {"10": {"id": 10, "prewarmingPoolSize": 4, "idleRunners": 3, "usedRunners": 1}},
        )
        pool.cluster.run_for(3)
        _, told = await get(server)
    assert told["10"]["idleRunners"] == 4


async def test_it_demands_its_token() -> None:
    async with PoseidonServer(Pool().poseidon, token="s3cr3t") as server:
        assert (await get(server))[0] == 401
        assert (await get(server, "wrong"))[0] == 401
        assert (await get(server, "s3cr3t"))[0] == 200


async def test_while_it_is_down_nobody_answers() -> None:
    pool = Pool()
    pool.poseidon.stop()
    async with PoseidonServer(pool.poseidon) as server:
        with pytest.raises(aiohttp.ClientError):
            await get(server)
