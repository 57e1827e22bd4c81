"""Plays a scenario on a cluster: sets it up as soon as all agents are ready, and does each step at its time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from msgspec.structs import replace

from poseidon_reconciler.twin import poseidon_jobs as pj
from poseidon_reconciler.twin.agents import Agent
from poseidon_reconciler.twin.cluster import Cluster, default_nodes
from poseidon_reconciler.twin.nodes import Nodes
from poseidon_reconciler.twin.records import JobKey
from poseidon_reconciler.twin.scenarios import Scenario, Step
from poseidon_reconciler.twin.tasks import TaskRun

_POLL_S = 0.25


def cluster_for(scenario: Scenario, *, seed: int | Random = 0, now: float = 1_800_000_000.0) -> Cluster:
    """A cluster as the scenario wants it; its agents start at once."""
    nodes = [replace(spec, cpu_mhz=scenario.agent_cpu_mhz) for spec in default_nodes(scenario.agents)]
    return Cluster(nodes, now=now, seed=seed, settings=scenario.settings)


class Player:
    """Plays one scenario on one cluster. Everything happens in the cluster's own time once `begin` was called."""

    def __init__(self, cluster: Cluster, scenario: Scenario) -> None:
        self.cluster = cluster
        self.scenario = scenario
        self.running_since: float | None = None
        self.done = False
        self.environment: JobKey = ("default", pj.environment_id(scenario.environment))
        self.runners: list[JobKey] = []
        self.protected: set[JobKey] = set()
        self._meant: dict[str, list[Agent]] = {}

    def begin(self) -> None:
        """Starts to play."""
        self._when(self._all_ready, self._set_up)

    def play(self) -> Player:
        """Plays to the end, however long that takes in the cluster's time."""
        self.begin()
        while not self.done:
            self.cluster.run_for(1.0)
        return self

    def _when(self, condition: Callable[[], bool], action: Callable[[], None]) -> None:
        if condition():
            action()
        else:
            self.cluster.kernel.after(_POLL_S, lambda: self._when(condition, action))

    def _all_ready(self) -> bool:
        nodes = self.cluster.state.nodes.values()
        return len(nodes) == len(self.cluster.agents) and all(node.schedulable for node in nodes)

    def _set_up(self) -> None:
        scenario = self.scenario
        if scenario.with_environment:
            self.cluster.jobs.register(pj.environment_job(scenario.environment, scenario.runners, scenario.work))
        for number in range(1, scenario.runners + 1):
            self.add_runner(dict(scenario.work_of).get(number, scenario.work))
        self._when(self._all_settled, self.start_steps)

    def add_runner(self, work: pj.Work) -> None:
        """Registers one more runner, as Poseidon would."""
        job_id = pj.runner_id(self.scenario.environment, self.cluster.kernel.rng)
        self.runners.append(("default", job_id))
        self.cluster.jobs.register(pj.runner_job(job_id, work))

    def _all_settled(self) -> bool:
        """Whether every allocation has been started once."""
        state = self.cluster.state
        return self.cluster.evaluator.idle and all(
            any(task.started_at is not None for task in allocation.task_states.values())
            for allocation in state.allocations.values()
        )

    def start_steps(self) -> None:
        """Starts only the steps: for a cluster that somebody else has set up."""
        kernel = self.cluster.kernel
        self.running_since = kernel.now
        for step in self.scenario.steps:
            kernel.after(step.at_s, lambda step=step: self.do(step))  # type: ignore[misc]
        kernel.after(self.scenario.duration_s, self._finish)

    def _finish(self) -> None:
        self.done = True

    def do(self, step: Step) -> None:
        """Does one step now."""
        VERBS[step.verb](self, step)

    def agents(self, target: str) -> list[Agent]:
        """The agents that a step means; that of a job is the one on which it was when it was first meant."""
        agents = list(self.cluster.agents.values())
        if target == "all":
            return agents
        if not target.startswith("of:"):
            return [agents[int(target) - 1]]
        if target not in self._meant:
            (key,) = self.jobs(target.removeprefix("of:"))
            nodes = {a.node_id for a in self.cluster.state.allocations_of(key) if not a.terminal}
            self._meant[target] = [agent for agent in agents if agent.node_id in nodes]
        return self._meant[target]

    def jobs(self, target: str) -> list[JobKey]:
        """The jobs that a step means."""
        jobs = self.cluster.state.jobs
        match target:
            case "environment":
                return [self.environment]
            case "runners":
                return [*self.runners]
            case "odd":
                return self.runners[::2]
            case "survivors":
                return [key for key in self._known() if jobs[key].status != "dead"]
            case "half-of-unprotected-survivors":
                untouched = [key for key in self.jobs("survivors") if key not in self.protected]
                return untouched[::2]
            case "none":
                return [("default", f"{self.scenario.environment}-never-there")]
            case _:
                return [self.runners[int(target) - 1]]

    def _known(self) -> list[JobKey]:
        return [key for key in [self.environment, *self.runners] if key in self.cluster.state.jobs]

    def change(self, key: JobKey, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Registers a changed copy of a job, on the condition that nobody else changed it meanwhile."""
        job = self.cluster.state.jobs[key]
        raw = change(dict(job.spec))
        self.cluster.jobs.register(raw, enforce_index=True, job_modify_index=job.job_modify_index)


def _each_agent(act: Callable[[Agent], None]) -> Callable[[Player, Step], None]:
    def do(player: Player, step: Step) -> None:
        for agent in player.agents(step.target):
            act(agent)

    return do


def _each_job(act: Callable[[Player, JobKey, str], object]) -> Callable[[Player, Step], None]:
    def do(player: Player, step: Step) -> None:
        for key in player.jobs(step.target):
            act(player, key, step.value)

    return do


def _each_node(act: Callable[[Nodes, str, str], None]) -> Callable[[Player, Step], None]:
    def do(player: Player, step: Step) -> None:
        for agent in player.agents(step.target):
            act(player.cluster.nodes, agent.node_id, step.value)

    return do


def _restart_servers(player: Player, step: Step) -> None:
    for name in player.cluster.quorum.servers:
        player.cluster.restart_server(name, down_s=float(step.value or 0))


def _protect(player: Player, key: JobKey, _: str) -> None:
    player.protected.add(key)
    player.change(key, lambda raw: pj.with_config(raw, protected=str(len(player.protected))))


def _use(player: Player, key: JobKey, _: str) -> None:
    player.change(key, lambda raw: pj.with_config(raw, used="true", timeout="60"))


def _resize(player: Player, key: JobKey, value: str) -> None:
    player.change(key, lambda raw: pj.with_config(raw, prewarmingPoolSize=value))


def _give_cpu(player: Player, key: JobKey, value: str) -> None:
    player.change(key, lambda raw: _with_task(raw, lambda task: task["Resources"].update(CPU=int(value))))


def _reregister(player: Player, key: JobKey, value: str) -> None:
    words = value.split()
    config = {"command": words[0], "args": words[1:]} if words else None
    player.change(key, lambda raw: _with_task(raw, lambda task: task.update(Config=config or task["Config"])))


def _with_task(raw: dict[str, Any], change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    copied = pj.with_config(raw)
    for group in copied["TaskGroups"]:
        if group["Name"] == "default-group":
            for task in group["Tasks"]:
                change(task)
    return copied


def _stop_allocation(player: Player, key: JobKey, _: str) -> None:
    living = [a for a in player.cluster.state.allocations_of(key) if not a.terminal]
    player.cluster.nodes.migrate(living, "alloc-stop")


def _break_image(player: Player, step: Step) -> None:
    run = TaskRun(image="fail", message=f"Failed to pull `{step.value}`: image not found")
    player.cluster.script.tell(f"{player.scenario.environment}-", run, prefix=True)


def _mend_image(player: Player, _: Step) -> None:
    player.cluster.script.forget(f"{player.scenario.environment}-")


VERBS: Mapping[str, Callable[[Player, Step], None]] = {
    "start": _each_agent(lambda agent: agent.start()),
    "stop": _each_agent(lambda agent: agent.stop()),
    "reboot": _each_agent(lambda agent: agent.reboot()),
    "lose-disk": _each_agent(lambda agent: agent.lose_disk()),
    "freeze": _each_agent(lambda agent: agent.freeze()),
    "thaw": _each_agent(lambda agent: agent.thaw()),
    "cut": _each_agent(lambda agent: agent.cut()),
    "heal": _each_agent(lambda agent: agent.heal()),
    "close": _each_node(lambda nodes, node_id, _: nodes.set_eligible(node_id, eligible=False)),
    "open": _each_node(lambda nodes, node_id, _: nodes.set_eligible(node_id, eligible=True)),
    "drain": _each_node(lambda nodes, node_id, value: nodes.drain(node_id, float(value))),
    "add-runner": lambda player, _: player.add_runner(player.scenario.work),
    "use": _each_job(_use),
    "protect": _each_job(_protect),
    "resize": _each_job(_resize),
    "break-image": _break_image,
    "mend-image": _mend_image,
    "give-cpu": _each_job(_give_cpu),
    "reregister": _each_job(_reregister),
    "evaluate": _each_job(lambda p, key, _: p.cluster.jobs.evaluate(key)),
    "force-evaluate": _each_job(lambda p, key, _: p.cluster.jobs.evaluate(key, force_reschedule=True)),
    "stop-job": _each_job(lambda p, key, _: p.cluster.jobs.deregister(key)),
    "purge": _each_job(lambda p, key, _: p.cluster.jobs.deregister(key, purge=True)),
    "stop-allocation": _each_job(_stop_allocation),
    "collect": lambda player, _: player.cluster.collect_garbage(),
    "restart-servers": _restart_servers,
}
"""What a step can do, by the names that scenarios use."""
