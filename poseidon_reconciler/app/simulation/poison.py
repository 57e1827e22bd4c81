"""Whether an environment in which every new runner fails is left alone more and more.

What fails before it ever ran would be replaced again and again, for nothing. How long a reconciler waits is its own
affair; that it does not go on as if nothing were shows in how many of its runners have failed within a minute.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from poseidon_reconciler.app.simulation.broken import BrokenError
from poseidon_reconciler.app.simulation.life import Deed, Life
from poseidon_reconciler.app.simulation.truth import NAMESPACE, Truth

_WINDOW_S: Final = 60.0
# Beside those that were under way when the first one failed.
_TRIALS: Final = 3


class PoisonWatch:
    """Watches what each reconciler creates in each environment."""

    def __init__(self, truth: Truth, created: Container[str]) -> None:
        """`created` are the runners that reconcilers have made: when one of them runs, all is well again."""
        self._truth = truth
        self._created = created
        self._made: dict[tuple[Life, str], dict[str, float]] = {}
        # By whom what was lost has been removed.
        self._removed: dict[str, str] = {}

    def removed(self, job_id: str, deed: Deed) -> None:
        """A reconciler has removed a runner, and so has found it lost."""
        self._removed[job_id] = deed.life.place.name

    def decided(self, deed: Deed) -> None:
        """A reconciler wants to create a runner. Raises `BrokenError`."""
        environment = deed.action.environment_id
        since = max(deed.at - _WINDOW_S, self._well_at(environment))
        made = self._made.get((deed.life, environment), {})
        made = {job_id: at for job_id, at in made.items() if at > since}
        failed = sum(self._is_known_to_have_failed(job_id, deed) for job_id in made)
        surge = deed.policy.for_environment(environment).surge
        if failed > self._truth.highest_target(environment, 0) + surge + _TRIALS:
            raise BrokenError(
                6, f"{deed.action.job_id} was wanted although {failed} like it have failed within {_WINDOW_S:g} s"
            )
        made[deed.action.job_id] = deed.at
        self._made[deed.life, environment] = made

    def _is_known_to_have_failed(self, job_id: str, deed: Deed) -> bool:
        """What somebody else clears away before it is lost was purged, as far as its maker can know."""
        key = (NAMESPACE, job_id)
        index = self._truth.history.failed.get(key)
        found = key in self._truth.jobs or self._removed.get(job_id) == deed.life.place.name
        return index is not None and index <= deed.seen_index and found

    def _well_at(self, environment: str) -> float:
        """When a runner that a reconciler made in an environment last began to run."""
        free_since = self._truth.history.free_since
        ours = (at for key, at in free_since.items() if key[1] in self._created and _is_in(environment, key[1]))
        return max(ours, default=0.0)


def _is_in(environment: str, job_id: str) -> bool:
    return job_id.partition("-")[0] == environment
