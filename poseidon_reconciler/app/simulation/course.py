"""All that a seed decides: the cluster, its pools, how they are to be kept, and what befalls them when.

It is drawn at once and before anything happens, so that a course with fewer mishaps is the same up to the first one
that it lacks.
"""

from __future__ import annotations

from random import Random
from typing import Final

from msgspec import Struct

from poseidon_reconciler.app.simulation.mishaps import MISHAPS, Surroundings
from poseidon_reconciler.app.simulation.stage import Mishap
from poseidon_reconciler.app.simulation.wishes import PoolPlan, settings_of
from poseidon_reconciler.config import Settings
from poseidon_reconciler.twin.cluster import Settings as ClusterSettings
from poseidon_reconciler.twin.collector import Retention
from poseidon_reconciler.twin.evaluations import Pace
from poseidon_reconciler.twin.nodes import Heartbeats
from poseidon_reconciler.twin.poseidon import Habits
from poseidon_reconciler.twin.poseidon_jobs import Work
from poseidon_reconciler.twin.runner import AgentPace

VERSIONS: Final = ("1.1.2", "1.10.5", "2.0.5")
_FIRST_ENVIRONMENT: Final = 10
_CPU_MHZ: Final = 20
_MOST_MISHAPS: Final = 14


class PlacePlan(Struct, frozen=True):
    """A machine with a reconciler. `skew_s`: how wrong its clock is; `keeps`: whether it has a state directory."""

    entry: str
    skew_s: float
    keeps: bool


class Course(Struct, frozen=True):
    """What is to happen. Times are in seconds from the moment at which the pools are set up."""

    seed: int
    agents: int
    cpu_mhz: int
    buffer_batches: int
    cluster: ClusterSettings
    settings: Settings
    pools: tuple[PoolPlan, ...]
    places: tuple[PlacePlan, ...]
    poseidon: Habits | None
    mishaps: tuple[Mishap, ...]
    calm_at: float


def course_of(seed: int) -> Course:
    """The course that a seed stands for."""
    rng = Random(f"course {seed}")
    version = rng.choice(VERSIONS)
    servers = rng.choice((1, 1, 3))
    agents = rng.randint(1, 6)
    pools = tuple(_pool(_FIRST_ENVIRONMENT + n, version, rng) for n in range(rng.choice((1, 1, 2, 3))))
    jobs = sum(pool.target + 1 for pool in pools)
    places = tuple(
        PlacePlan(f"server-{rng.randint(1, servers)}", rng.choice((0.0, rng.uniform(-90, 90))), rng.random() < 0.5)
        for _ in range(rng.choice((1, 1, 2)))
    )
    calm_at = rng.uniform(60, 240)
    surroundings = Surroundings(
        agents=agents, servers=servers, places=len(places), environments=tuple(pool.number for pool in pools)
    )
    return Course(
        seed=seed,
        agents=agents,
        cpu_mhz=_CPU_MHZ * max(1, round(jobs * rng.choice((1.0, 1.5, 3.0)) / agents + 0.5)),
        buffer_batches=rng.choice((20, 100, 100)),
        cluster=_cluster(version, servers, rng),
        settings=settings_of(pools, rng),
        pools=pools,
        places=places,
        poseidon=_habits(rng) if rng.random() < 0.8 else None,
        mishaps=_mishaps(surroundings, calm_at, rng),
        calm_at=calm_at,
    )


def _pool(number: int, version: str, rng: Random) -> PoolPlan:
    knows_disconnects = version != VERSIONS[0]
    stop_after_s = rng.choice((None, None, None, 10.0, 20.0))
    lost_after_s = rng.choice((None, 30.0, 600.0)) if knows_disconnects and stop_after_s is None else None
    work = Work(
        restarts=rng.choice((0, 1, 3)),
        restart_delay_s=rng.choice((1.0, 5.0)),
        reschedules=rng.choice((0, 1, 3)),
        reschedule_delay_s=rng.choice((5.0, 15.0)),
        delay_function=rng.choice(("constant", "exponential")),
        max_delay_s=30.0,
        cpu_mhz=_CPU_MHZ,
        stop_after_s=stop_after_s,
        lost_after_s=lost_after_s,
        volume=rng.choice(("", "", "", "csi", "host")),
    )
    return PoolPlan(number, rng.choice((0, 1, 2, 3, 4, 5, 6, 7, 8)), work)


def _cluster(version: str, servers: int, rng: Random) -> ClusterSettings:
    return ClusterSettings(
        version=version,
        algorithm=rng.choice(("spread", "binpack")),
        servers=servers,
        pace=Pace(workers=rng.choice((1, 2)), evaluation_s=rng.choice((0.006, 0.05))),
        agents=AgentPace(start_s=rng.choice((0.1, 1.0, 4.0)), prompt_share=rng.choice((0.0, 0.5, 1.0))),
        heartbeats=Heartbeats(min_ttl_s=rng.choice((2.0, 5.0, 10.0)), grace_s=rng.choice((1.0, 10.0))),
        retention=Retention(interval_s=rng.choice((60.0, 300.0)), jobs_s=rng.choice((60.0, 14400.0))),
    )


def _habits(rng: Random) -> Habits:
    return Habits(
        claims_per_minute=rng.choice((0.0, 1.0, 4.0)),
        use_s=rng.choice((10.0, 40.0)),
        alert_after_s=rng.choice((60.0, 300.0)),
    )


def _mishaps(surroundings: Surroundings, calm_at: float, rng: Random) -> tuple[Mishap, ...]:
    kinds = [kind for kind, catalogued in MISHAPS.items() for _ in range(catalogued.weight)]
    drawn = []
    for _ in range(rng.randint(1, _MOST_MISHAPS)):
        at = rng.uniform(5.0, calm_at - 5.0)
        kind = rng.choice(kinds)
        mishap = MISHAPS[kind].draw(surroundings, rng)
        drawn.append(Mishap(at, kind, mishap.target, min(mishap.for_s, calm_at - at), mishap.value))
    return tuple(sorted(drawn, key=lambda mishap: mishap.at))
