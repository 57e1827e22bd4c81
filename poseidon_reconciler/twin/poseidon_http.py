"""The one part of Poseidon's HTTP API that is asked by others: what it believes of its pools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Final

from aiohttp import web

from poseidon_reconciler.twin.poseidon import Poseidon

_PATH: Final = "/api/v1/statistics/execution-environments"


class PoseidonServer:
    """Serves a Poseidon's statistics, as long as it is entered: `address` is where, empty before.

    While the Poseidon is not up, connections are broken off.
    """

    def __init__(
        self,
        poseidon: Poseidon,
        *,
        touch: Callable[[], object] = lambda: None,
        token: str | None = None,
        port: int = 0,
    ) -> None:
        """`touch` brings the cluster to the present; `token` is demanded if it is given."""
        self.address = ""
        self._poseidon = poseidon
        self._touch = touch
        self._token = token
        self._port = port
        application = web.Application()
        application.router.add_get(_PATH, self._statistics)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)

    async def __aenter__(self) -> PoseidonServer:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        self.address = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    async def _statistics(self, request: web.Request) -> web.StreamResponse:
        self._touch()
        if not self._poseidon.up and request.transport is not None:
            request.transport.abort()
        if self._token is not None and request.headers.get("Poseidon-Token") != self._token:
            return web.Response(status=401)
        return web.json_response(statistics_of(self._poseidon))


def statistics_of(poseidon: Poseidon) -> dict[str, dict[str, int]]:
    """What a Poseidon believes, by environment."""
    used = Counter(job_id.partition("-")[0] for job_id in poseidon.used)
    return {
        str(number): {
            "id": number,
            "prewarmingPoolSize": pool.target,
            "idleRunners": len(pool.idle),
            "usedRunners": used[str(number)],
        }
        for number, pool in poseidon.pools.items()
    }
