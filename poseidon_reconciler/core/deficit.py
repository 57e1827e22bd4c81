"""How long a pool has been short, runner by runner.

A pool that was one short for a minute and is five short since a moment ago lacks one runner that nobody cares for,
and four that Poseidon is about to order itself.
"""

from __future__ import annotations


class Deficit:
    """What a pool lacks, in layers by age: we fill the oldest first, and what others fill was the youngest."""

    def __init__(self) -> None:
        self.size = 0
        # (since, how many): counted, not listed one by one, because a target can be any number.
        self._layers: list[tuple[float, int]] = []

    def set(self, size: int, now: float) -> None:
        """The pool lacks `size` runners since `now`, if it did not before."""
        if size > self.size:
            self._layers.append((now, size - self.size))
        excess = self.size - size
        while excess > 0:
            since, number = self._layers.pop()
            if number > excess:
                self._layers.append((since, number - excess))
            excess -= number
        self.size = size

    def fill(self) -> None:
        """One that was lacking for longest is provided for."""
        since, number = self._layers.pop(0)
        if number > 1:
            self._layers.insert(0, (since, number - 1))
        self.size -= 1

    def older_than(self, age_s: float, now: float) -> int:
        """How many have been lacking for at least `age_s`."""
        return sum(number for since, number in self._layers if since + age_s <= now)

    @property
    def since(self) -> float | None:
        """Since when the first of them has been lacking; None if none is."""
        return self._layers[0][0] if self._layers else None

    def next_at(self, age_s: float, now: float) -> float | None:
        """When the next will have been lacking for `age_s`."""
        return next((since + age_s for since, _ in self._layers if since + age_s > now), None)
