"""Where a course of events takes place: the cluster, its Poseidon, the reconcilers, and what befalls them when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

from msgspec.structs import replace

from poseidon_reconciler.app.simulation.course import Course
from poseidon_reconciler.app.simulation.life import Life, Place, World
from poseidon_reconciler.app.simulation.mishaps import MISHAPS
from poseidon_reconciler.app.simulation.stage import Mishap
from poseidon_reconciler.app.simulation.weather import Weather
from poseidon_reconciler.app.simulation.wire import Connection
from poseidon_reconciler.app.simulation.wishes import reloaded
from poseidon_reconciler.twin import poseidon_jobs as pj
from poseidon_reconciler.twin.cluster import Cluster, default_nodes
from poseidon_reconciler.twin.events import Buffer
from poseidon_reconciler.twin.poseidon import Poseidon
from poseidon_reconciler.twin.state import Snapshot

# A number so small that a float of it still tells a microsecond from the next.
START: Final = 1_000_000.0
_WARM_UP_S: Final = 30.0
_SET_UP_S: Final = 10.0
_RESTART_S: Final = 2.0
# By then every agent that is back has been heard of.
_CLEARING_S: Final = 40.0


def cluster_of(course: Course) -> Cluster:
    """The cluster of a course, whose agents have all been ready for a while."""
    nodes = [replace(spec, cpu_mhz=course.cpu_mhz) for spec in default_nodes(course.agents)]
    cluster = Cluster(nodes, now=START - _WARM_UP_S, seed=course.seed, settings=course.cluster)
    for server in cluster.quorum.servers.values():
        server.buffer = Buffer(course.buffer_batches)
    cluster.advance(START)
    return cluster


class Scene:
    """What mishaps happen to, in the cluster's time.

    Attributes:
        rng: chance, as each mishap finds it.
        calm_since: since when nothing goes wrong any more; None before.
    """

    def __init__(
        self, course: Course, cluster: Cluster, world: World, note: Callable[[str], None], directory: Path
    ) -> None:
        """`directory` is where reconcilers keep what survives them."""
        self.course = course
        self.cluster = cluster
        self.rng = Random(course.seed)
        self.poseidon = Poseidon(cluster, course.poseidon, seed=course.seed) if course.poseidon is not None else None
        self.calm_since: float | None = None
        self._is_calm = False
        self._world = world
        self._note = note
        self._places = [_place(course, number, directory) for number in range(len(course.places))]
        self._lives: dict[str, Life] = {}
        self._calm_at = float("inf")
        # Why Poseidon does not run.
        self._hindrances = {"it has not begun"}

    @property
    def lives(self) -> list[Life]:
        """The latest life of each reconciler."""
        return list(self._lives.values())

    async def begin(self, mishaps: tuple[Mishap, ...]) -> None:
        """Sets the pools up, starts everybody, and lets the mishaps come."""
        for pool in self.course.pools:
            self.cluster.jobs.register(pj.environment_job(pool.number, pool.target, pool.work))
        await asyncio.sleep(_SET_UP_S)
        loop = asyncio.get_running_loop()
        self._advance()
        self.hinder_poseidon("it has not begun", begins=False)
        for number in range(len(self._places)):
            self.start(str(number))
        self._calm_at = loop.time() + self.course.calm_at
        for mishap in mishaps:
            loop.call_at(loop.time() + mishap.at, self._happen, mishap)
        loop.call_at(self._calm_at, self._calm_down)

    # -- mishaps -----------------------------------------------------------------------------------------------------

    def _happen(self, mishap: Mishap) -> None:
        self._advance()
        self.rng = Random(f"{self.course.seed} {mishap.at}")
        self._note(f"# {mishap}")
        undo = MISHAPS[mishap.kind].happen(self, mishap)
        if undo is not None:
            self.later(mishap.for_s, lambda: self._undo(mishap, undo))

    def _undo(self, mishap: Mishap, undo: Callable[[], None]) -> None:
        self._note(f"# over: {mishap.kind} {mishap.target}")
        undo()

    def later(self, delay_s: float, action: Callable[[], None]) -> None:
        def act() -> None:
            if not self._is_calm:
                self._advance()
                action()

        loop = asyncio.get_running_loop()
        loop.call_at(min(loop.time() + delay_s, self._calm_at - self.rng.random()), act)

    def _advance(self) -> None:
        self.cluster.advance(asyncio.get_running_loop().time())

    def _calm_down(self) -> None:
        """What was not undone is mended: from now on nothing goes wrong any more."""
        self._advance()
        self._note("# calm")
        self._is_calm = True
        for name, server in self.cluster.quorum.servers.items():
            if not server.up:
                self.cluster.start_server(name)
            self.cluster.rejoin_server(name)
        for agent in self.cluster.agents.values():
            agent.heal()
            agent.thaw()
            agent.start()
        for node in list(self.cluster.state.nodes.values()):
            if node.drain is not None:
                self.cluster.nodes.cancel_drain(node.id, eligible=True)
            elif not node.eligible:
                self.cluster.nodes.set_eligible(node.id, eligible=True)
        for pool in self.course.pools:
            self.cluster.script.forget(f"{pool.number}-")
            self.cluster.script.forget(pj.environment_id(pool.number))
        self._mend_clients()
        asyncio.get_running_loop().call_later(_CLEARING_S, self._clear)

    def _clear(self) -> None:
        """Operators remove the nodes that are gone for good, and restart agents that the servers have forgotten."""
        self._advance()
        self._note("# dead nodes are removed")
        # No more than that: a dead environment that is collected is missed by nobody.
        self.cluster.collector.remove_nodes()
        for agent in self.cluster.agents.values():
            if agent.node_id not in self.cluster.state.nodes:
                agent.stop()
                agent.start()
        self.calm_since = self.cluster.now

    def _mend_clients(self) -> None:
        for number, place in enumerate(self._places):
            place.weather.troubles.clear()
            self.reload(str(number), anew=False)
            self.start(str(number))
            for environment in list(place.pauses):
                self._lives[str(number)].resume(environment)
        self._hindrances.clear()
        self.servers_changed()
        self.hinder_poseidon("", begins=False)
        if self.poseidon is not None:
            self.poseidon.up = True
            self.poseidon.stop_claims()
            self._agree_on_targets(self.poseidon)

    def _agree_on_targets(self, poseidon: Poseidon) -> None:
        """After a restore Poseidon may want other sizes than its jobs say, and it would never notice by itself."""
        for pool in poseidon.pools.values():
            job = self.cluster.state.jobs.get(("default", pj.environment_id(pool.number)))
            told = pj.config_of(dict(job.spec)).get("prewarmingPoolSize") if job is not None else None
            if told is not None and told.isdecimal():
                pool.job = pj.with_config(pool.job, prewarmingPoolSize=told)

    # -- servers -----------------------------------------------------------------------------------------------------

    def servers_changed(self) -> None:
        for connection in list(self._world.connections):
            connection.poke()
        self.hinder_poseidon("the servers have no leader", begins=not self.cluster.has_leader)

    def restore(self, snapshot: Snapshot) -> None:
        self.cluster.restore_snapshot(snapshot)
        self._world.restored(snapshot.index)
        self.servers_changed()

    # -- reconcilers, and Poseidon -----------------------------------------------------------------------------------

    def weather(self, place: str) -> Weather:
        return self._places[int(place)].weather

    def streams(self, place: str) -> list[Connection]:
        weather = self.weather(place)
        return [connection for connection in self._world.connections if connection.weather is weather]

    def kill(self, place: str, *, gently: bool) -> None:
        life = self._lives.get(place)
        if life is not None and gently:
            life.stop()
        elif life is not None:
            life.kill()

    def start(self, place: str) -> None:
        life = self._lives.get(place)
        if life is not None and not life.ending:
            return
        number = life.number + 1 if life is not None else 1
        life = self._lives[place] = Life(self._world, self._places[int(place)], number)
        self._note(f"# {life.name} begins")
        life.begin()

    def supervise(self, life: Life) -> None:
        """A process has ended by itself: whoever supervises it starts it anew."""
        place = next(place for place, known in self._lives.items() if known is life)
        asyncio.get_running_loop().call_later(_RESTART_S, self.start, place)

    def step_clock(self, place: str, step_s: float) -> None:
        self._places[int(place)].skew_s += step_s
        self._places[int(place)].clock_set_at = self.cluster.now

    def pause(self, environment: str | None, for_s: float | None) -> None:
        for life in self._lives.values():
            if not life.ending:
                life.pause(environment, for_s)

    def resume(self, environment: str | None) -> None:
        for life in self._lives.values():
            if not life.ending:
                life.resume(environment)

    def reload(self, place: str, *, anew: bool) -> None:
        here, life = self._places[int(place)], self._lives.get(place)
        wishes = reloaded(self.course.settings, self.course.pools, self.rng) if anew else self.course.settings
        here.settings = wishes.model_copy(update={"state_dir": here.settings.state_dir})
        here.policy, here.told_at = here.settings.policy(), self.cluster.now
        if life is not None and not life.ending:
            life.change_policy(here.policy)

    def hinder_poseidon(self, why: str, *, begins: bool) -> None:
        hindered = bool(self._hindrances)
        if begins:
            self._hindrances.add(why)
        else:
            self._hindrances.discard(why)
        if self.poseidon is None or hindered == bool(self._hindrances):
            return
        if self._hindrances:
            self.poseidon.stop()
        else:
            self.poseidon.start()


def _place(course: Course, number: int, directory: Path) -> Place:
    plan = course.places[number]
    state_dir = directory / f"R{number + 1}" if plan.keeps else None
    settings = course.settings.model_copy(update={"state_dir": state_dir})
    rng = Random(f"{course.seed} place {number}")
    weather = Weather(Random(f"{course.seed} weather {number}"), plan.entry)
    return Place(f"R{number + 1}", settings, weather, rng, skew_s=plan.skew_s)
