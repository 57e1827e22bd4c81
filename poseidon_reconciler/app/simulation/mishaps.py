"""What can befall a cluster and the reconcilers on it: how each kind of mishap is drawn.

A mishap lasts for a while, and what ends it is a part of it; those that cannot be undone happen and that is that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from msgspec import Struct

from poseidon_reconciler.app.simulation import happenings as do
from poseidon_reconciler.app.simulation import people
from poseidon_reconciler.app.simulation.stage import Happening, Mishap
from poseidon_reconciler.app.simulation.wishes import SIZES


class Surroundings(Struct, frozen=True):
    """What there is for mishaps to hit: how many agents, servers and reconcilers, and which environments."""

    agents: int
    servers: int
    places: int
    environments: tuple[int, ...]


_Target = Callable[[Surroundings, Random], str]


class Kind(Struct, frozen=True):
    """A kind of mishap: how often it is drawn, to whom it happens, how long it lasts (seconds), and what it does.

    `values` are what may be drawn as its `value`.
    """

    weight: int
    target: _Target
    lasts_s: tuple[float, float]
    happen: Happening
    values: tuple[float, ...] = (0.0,)

    def draw(self, surroundings: Surroundings, rng: Random) -> Mishap:
        """A mishap of this kind; it happens at 0."""
        return Mishap(0.0, "", self.target(surroundings, rng), rng.uniform(*self.lasts_s), rng.choice(self.values))


def _agent(surroundings: Surroundings, rng: Random) -> str:
    return str(rng.randint(1, surroundings.agents))


def _agents(surroundings: Surroundings, rng: Random) -> str:
    """Some of them, mostly all."""
    numbers = range(1, surroundings.agents + 1)
    some = [number for number in numbers if rng.random() < 0.5]
    return ",".join(map(str, some if some and rng.random() < 0.3 else numbers))


def _server(surroundings: Surroundings, rng: Random) -> str:
    return f"server-{rng.randint(1, surroundings.servers)}"


def _servers(surroundings: Surroundings, _: Random) -> str:
    return ",".join(f"server-{number}" for number in range(1, surroundings.servers + 1))


def _place(surroundings: Surroundings, rng: Random) -> str:
    return str(rng.randrange(surroundings.places))


def _environment(surroundings: Surroundings, rng: Random) -> str:
    return str(rng.choice(surroundings.environments))


def _environment_or_all(surroundings: Surroundings, rng: Random) -> str:
    return rng.choice(("", _environment(surroundings, rng)))


def _nobody(_: Surroundings, __: Random) -> str:
    return ""


MISHAPS: Final[Mapping[str, Kind]] = {
    "crash": Kind(3, _agent, (1, 60), do.crash),
    "crash-together": Kind(5, _agents, (1, 60), do.crash),
    "crash-one-after-another": Kind(2, _agents, (10, 90), do.crash_one_after_another),
    "reboot": Kind(2, _agent, (1, 60), do.reboot),
    "reboot-together": Kind(3, _agents, (1, 60), do.reboot),
    "freeze": Kind(2, _agent, (1, 60), do.freeze),
    "freeze-together": Kind(2, _agents, (1, 60), do.freeze),
    "lose-disk": Kind(1, _agent, (1, 60), do.lose_disk),
    "cut-off-agents": Kind(4, _agents, (1, 60), do.cut_off_agents),
    "stop-server": Kind(2, _server, (0, 30), do.stop_servers),
    "stop-servers": Kind(1, _servers, (0, 30), do.stop_servers),
    "cut-off-server": Kind(1, _server, (1, 60), do.cut_off_servers),
    "restore": Kind(2, _nobody, (1, 60), do.restore, (0.0, 20.0)),
    "refused": Kind(1, _place, (1, 20), do.trouble("refused"), (0.3, 1.0)),
    "errors": Kind(2, _place, (1, 60), do.trouble("error"), (0.1, 0.5)),
    "errors-after": Kind(1, _place, (1, 60), do.trouble("error-after"), (0.1, 0.5)),
    "lost-requests": Kind(1, _place, (1, 60), do.trouble("lost-before"), (0.1, 0.5)),
    "lost-answers": Kind(2, _place, (1, 60), do.trouble("lost-after"), (0.1, 0.5)),
    "slow": Kind(2, _place, (1, 60), do.trouble("slow", delay_s=8.0), (0.1, 0.5)),
    "garbled": Kind(1, _place, (1, 60), do.trouble("garbled"), (0.1, 0.5)),
    "stale-reads": Kind(1, _place, (1, 30), do.trouble("stale"), (0.5, 1.0)),
    "old-reads": Kind(1, _place, (0.2, 2), do.trouble("old"), (0.5, 1.0)),
    "lag": Kind(3, _place, (1, 60), do.trouble("lag", delay_s=3.0)),
    "stream-cut": Kind(3, _place, (0, 0), do.cut_stream),
    "stream-end": Kind(1, _place, (0, 0), do.end_stream),
    "stream-silence": Kind(1, _place, (0, 0), do.silence_stream),
    "stream-stall": Kind(1, _place, (1, 30), do.stall_stream),
    "stream-garbage": Kind(1, _place, (0, 0), do.spoil_stream),
    "collect": Kind(3, _nobody, (0, 0), people.collect),
    "drain": Kind(2, _agent, (1, 60), people.drain, (-1.0, 5.0, 20.0)),
    "close": Kind(1, _agent, (1, 60), people.close),
    "hog": Kind(1, _nobody, (5, 60), people.hog),
    "image-hangs": Kind(1, _environment, (5, 60), people.image("hang")),
    "image-fails": Kind(2, _environment, (5, 60), people.image("fail")),
    "image-spoilt": Kind(2, _environment, (60, 200), people.spoil_image),
    "exits": Kind(1, _environment, (5, 60), people.exits, (0.0, 1.0)),
    "stop-runner": Kind(1, _environment, (0, 0), people.deregister_runner(purge=False)),
    "purge-runner": Kind(1, _environment, (0, 0), people.deregister_runner(purge=True)),
    "move-runner": Kind(1, _environment, (0, 0), people.move_runner),
    "mend-runners": Kind(2, _environment, (1, 30), people.mend_runners),
    "evaluate": Kind(2, _environment, (0, 0), people.evaluate_all),
    "add-runners": Kind(2, _environment, (0, 0), people.add_runners, (1.0, 4.0)),
    "resize": Kind(2, _environment, (0, 0), people.resize, SIZES),
    "stop-environment": Kind(1, _environment, (0, 0), people.stop_environment),
    "pause": Kind(2, _environment_or_all, (5, 60), people.pause, (0.0, 1.0)),
    "reload": Kind(2, _place, (5, 60), people.reload),
    "kill": Kind(4, _place, (0, 30), do.kill),
    "terminate": Kind(1, _place, (0, 30), do.terminate),
    "clock-step": Kind(1, _place, (0, 0), do.step_clock, (-5.0, 5.0)),
    "poseidon-restarts": Kind(2, _nobody, (0, 30), people.restart_poseidon),
    "poseidon-misses-events": Kind(2, _nobody, (1, 30), people.deafen_poseidon),
    "claims": Kind(2, _environment, (0, 0), people.claim),
}
"""All kinds by name."""
