"""What befalls machines, servers, the network and reconcilers, and how it is undone."""

from __future__ import annotations

from poseidon_reconciler.app.simulation.endpoint import Tables
from poseidon_reconciler.app.simulation.stage import Happening, Mishap, Stage, Undo, agents_of
from poseidon_reconciler.app.simulation.weather import Trouble, TroubleKind
from poseidon_reconciler.twin import poseidon_jobs as pj
from poseidon_reconciler.twin.agents import Agent


def _start_all(stage: Stage, agents: list[Agent]) -> Undo:
    """They come back within a moment, but not at the same one."""

    def start() -> None:
        for agent in agents:
            stage.later(stage.rng.random(), agent.start)

    return start


def crash(stage: Stage, mishap: Mishap) -> Undo:
    agents = agents_of(stage, mishap.target)
    for agent in agents:
        agent.stop()
    return _start_all(stage, agents)


def crash_one_after_another(stage: Stage, mishap: Mishap) -> Undo:
    agents = agents_of(stage, mishap.target)
    each_s = mishap.for_s / len(agents)
    for number, agent in enumerate(agents):
        stage.later(number * each_s, agent.stop)
        stage.later((number + 0.9) * each_s, agent.start)
    return _start_all(stage, agents)


def reboot(stage: Stage, mishap: Mishap) -> Undo:
    agents = agents_of(stage, mishap.target)
    for agent in agents:
        agent.reboot()
    return _start_all(stage, agents)


def freeze(stage: Stage, mishap: Mishap) -> Undo:
    agents = agents_of(stage, mishap.target)
    for agent in agents:
        agent.freeze()

    def thaw() -> None:
        for agent in agents:
            agent.thaw()

    return thaw


def lose_disk(stage: Stage, mishap: Mishap) -> Undo:
    agents = agents_of(stage, mishap.target)
    for agent in agents:
        agent.lose_disk()
    return _start_all(stage, agents)


def cut_off_agents(stage: Stage, mishap: Mishap) -> Undo:
    agents = agents_of(stage, mishap.target)
    for agent in agents:
        agent.cut()

    def heal() -> None:
        for agent in agents:
            agent.heal()

    return heal


# -- servers -----------------------------------------------------------------------------------------------------------


def stop_servers(stage: Stage, mishap: Mishap) -> Undo:
    names = mishap.target.split(",")
    for name in names:
        stage.cluster.stop_server(name)
    stage.servers_changed()

    def start() -> None:
        for name in names:
            stage.cluster.start_server(name)
        stage.servers_changed()

    return start


def cut_off_servers(stage: Stage, mishap: Mishap) -> Undo:
    stage.cluster.cut_off_server(mishap.target)
    stage.servers_changed()

    def rejoin() -> None:
        stage.cluster.rejoin_server(mishap.target)
        stage.servers_changed()

    return rejoin


def restore(stage: Stage, mishap: Mishap) -> Undo | None:
    """An older snapshot is restored. So many jobs of others as `value` says come and go before anybody looks again, so
    that the indexes may be as high as they were.
    """
    if not stage.cluster.has_leader:
        return None
    snapshot = stage.cluster.save_snapshot()

    def go_back() -> None:
        if stage.cluster.has_leader:
            stage.restore(snapshot)
            for number in range(int(mishap.value)):
                stage.cluster.jobs.register(pj.runner_job(f"stranger-{number}", pj.Work(cpu_mhz=1)))
                stage.cluster.jobs.deregister(("default", f"stranger-{number}"), purge=True)

    return go_back


# -- the network of a reconciler, and the reconciler -------------------------------------------------------------------


def trouble(kind: TroubleKind, *, delay_s: float = 0.0) -> Happening:
    def happen(stage: Stage, mishap: Mishap) -> Undo:
        weather = stage.weather(mishap.target)
        tables = Tables(stage.cluster, admitted=kind == "stale") if kind in ("stale", "old") else None
        begun = Trouble(kind, mishap.value or 1.0, delay_s * stage.rng.random(), tables)
        weather.begin(begun)
        return lambda: weather.end(begun)

    return happen


def cut_stream(stage: Stage, mishap: Mishap) -> None:
    for connection in stage.streams(mishap.target):
        connection.cut()


def end_stream(stage: Stage, mishap: Mishap) -> None:
    text = stage.rng.choice(("", "event dropped from buffer", "EOF"))
    for connection in stage.streams(mishap.target):
        connection.end(text)


def silence_stream(stage: Stage, mishap: Mishap) -> None:
    for connection in stage.streams(mishap.target):
        connection.fall_silent()


def stall_stream(stage: Stage, mishap: Mishap) -> Undo:
    stalled = stage.streams(mishap.target)
    for connection in stalled:
        connection.stall()

    def go_on() -> None:
        for connection in stalled:
            connection.go_on()

    return go_on


def spoil_stream(stage: Stage, mishap: Mishap) -> None:
    for connection in stage.streams(mishap.target):
        connection.spoil()


def kill(stage: Stage, mishap: Mishap) -> Undo:
    stage.kill(mishap.target, gently=False)
    return lambda: stage.start(mishap.target)


def terminate(stage: Stage, mishap: Mishap) -> Undo:
    stage.kill(mishap.target, gently=True)
    return lambda: stage.start(mishap.target)


def step_clock(stage: Stage, mishap: Mishap) -> None:
    stage.step_clock(mishap.target, mishap.value)
