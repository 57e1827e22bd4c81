"""What mishaps happen on: each says when, what, to whom and for how long, and is carried out on a stage."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Protocol, TypeAlias

from msgspec import Struct

from poseidon_reconciler.app.simulation.weather import Weather
from poseidon_reconciler.app.simulation.wire import Connection
from poseidon_reconciler.twin.agents import Agent
from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.poseidon import Poseidon
from poseidon_reconciler.twin.state import Snapshot


class Mishap(Struct, frozen=True):
    """Something that happens at a time and lasts `for_s` seconds; `target` says to whom, in the words of its kind."""

    at: float
    kind: str
    target: str
    for_s: float
    value: float

    def __str__(self) -> str:
        lasts = f" for {self.for_s:.1f} s" if self.for_s else ""
        return f"{self.at:.1f} s: {self.kind} {self.target}{lasts} ({self.value:g})"


class Stage(Protocol):
    """What mishaps happen to. `rng` is each mishap's own."""

    cluster: Cluster
    poseidon: Poseidon | None
    rng: Random

    def later(self, delay_s: float, action: Callable[[], None]) -> None:
        """Does something in a while, unless everything is calm by then."""

    def weather(self, place: str) -> Weather:
        """The network of a reconciler."""

    def streams(self, place: str) -> list[Connection]:
        """Its connections, of which there is mostly one."""

    def kill(self, place: str, *, gently: bool) -> None:
        """Ends a reconciler's process."""

    def start(self, place: str) -> None:
        """Starts it, unless it runs."""

    def step_clock(self, place: str, step_s: float) -> None:
        """Sets its clock forward, or back."""

    def pause(self, environment: str | None, for_s: float | None) -> None:
        """Has all reconcilers leave an environment alone, or everything: for so long, or until that is lifted."""

    def resume(self, environment: str | None) -> None:
        """Lifts such a pause where it was set."""

    def reload(self, place: str, *, anew: bool) -> None:
        """Has a reconciler go by other wishes, or by those of the beginning again."""

    def hinder_poseidon(self, why: str, *, begins: bool) -> None:
        """A reason for Poseidon not to run begins, or ends."""

    def servers_changed(self) -> None:
        """Servers have come or gone."""

    def restore(self, snapshot: Snapshot) -> None:
        """The servers become what they were."""


Undo: TypeAlias = Callable[[], None]
Happening: TypeAlias = Callable[[Stage, Mishap], Undo | None]


def agents_of(stage: Stage, target: str) -> list[Agent]:
    """The agents that a target names by their numbers."""
    agents = list(stage.cluster.agents.values())
    return [agents[int(number) - 1] for number in target.split(",")]
