"""Whether Poseidon took over the runners that we created, as far as its numbers tell.

It tells numbers, not names. So a runner that is used was adopted for certain, because only Poseidon hands out runners;
and of those that are idle, as many as Poseidon must know: if it knows all but two idle runners, at most two of ours are
unknown to it. The older ones are taken for known.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

# Answers in which Poseidon may leave out an idle runner before it counts as not adopted.
PATIENCE: Final = 3
_MAX_WAITING: Final = 10_000


class _Created(Struct):
    """A runner that we created. `answers`: how many left it out although it was idle."""

    state: str = "starting"
    answers: int = 0


class Adoptions:
    """The runners of one environment that we created.

    Attributes:
        adopted, not_adopted: how many were and were not, until now.
    """

    def __init__(self) -> None:
        self.adopted = 0
        self.not_adopted = 0
        self._waiting: dict[str, _Created] = {}

    @property
    def waiting(self) -> int:
        """How many may still be adopted."""
        return len(self._waiting)

    def created(self, job_id: str) -> None:
        """We created a runner."""
        if len(self._waiting) < _MAX_WAITING:
            self._waiting.setdefault(job_id, _Created())

    def changed(self, job_id: str, state: str) -> None:
        """A runner is in another state; one that we did not create is of no interest."""
        runner = self._waiting.get(job_id)
        if runner is None:
            return
        if state in ("lost", "gone"):
            # What does not live cannot be adopted.
            del self._waiting[job_id]
        runner.state = state

    def answered(self, unknown: int) -> tuple[int, int]:
        """Poseidon answered, and does not know so many idle runners of the environment.

        Returns how many of ours have turned out to be adopted, and how many not to be.
        """
        idle = [job_id for job_id, runner in self._waiting.items() if runner.state == "idle"]
        adopted = [job_id for job_id, runner in self._waiting.items() if runner.state == "used"]
        adopted += idle[: max(0, len(idle) - unknown)]
        left_out = idle[max(0, len(idle) - unknown) :]
        for job_id in left_out:
            self._waiting[job_id].answers += 1
        given_up = [job_id for job_id in left_out if self._waiting[job_id].answers > PATIENCE]
        for job_id in adopted + given_up:
            del self._waiting[job_id]
        self.adopted += len(adopted)
        self.not_adopted += len(given_up)
        return len(adopted), len(given_up)
