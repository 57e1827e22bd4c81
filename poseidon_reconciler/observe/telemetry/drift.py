"""What Poseidon believes beside what is, told by whoever asks Poseidon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Belief(NamedTuple):
    """Idle runners of an environment: those that Poseidon believes to have, and those that there are."""

    believed_idle: int
    true_idle: int


class Beliefs:
    """The latest beliefs.

    Attributes:
        latest: by environment id; replaced whole, so that it may be read on any thread.
    """

    def __init__(self) -> None:
        self.latest: Mapping[str, Belief] = {}

    def set(self, environment_id: str, belief: Belief) -> None:
        self.latest = {**self.latest, environment_id: belief}

    def clear(self) -> None:
        """Nothing is known any more: Poseidon does not answer."""
        self.latest = {}
