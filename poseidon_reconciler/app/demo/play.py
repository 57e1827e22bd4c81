"""Plays a failure on an embedded cluster in real time: sets its environments up and does each step when it is due.

Others are at work on the same cluster, a reconciler for instance: what a step means may be gone when it is due.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from poseidon_reconciler.twin import poseidon_jobs as pj
from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.jobs import Refused
from poseidon_reconciler.twin.player import Player, cluster_for
from poseidon_reconciler.twin.records import JobKey
from poseidon_reconciler.twin.scenarios import Scenario, Step

_POLL_S: Final = 0.25
# Agents come up within 20 s; so much of the cluster's time has passed before anybody looks.
_WARM_UP_S: Final = 60.0
_DEREGISTRATIONS: Final = frozenset({"stop-job", "purge"})
_DONE_TO_JOBS: Final = _DEREGISTRATIONS | {
    "use", "protect", "resize", "give-cpu", "reregister", "evaluate", "force-evaluate", "stop-allocation",
    "break-image", "mend-image",
}  # fmt: skip
_WORDS: Final = {
    "start": "back: {}",
    "stop": "stopped: {}",
    "reboot": "machine down: {}",
    "lose-disk": "machine down, its disk lost: {}",
    "freeze": "frozen: {}",
    "thaw": "goes on: {}",
    "cut": "cut off: {}",
    "heal": "reachable again: {}",
    "close": "closed: {}",
    "open": "open again: {}",
    "drain": "drained: {}",
    "add-runner": "somebody adds a runner",
    "use": "used by hand: {}",
    "protect": "given a new version by hand: {}",
    "resize": "resized to {value}: {}",
    "break-image": "its image `{value}` cannot be pulled any more: {}",
    "mend-image": "its image can be pulled again: {}",
    "give-cpu": "given {value} MHz: {}",
    "reregister": "registered with the command `{value}`: {}",
    "evaluate": "evaluated: {}",
    "force-evaluate": "evaluated by force: {}",
    "stop-job": "stopped by hand: {}",
    "purge": "purged by hand: {}",
    "stop-allocation": "moved by hand: {}",
    "collect": "garbage is collected",
    "restart-servers": "Nomad's server is away for {value} s",
}


class Play(Player):
    """The scenes of a failure, one for each environment; the steps are those of the first.

    Attributes:
        deregistered: the jobs that a step stopped or purged.
    """

    def __init__(
        self,
        cluster: Cluster,
        scenes: list[Scenario],
        *,
        disconnect: dict[str, Any] | None,
        tell: Callable[[str], None],
        on_started: Callable[[], None],
    ) -> None:
        """`tell` is told each step in words; `on_started` is called when the pools are full."""
        super().__init__(cluster, scenes[0])
        self.deregistered: set[JobKey] = set()
        self._scenes = scenes
        self._disconnect = disconnect
        self._tell = tell
        self._on_started = on_started

    @property
    def first_step_s(self) -> float:
        """When the first step is done, in seconds after `running_since`."""
        return min(step.at_s for step in self.scenario.steps)

    @property
    def last_step_s(self) -> float:
        """When nothing more is done, in seconds after `running_since`."""
        # A server that is away comes back by itself.
        return max(
            step.at_s + (float(step.value) if step.verb == "restart-servers" else 0) for step in self.scenario.steps
        )

    def begin(self) -> None:
        """Registers all environments and runners, and begins with the steps once they run."""
        for scene in self._scenes:
            work = scene.work
            if scene.with_environment:
                self._register(pj.environment_job(scene.environment, scene.runners, work))
            for number in range(1, scene.runners + 1):
                job_id = pj.runner_id(scene.environment, self.cluster.kernel.rng)
                self._register(pj.runner_job(job_id, dict(scene.work_of).get(number, work)))
                if scene is self._scenes[0]:
                    self.runners.append(("default", job_id))
        self._start_when_all_ran()

    def _register(self, job: dict[str, Any]) -> None:
        if self._disconnect is not None:
            job["TaskGroups"][0]["Disconnect"] = self._disconnect
        self.cluster.jobs.register(job)

    def _start_when_all_ran(self) -> None:
        state, kernel = self.cluster.state, self.cluster.kernel
        ran = (
            any(task.started_at is not None for task in allocation.task_states.values())
            for allocation in state.allocations.values()
        )
        if not self.cluster.evaluator.idle or not all(ran):
            kernel.after(_POLL_S, self._start_when_all_ran)
            return
        self._on_started()
        self.start_steps()

    def do(self, step: Step) -> None:
        """Does one step now; a job that it means and that is gone by now is none of its business any more."""
        who = self._called(step)
        self._tell(_WORDS[step.verb].format(who, value=step.value))
        if step.verb in _DEREGISTRATIONS:
            self.deregistered.update(self.jobs(step.target))
        try:
            super().do(step)
        except (KeyError, Refused):
            self._tell(f"which is gone: {who}")

    def _called(self, step: Step) -> str:
        """Agents or jobs in words."""
        if step.target == "all":
            return "all agents"
        job = step.target.removeprefix("of:")
        name = self.environment[1] if job == "environment" else f"runner {job}"
        if step.target.startswith("of:"):
            return f"the agent of {name}"
        return name if step.verb in _DONE_TO_JOBS else f"agent-{job}"


def warm_cluster(scene: Scenario, *, seed: int = 0, now: float) -> Cluster:
    """A cluster whose agents have all been ready for a while by `now`."""
    cluster = cluster_for(scene, seed=seed, now=now - _WARM_UP_S)
    cluster.advance(now)
    return cluster
