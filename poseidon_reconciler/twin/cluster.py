"""The embedded cluster: servers and agents as one deterministic state machine without a clock, threads or I/O.

Whoever drives it says what time it is (`advance`) and asks when something is due next (`next_due`). The same seed and
the same calls at the same times give the same history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

from msgspec import Struct

from poseidon_reconciler.twin.agents import Agent
from poseidon_reconciler.twin.collector import Collector, Retention
from poseidon_reconciler.twin.evaluations import Evaluator, Pace
from poseidon_reconciler.twin.events import Batch
from poseidon_reconciler.twin.jobs import Jobs
from poseidon_reconciler.twin.kernel import Kernel
from poseidon_reconciler.twin.nodes import Heartbeats, Nodes
from poseidon_reconciler.twin.quorum import Quorum
from poseidon_reconciler.twin.records import Allocation, NodeSpec
from poseidon_reconciler.twin.reports import Report, take_in
from poseidon_reconciler.twin.runner import AgentPace
from poseidon_reconciler.twin.scheduler import Rules
from poseidon_reconciler.twin.state import Snapshot, State
from poseidon_reconciler.twin.tasks import Script
from poseidon_reconciler.twin.traits import RECORDED, Traits


class Settings(Struct, frozen=True):
    """How the cluster is built. `algorithm`: `spread` or `binpack`; `servers`: how many of them there are."""

    version: str = RECORDED
    algorithm: str = "spread"
    servers: int = 1
    pace: Pace = Pace()
    agents: AgentPace = AgentPace()
    heartbeats: Heartbeats = Heartbeats()
    retention: Retention = Retention()


class Cluster:
    """Servers, agents and everything between them. `now` is the time at which it starts, in seconds since the epoch."""

    def __init__(
        self,
        nodes: int | Iterable[NodeSpec] = 3,
        *,
        now: float = 1_800_000_000.0,
        seed: int | Random = 0,
        settings: Settings | None = None,
    ) -> None:
        rng = seed if isinstance(seed, Random) else Random(seed)
        self.settings = settings = settings if settings is not None else Settings()
        self.traits = Traits.of(settings.version)
        self.kernel = Kernel(now, rng)
        self.quorum = Quorum(settings.servers)
        self.state = State(self.kernel, self.quorum.publish)
        self.state.on_wanted = self._tell_agent
        self.evaluator = Evaluator(self.state, settings.pace, Rules(settings.algorithm, self.traits))
        self.nodes = Nodes(self.state, self.evaluator, settings.heartbeats, self.traits)
        self.jobs = Jobs(self.state, self.evaluator, self.traits)
        self.collector = Collector(self.state, self.evaluator, settings.retention, self.traits)
        self.script = Script()
        self.agents: dict[str, Agent] = {}
        self._links = _Links(self)
        for spec in default_nodes(nodes) if isinstance(nodes, int) else nodes:
            self.add_agent(spec)

    # -- time --------------------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """The cluster's time, in seconds since the epoch."""
        return self.kernel.now

    def advance(self, now: float) -> None:
        """Lets everything happen that is due up to `now`."""
        self.kernel.advance(now)

    def run_for(self, duration_s: float) -> None:
        """Lets everything happen that is due within the next `duration_s` seconds."""
        self.advance(self.now + duration_s)

    @property
    def revision(self) -> int:
        """A number that changes whenever anything that a client can see does."""
        return self.state.writes + self.quorum.changes

    def next_due(self) -> float | None:
        """When something is due next, if anything is."""
        return self.kernel.next_due()

    # -- agents ------------------------------------------------------------------------------------------------------

    def add_agent(self, spec: NodeSpec, *, start: bool = True) -> Agent:
        """A new machine with an agent on it."""
        agent = Agent(self.kernel, self._links, spec, self.settings.agents, self.script)
        self.agents[spec.name] = agent
        if start:
            agent.start()
        return agent

    def agent_of(self, node_id: str) -> Agent | None:
        """The agent that has that node id now."""
        return next((agent for agent in self.agents.values() if agent.node_id == node_id), None)

    def _tell_agent(self, allocation: Allocation) -> None:
        agent = self.agent_of(allocation.node_id)
        if agent is not None:
            agent.told_of(allocation.id)

    # -- servers -----------------------------------------------------------------------------------------------------

    @property
    def has_leader(self) -> bool:
        """Whether enough servers are up to decide anything."""
        return self.quorum.has_leader

    def stop_server(self, name: str = "server-1") -> None:
        """A server is gone; without a majority nothing is decided any more."""
        self._change_servers(lambda: self.quorum.stop(name))

    def start_server(self, name: str = "server-1") -> None:
        """A server is back: it goes on with its indexes and replays its log since the last snapshot as if new."""
        self._change_servers(lambda: self.quorum.start(name))

    def cut_off_server(self, name: str) -> None:
        """A server loses sight of the others: it answers stale reads and sends heartbeats, but hears nothing new."""
        self._change_servers(lambda: self.quorum.cut_off(name))

    def rejoin_server(self, name: str) -> None:
        """A server that was cut off catches up."""
        self._change_servers(lambda: self.quorum.rejoin(name))

    def _change_servers(self, change: Callable[[], None]) -> None:
        had_leader = self.has_leader
        change()
        if had_leader and not self.has_leader:
            self.evaluator.paused = True
            self.nodes.suspend()
            for agent in self.agents.values():
                agent.out_of_touch()
        elif self.has_leader and not had_leader:
            self._new_term()

    def restart_server(self, name: str = "server-1", *, down_s: float = 0.0) -> None:
        """A server stops, and starts `down_s` seconds later."""
        self.stop_server(name)
        if down_s > 0:
            self.kernel.after(down_s, lambda: self.start_server(name))
        else:
            self.start_server(name)

    def save_snapshot(self) -> Snapshot:
        """What an operator saves; from now on a server that restarts replays only what comes later."""
        self.quorum.forget_log()
        return self.state.snapshot()

    def restore_snapshot(self, snapshot: Snapshot) -> None:
        """The servers become what they were: indexes go backwards, and whatever was since is unknown to them."""
        self.state.restore(snapshot)
        self.quorum.reset()
        self._new_term()

    def _new_term(self) -> None:
        self.evaluator.reset()
        self.nodes.resume(agent.node_id for agent in self.agents.values() if agent.in_touch)
        for agent in self.agents.values():
            agent.resync()

    def collect_garbage(self, *, force: bool = True) -> None:
        """What `/v1/system/gc` does."""
        self.collector.collect(force=force)

    # -- events ------------------------------------------------------------------------------------------------------

    @property
    def log(self) -> list[Batch]:
        """All batches of events since the last snapshot, oldest first."""
        return list(self.quorum.log)


class _Links:
    """The servers as agents see them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def reachable(self) -> bool:
        return self._cluster.has_leader

    def register(self, node_id: str, spec: NodeSpec, status: str) -> str:
        return self._cluster.nodes.register(node_id, spec, status)

    def heartbeat(self, node_id: str) -> None:
        self._cluster.nodes.heartbeat(node_id)

    def miss(self, node_id: str) -> None:
        if self._cluster.has_leader:
            self._cluster.nodes.miss(node_id)

    def report(self, node_id: str, reports: list[Report]) -> bool:
        return take_in(self._cluster.state, self._cluster.evaluator, node_id, reports)

    def allocations_on(self, node_id: str) -> list[Allocation]:
        return self._cluster.state.allocations_on(node_id)

    def allocation(self, identity: str) -> Allocation | None:
        return self._cluster.state.allocations.get(identity)


def default_nodes(count: int) -> list[NodeSpec]:
    """So many machines of the same make."""
    return [NodeSpec(name=f"agent-{number}", port=14640 + 10 * number) for number in range(1, count + 1)]
