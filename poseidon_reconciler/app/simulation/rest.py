"""Whether everything is as it should be when nothing has gone wrong for a while: pools full, and nobody at work.

A pool must hold what it should by the cluster's truth; what may still run out of sight counts only where the
environment's policy says so: where it is to be left alone, for ever, even if its node was removed. More than that may
be idle only where nobody wants surplus stopped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from poseidon_reconciler.app.simulation.life import Life
from poseidon_reconciler.app.simulation.promises import Promises
from poseidon_reconciler.app.simulation.truth import NAMESPACE, Standing, Truth
from poseidon_reconciler.policy import Policy
from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.records import JobKey

# How long nothing must have been written.
_QUIET_S: Final = 60.0


class Rest:
    """Looks at a cluster that has been calm since some time.

    Attributes:
        complaint: what was missing when it was looked at last.
    """

    def __init__(self, cluster: Cluster, truth: Truth, promises: Promises, policy: Policy) -> None:
        self.complaint = "it was never looked at"
        self._cluster = cluster
        self._truth = truth
        self._promises = promises
        self._policy = policy

    def reached(self, lives: Iterable[Life], calm_since: float) -> bool:
        """Whether the pools are full, and have been left alone for a while."""
        lives = list(lives)
        complaint = self._wrong_with_pools(lives) or self._wrong_with(lives)
        quiet_s = self._cluster.now - max(self._promises.last_write_at, calm_since)
        if complaint is None and quiet_s < _QUIET_S:
            complaint = f"the last write was {quiet_s:.0f} s ago"
        if complaint is not None:
            self.complaint = complaint
        return complaint is None

    def _wrong_with_pools(self, lives: list[Life]) -> str | None:
        for (_, job_id), standing in self._truth.jobs.items():
            if not standing.is_environment or standing.stop:
                continue
            if not self._is_there((NAMESPACE, job_id), standing):
                return f"the environment's own job {job_id} does not run"
            target = self._truth.target(standing.environment)
            runners = list(self._truth.runners(standing.environment))
            there = sum(not runner.used and self._is_there(key, runner) for key, runner in runners)
            if there < target and not self._is_on_trial(standing.environment, lives):
                return f"environment {standing.environment} has {there} of {target} runners"
            idle = sum(runner.free for _, runner in runners)
            if idle > target and self._policy.for_environment(standing.environment).surplus == "trim":
                return f"environment {standing.environment} has {idle} idle runners, and {target} are wanted"
        return None

    def _is_on_trial(self, environment: str, lives: list[Life]) -> bool:
        """Whether everybody tries one runner at a time, because new ones failed, and one of them waits for room."""
        waits = any(runner.waits for _, runner in self._truth.runners(environment))
        poisoned = [life.core.planner.refill.poison.of(environment) is not None for life in lives]
        return waits and bool(poisoned) and all(poisoned)

    def _is_there(self, key: JobKey, standing: Standing) -> bool:
        """Whether a job runs, or waits for room, or may run where its policy lets that count.

        What the servers were made to forget passes: no reconciler could know better.
        """
        if standing.stop:
            return False
        if standing.idle or standing.waits or self._truth.contradicts_its_agent(key):
            return True
        match self._policy.for_environment(standing.environment).disconnect_policy:
            case "at-least":
                return False
            case "leave-alone":
                return standing.away or self._truth.went_with_its_node(key)
            case "exactly":
                return standing.away or self._truth.may_run_unseen(key)

    def _wrong_with(self, lives: Iterable[Life]) -> str | None:
        for life in lives:
            if life.ending or not life.controller.synced:
                return f"{life.name} does not follow the cluster"
            if life.core.policy != self._policy:
                return f"{life.name} goes by wishes that were taken back"
            if life.core.planner.pauses.current(life.clock()):
                return f"{life.name} is paused"
            for environment, pool in life.core.diagnosis.pools.items():
                idle = sum(standing.idle and not standing.used for _, standing in self._truth.runners(environment))
                if pool.count("idle") != idle:
                    return f"{life.name} believes in {pool.count('idle')} idle runners of {environment}: {idle} are"
        return None
