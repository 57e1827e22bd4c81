"""`twin`: the embedded cluster behind Nomad's HTTP API, for tools that are to be tried without a real one."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any, Final

from poseidon_reconciler.app.demo.play import Play, warm_cluster
from poseidon_reconciler.app.demo.scenarios import scenario_named
from poseidon_reconciler.app.errors import UsageError
from poseidon_reconciler.app.settings import duration_option
from poseidon_reconciler.twin.clock import RealClock
from poseidon_reconciler.twin.poseidon import Poseidon
from poseidon_reconciler.twin.poseidon_http import PoseidonServer
from poseidon_reconciler.twin.scenarios import SCENARIOS, Scenario
from poseidon_reconciler.twin.server import TwinServer

# An environment with its runners, to which nothing happens.
_PEACEFUL: Final = "startup"
_MAX_PORT: Final = 65535


def twin(options: argparse.Namespace) -> int:
    """Runs the command.

    Raises:
        UsageError: there is no such scenario, or the port cannot be used.
    """
    if not 0 <= options.port <= _MAX_PORT:
        raise UsageError(f"--port: {options.port} is not between 0 and {_MAX_PORT}")
    name = options.scenario or _PEACEFUL
    if name in SCENARIOS:
        # As it was recorded, with as many runners.
        scenes, about, disconnect = [SCENARIOS[name]], SCENARIOS[name].about, None
    else:
        scenario = scenario_named(name)
        scenes, about, disconnect = scenario.scenes(None), scenario.about, scenario.disconnect
    after_s = duration_option("--after", options.after)
    scenes = [scene.beginning_after(after_s) for scene in scenes]
    return asyncio.run(_serve(scenes, about, disconnect, options.port, with_poseidon=options.poseidon == "on"))


async def _serve(
    scenes: list[Scenario], about: str, disconnect: dict[str, Any] | None, port: int, *, with_poseidon: bool
) -> int:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    clock = RealClock()
    cluster = warm_cluster(scenes[0], now=clock.now())
    poseidon = Poseidon(cluster, note=lambda text, job_id: _tell(f"Poseidon: {text} {job_id}"))

    def on_started() -> None:
        begins = f"; the failure begins in {play.first_step_s:g} s" if scenes[0].steps else ""
        _tell(f"everything runs{begins}")
        if with_poseidon:
            poseidon.start()

    play = Play(cluster, scenes, disconnect=disconnect, tell=_tell, on_started=on_started)
    async with AsyncExitStack() as stack:
        try:
            server = await stack.enter_async_context(TwinServer(cluster, clock=clock, port=port))
        except OSError as error:
            raise UsageError(f"--port: cannot listen on {port}: {os.strerror(error.errno or 0).lower()}") from None
        beside = PoseidonServer(poseidon, touch=server.touch)
        if with_poseidon:
            await stack.enter_async_context(beside)
        _print_welcome(server.address, about, beside.address)
        server.touch()
        play.begin()
        await stopped.wait()
    return 0


def _print_welcome(address: str, about: str, poseidon_address: str) -> None:
    print(f"Nomad's API on {address}: {about}")
    print("In another shell:")
    print(f"  export NOMAD_ADDR={address}")
    if poseidon_address:
        print(f"  export RECONCILER_POSEIDON__ADDRESS={poseidon_address}")
    print("  poseidon-reconciler run")
    print(f"  curl {address}/v1/jobs")
    print("Ctrl-C ends it.", flush=True)


def _tell(text: str) -> None:
    print(f"{datetime.now(UTC).isoformat(timespec='milliseconds')} {text}", flush=True)
