"""The whole edge against the embedded cluster: it reads what is there, and what it does has the effect it should."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from poseidon_reconciler.core.ids import replacement_id
from poseidon_reconciler.core.ledger import Action, ActionKind
from poseidon_reconciler.core.reconciler import Reconciler
from poseidon_reconciler.nomad.api import Api
from poseidon_reconciler.nomad.confirm import AsOf
from poseidon_reconciler.nomad.connection import Connection
from poseidon_reconciler.nomad.documents import Stamp
from poseidon_reconciler.nomad.execution import Executed
from poseidon_reconciler.nomad.executor import Executor
from poseidon_reconciler.nomad.items import Closed, FrameReceived, Item, Opened
from poseidon_reconciler.nomad.lists import ListReader
from poseidon_reconciler.nomad.outcomes import Ok
from poseidon_reconciler.nomad.stream import EventStream
from poseidon_reconciler.nomad.transport import Transport
from poseidon_reconciler.policy import Policy
from poseidon_reconciler.twin.cluster import Cluster, Settings
from poseidon_reconciler.twin.faults import Fault, StreamFault
from poseidon_reconciler.twin.nodes import Heartbeats
from poseidon_reconciler.twin.poseidon_jobs import environment_job, runner_job
from poseidon_reconciler.twin.runner import AgentPace
from poseidon_reconciler.twin.server import TwinServer
from tests.leaps import LeapingClock, in_leaps

TEMPLATE = "template-10"
RUNNERS = [f"10-0000000{number}-0000-11f1-9c5d-02fc00000001" for number in range(6)]


@dataclass
class Edge:
    """A served cluster, and everything of ours that talks to it."""

    server: TwinServer
    api: Api
    stream: EventStream
    templates: dict[str, bytes] = field(default_factory=dict)
    items: list[Item] = field(default_factory=list)
    reconciler: Reconciler = field(default_factory=lambda: Reconciler(Policy()))
    decisions: int = 0

    def __post_init__(self) -> None:
        self.lists = ListReader(self.api, self.templates)
        self.executor = Executor(self.api, Policy(), self.templates)

    async def listen(self) -> None:
        async with aclosing(self.stream.items()) as items:
            async for item in items:
                self.items.append(item)
                if isinstance(item, FrameReceived):
                    self.reconciler.feed_frame(item.line, item.received_at)

    async def list_all(self) -> None:
        lists = await self.lists.read()
        assert not lists.failures
        self.reconciler.feed_snapshot(lists.snapshot, self.reconciler.now)

    async def act(self, kind: ActionKind, job_id: str, replaces: str | None = None) -> Executed:
        self.decisions += 1
        subject = replaces or (TEMPLATE if kind == "create-runner" else job_id)
        known = self.reconciler.model.jobs.get(subject)
        action = Action(0.0, kind, "10", job_id, "why", replaces)
        as_of = AsOf.of(known) if known is not None else AsOf()
        return await self.executor.execute(action, Stamp(f"d{self.decisions}"), as_of)

    def statuses(self) -> dict[str, str]:
        return {job.id: job.status for job in self.server.touch().state.jobs.values()}

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(300):
            while not condition():  # noqa: ASYNC110 - the cluster has no event for it
                await asyncio.sleep(0.1)

    async def quiet(self) -> None:
        """Waits until nothing has changed for some of the cluster's seconds."""
        seen = -1
        async with asyncio.timeout(300):
            while seen != (seen := self.server.touch().revision):  # noqa: ASYNC110
                await asyncio.sleep(6)

    async def all_agents(self, do: str, then: str) -> None:
        for agent in self.server.agents.values():
            getattr(agent, do)()
        self.server.touch()
        await self.until(lambda: {node.status for node in self.server.touch().state.nodes.values()} == {then})


@asynccontextmanager
async def edge_of(version: str) -> AsyncIterator[Edge]:
    settings = Settings(version=version, agents=AgentPace(prompt_share=1.0), heartbeats=Heartbeats(2.0, 1.0))
    cluster = Cluster(3, seed=1, settings=settings)
    cluster.run_for(15)
    cluster.jobs.register(environment_job(10, len(RUNNERS)))
    for job_id in RUNNERS:
        cluster.jobs.register(runner_job(job_id))
    cluster.run_for(5)
    async with TwinServer(cluster, clock=LeapingClock()) as server:
        connection = Connection(server.address)
        edge = Edge(server, Api(Transport(connection)), EventStream(connection))
        listening = asyncio.create_task(edge.listen())
        await edge.until(lambda: any(isinstance(item, Opened) for item in edge.items))
        await edge.list_all()
        yield edge
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        await edge.api.close()


def on_each(test: Callable[[Edge], Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test on a server that tells less, and on one that tells more."""

    @in_leaps
    async def on_version(version: str) -> None:
        async with edge_of(version) as edge:
            await test(edge)

    on_version.__name__ = test.__name__
    of_both: Callable[..., None] = pytest.mark.parametrize("version", ["1.1.2", "1.10.5"])(on_version)
    return of_both


@on_each
async def test_lists_and_stream_tell_the_whole_truth(edge: Edge) -> None:
    cluster = edge.server.cluster
    assert await edge.api.read_server_versions() == Ok([cluster.settings.version] * len(cluster.quorum.servers))
    assert {verdict.state for verdict in edge.reconciler.diagnosis.verdicts.values()} == {"active", "idle"}
    assert edge.reconciler.planner.desk.target("10") == len(RUNNERS)
    assert set(edge.templates) == {TEMPLATE}

    await edge.all_agents("stop", "down")
    await edge.quiet()
    told = {job_id: verdict.state for job_id, verdict in edge.reconciler.diagnosis.verdicts.items()}
    await edge.list_all()

    assert set(told.values()) == {"blocked"}
    assert {job_id: verdict.state for job_id, verdict in edge.reconciler.diagnosis.verdicts.items()} == told
    assert edge.reconciler.snapshots.drift == 0


@on_each
async def test_protected_while_blocked_all_jobs_outlive_the_return_of_the_agents(edge: Edge) -> None:
    await edge.all_agents("stop", "down")
    await edge.quiet()
    jobs = [TEMPLATE, *RUNNERS]
    assert set(edge.reconciler.diagnosis.at_risk) == set(jobs)

    results = await asyncio.gather(*[edge.act("protect-job", job_id) for job_id in jobs])
    await edge.all_agents("start", "ready")
    await edge.quiet()

    assert {(result.outcome, result.detail) for result in results} == {("done", "version 1, in place")}
    assert set(edge.statuses().values()) == {"running"}
    assert not edge.reconciler.diagnosis.at_risk


@on_each
async def test_left_alone_some_die_and_are_replaced_removed_or_revived(edge: Edge) -> None:
    await edge.all_agents("stop", "down")
    await edge.quiet()
    await edge.all_agents("start", "ready")
    await edge.quiet()
    dead = [job_id for job_id, status in edge.statuses().items() if status == "dead" and job_id != TEMPLATE]
    survivors = list(edge.reconciler.diagnosis.at_risk)
    assert dead

    protected = await asyncio.gather(*[edge.act("protect-job", job_id) for job_id in survivors])
    for job_id in dead:
        new = replacement_id("10", job_id, edge.reconciler.model.jobs[job_id].create_index)
        assert (await edge.act("create-runner", new, replaces=job_id)).outcome == "done"
        assert (await edge.act("create-runner", new, replaces=job_id)).outcome == "already"
        assert (await edge.act("remove-job", job_id)).outcome == "done"
    await edge.act("revive-environment", TEMPLATE)
    await edge.quiet()

    assert {result.outcome for result in protected} <= {"done"}
    assert edge.statuses() == dict.fromkeys(edge.statuses(), "running")
    assert len(edge.statuses()) == len(RUNNERS) + 1
    assert all(edge.reconciler.diagnosis.verdicts[job_id].state == "gone" for job_id in dead)


@on_each
async def test_the_living_are_neither_replaced_nor_removed(edge: Edge) -> None:
    assert (await edge.act("create-runner", f"{RUNNERS[0]}-x", replaces=RUNNERS[0])).outcome == "skipped"
    assert (await edge.act("remove-job", RUNNERS[0])).outcome == "skipped"
    assert (await edge.act("revive-environment", TEMPLATE)).outcome == "skipped"
    assert (await edge.act("protect-job", RUNNERS[0])).outcome == "already"
    assert (await edge.act("restore-environment", TEMPLATE)).outcome == "already"
    assert set(edge.statuses()) == {TEMPLATE, *RUNNERS}


@pytest.mark.parametrize("lose", ["before", "after"])
@in_leaps
async def test_a_lost_answer_makes_no_runner_too_many(lose: str) -> None:
    async with edge_of("1.10.5") as edge:
        edge.server.faults.add(Fault("/v1/jobs", "POST", times=1, lose=lose))

        first = await edge.act("create-runner", "10-new")
        second = await edge.act("create-runner", "10-new")

        assert (first.outcome, second.outcome) == (("unknown", "done") if lose == "before" else ("done", "already"))
        await edge.quiet()
        assert len(edge.statuses()) == len(RUNNERS) + 2


@pytest.mark.parametrize(
    ("fault", "kinds"),
    [
        (StreamFault("cut", 1), {"cut", "cut-line"}),
        (StreamFault("eof", 1), {"eof"}),
        (StreamFault("text", 1, text="event dropped from buffer"), {"dropped"}),
        (StreamFault("silence", 1), {"silent"}),
        (StreamFault("garbage", 1), set()),
    ],
)
@in_leaps
async def test_a_stream_that_fails_goes_on_without_a_loss(fault: StreamFault, kinds: set[str]) -> None:
    async with edge_of("1.10.5") as edge:
        edge.server.faults.add(Fault("/v1/event/stream", times=1, stream=fault))
        # The present connection was made without the fault: end it, so that the next one has it.
        edge.server.cluster.restart_server("server-1")
        edge.server.touch()
        await edge.until(lambda: any(isinstance(item, Closed) for item in edge.items))
        edge.items.clear()
        edge.stream.endings.clear()

        for number in range(8):
            await edge.act("create-runner", f"10-new-{number}")
            await asyncio.sleep(1.5)
        if kinds:
            await edge.until(lambda: bool(kinds & set(edge.stream.endings)))
        new = [f"10-new-{number}" for number in range(8)]
        await edge.until(lambda: all(job_id in edge.reconciler.model.jobs for job_id in new))

        assert set(edge.stream.endings) <= {*kinds, "unreachable", "refused"}


@on_each
async def test_a_purged_environment_is_restored(edge: Edge) -> None:
    assert (await edge.api.deregister(TEMPLATE, purge=True)).kind == "ok"
    await edge.until(lambda: edge.reconciler.diagnosis.verdicts[TEMPLATE].state == "gone")

    assert (await edge.act("restore-environment", TEMPLATE)).outcome == "done"
    await edge.quiet()

    assert edge.statuses()[TEMPLATE] == "running"
    assert edge.reconciler.planner.desk.target("10") == len(RUNNERS)
