"""`run` with all that is told to others, beside an embedded cluster in which a runner dies."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from poseidon_reconciler.app.around import Notifier
from poseidon_reconciler.core.reconciler import Step
from poseidon_reconciler.observe.logs.events import MESSAGES
from poseidon_reconciler.twin.poseidon import Poseidon
from poseidon_reconciler.twin.poseidon_http import PoseidonServer
from poseidon_reconciler.twin.poseidon_jobs import Work, environment_job, runner_job
from poseidon_reconciler.twin.server import TwinServer
from tests.observe.logs.test_writer import fill
from tests.observe.receivers import Receiver, receiving
from tests.twin.labs import lab

COMMAND = [sys.executable, "-m", "poseidon_reconciler", "run"]
DEAD, ALIVE = "10-00000000-0000-11f1-9c5d-02fc00000001", "10-0000000{}-0000-11f1-9c5d-02fc00000001"
TIMEOUT_S = 60


class Run:
    """The command, and its log until now."""

    def __init__(self, child: asyncio.subprocess.Process, server: TwinServer) -> None:
        self.child = child
        self.server = server
        self.log: list[dict[str, Any]] = []

    async def read_until(self, event: str) -> None:
        """Reads on until something was logged; every line until then is one JSON object."""
        assert self.child.stderr is not None
        async with asyncio.timeout(TIMEOUT_S):
            while not self.of(event) and (line := await self.child.stderr.readline()):
                self.log.append(json.loads(line))
        if not self.of(event):
            raise AssertionError(f"it ended without {event}: {self.log}")

    async def end(self) -> None:
        assert self.child.stderr is not None
        self.child.send_signal(signal.SIGTERM)
        async with asyncio.timeout(TIMEOUT_S):
            self.log += [json.loads(line) async for line in self.child.stderr]
            assert await self.child.wait() == 0

    def of(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.log if line["event"] == event]


@asynccontextmanager
async def running(receiver: Receiver, *, stderr: int = asyncio.subprocess.PIPE, **variables: str) -> AsyncIterator[Run]:
    """`run` beside a cluster with a pool of three, one of which has ended with 0, and a Poseidon that holds them."""
    cluster = lab(version="1.10.5")
    cluster.jobs.register(environment_job(10, 3))
    cluster.jobs.register(runner_job(DEAD, Work(command=("sleep", "1"))))
    for number in (1, 2):
        cluster.jobs.register(runner_job(ALIVE.format(number)))
    poseidon = Poseidon(cluster)
    cluster.run_for(0.8)
    poseidon.start()
    cluster.run_for(3)
    async with TwinServer(cluster) as server, PoseidonServer(poseidon, touch=server.touch) as beside:
        given = {
            "NOMAD_ADDR": server.address,
            "RECONCILER_HTTP__LISTEN": "off",
            "RECONCILER_POOL__LOST_GRACE": "1s",
            "RECONCILER_POOL__SETTLE": "1s",
            "RECONCILER_POSEIDON__ADDRESS": beside.address,
            "RECONCILER_POSEIDON__INTERVAL": "500ms",
            "RECONCILER_WEBHOOKS__ON_CALL__URL": receiver.url,
            **variables,
        }
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("NOMAD_", "RECONCILER_"))}
        child = await asyncio.create_subprocess_exec(
            *COMMAND, env=clean | given, stdout=asyncio.subprocess.DEVNULL, stderr=stderr
        )
        try:
            yield Run(child, server)
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()


async def test_a_loss_and_its_repair_are_logged_told_and_compared(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cr3t-key\n")
    async with (
        receiving() as receiver,
        running(receiver, RECONCILER_WEBHOOKS__ON_CALL__SECRET_FILE=str(secret)) as run,
    ):
        await run.read_until("pool-back")
        await run.read_until("poseidon-adopted")
        await run.end()

    assert {line["event"] for line in run.log} <= set(MESSAGES)
    (lost,) = run.of("runner-lost")
    assert (lost["environment_id"], lost["job_id"], lost["cause"]) == ("10", DEAD, "stuck-complete")
    done = {line["action"]: line for line in run.of("action-done")}
    assert set(done) == {"create-runner", "remove-job"}
    assert done["create-runner"]["index"] > 0
    assert (run.log[0]["event"], run.log[-1]["event"]) == ("started", "stopped")
    assert "s3cr3t" not in str(run.log)

    told = [event for batch in receiver.batches for event in batch]
    assert [event["type"].rpartition(".")[2] for event in told] == ["loss", "pool-back"]
    assert told[0]["data"]["job_id"] == DEAD
    assert told[1]["data"]["short_for_s"] < TIMEOUT_S
    assert all("Reconciler-Signature" in headers for headers, _ in receiver.requests)


async def test_receivers_and_a_poseidon_that_do_not_answer_change_nothing() -> None:
    async def hang() -> Any:
        await asyncio.sleep(TIMEOUT_S)

    async with receiving() as receiver:
        receiver.answers = [hang] * 100
        other = receiver.url.removesuffix("/hook/s3cr3t")
        async with running(receiver, RECONCILER_POSEIDON__ADDRESS=other) as run:
            await run.read_until("pool-back")
            await run.end()

    assert {line["action"] for line in run.of("action-done")} == {"create-runner", "remove-job"}
    assert run.of("webhook-dropped")


async def test_a_stderr_that_nobody_reads_changes_nothing() -> None:
    reading, writing = os.pipe()
    fill(writing)
    async with receiving() as receiver, running(receiver, stderr=writing, RECONCILER_LOG__LEVEL="debug") as run:
        async with asyncio.timeout(TIMEOUT_S):
            while ("default", DEAD) in run.server.touch().state.jobs:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            run.child.send_signal(signal.SIGTERM)
            assert await run.child.wait() == 0
    for fd in (reading, writing):
        os.close(fd)

    assert receiver.kinds()[0][0] == "loss"


# --- parts that fail --------------------------------------------------------------------------------------------------


async def test_the_notifier_needs_no_webhook() -> None:
    notifier = Notifier(None, [], lambda *_: None)  # type: ignore[arg-type]

    notifier.stepped(Step(0.0, [], [], []))
