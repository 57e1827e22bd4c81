"""A demo while it runs: the embedded cluster and its failure, Poseidon, the reconciler, and those who watch them.

The reconciler is the real one. It reaches the cluster over HTTP and does not know that it is watched; only its clock is
the cluster's, which may go faster than the machine's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from poseidon_reconciler.app.around import add_poseidon
from poseidon_reconciler.app.demo.ending import Ending
from poseidon_reconciler.app.demo.feed import Feed
from poseidon_reconciler.app.demo.judge import Judge
from poseidon_reconciler.app.demo.observer import DemoObserver
from poseidon_reconciler.app.demo.outcome import Outcome
from poseidon_reconciler.app.demo.play import Play, warm_cluster
from poseidon_reconciler.app.demo.scenarios import DemoScenario
from poseidon_reconciler.app.demo.watch import Watch
from poseidon_reconciler.app.observers import Observers
from poseidon_reconciler.app.running import Running
from poseidon_reconciler.app.telemetry import attach_telemetry
from poseidon_reconciler.app.web import add_page
from poseidon_reconciler.config import NomadSettings, Settings
from poseidon_reconciler.config.observing import PoseidonSettings, TelemetrySettings
from poseidon_reconciler.core.diagnosis import Change
from poseidon_reconciler.core.status import EnvironmentRow, environment_rows
from poseidon_reconciler.twin.clock import RealClock
from poseidon_reconciler.twin.events import Batch
from poseidon_reconciler.twin.listening import listen
from poseidon_reconciler.twin.poseidon import Habits, Poseidon
from poseidon_reconciler.twin.poseidon_http import PoseidonServer
from poseidon_reconciler.twin.records import Node
from poseidon_reconciler.twin.scenarios import Scenario
from poseidon_reconciler.twin.server import TwinServer

LEARNERS: Final = Habits(claims_per_minute=4.0, use_s=40.0)

# Of a pool, one in so many is in use when the failure begins.
_CLAIMED_AT_FIRST: Final = 8
_FRAME_S: Final = 0.1
# Of the page's charts, in the cluster's time: a demo lasts minutes, not hours.
_SAMPLE_S: Final = 1.0
_LIMIT_S: Final = 300.0
_PATIENCE_S: Final = 15.0
_PATIENCE_FRAMES: Final = round(_PATIENCE_S / _FRAME_S)
# How often Poseidon is asked what it believes, in seconds of the cluster's time.
_ASK_EACH_S: Final = 5.0
# How long a change may be on its way over the network, in the machine's time.
_UNSEEN_S: Final = 0.5


class Setting(Struct, frozen=True):
    """What a demo is to show. `runners`: the first pool's target, if it is not to be the scenario's own; `page`:
    whether the status page is shown where the settings say, or at any free port where that is taken.
    """

    scenario: DemoScenario
    settings: Settings
    poseidon: bool = True
    reconciler: bool = True
    runners: int | None = None
    seed: int = 0
    speed: float = 1.0
    page: bool = False

    @property
    def scenes(self) -> list[Scenario]:
        """What is played on each environment."""
        return self.scenario.scenes(self.runners)

    def effective_settings(self) -> Settings:
        """The settings under the scenario's policy; nothing of the demo is kept on the disk, or sent to a collector."""
        environments = dict(self.settings.environments)
        if self.scenario.policies:
            changed = self.scenario.policies
            for id_ in (str(scene.environment) for scene in self.scenes):
                environments[id_] = self.settings.policy().for_environment(id_).model_copy(update=changed)
        changes = {"environments": environments, "state_dir": None, "telemetry": TelemetrySettings()}
        return self.settings.model_copy(update=changes)


class Stage:
    """One demo.

    Attributes:
        cluster, poseidon, play, judge, watch, feed: what there is to see.
        running: the reconciler, if there is one.
        page: where its status page is, if there is one.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.running: Running | None = None
        self.page: str | None = None
        self._settings = setting.effective_settings()
        self._clock = RealClock(speed=setting.speed)
        self.cluster = warm_cluster(setting.scenes[0], seed=setting.seed, now=self._clock.now())
        self.feed = Feed(lambda: self.cluster.now, setting.speed)
        self.observer = DemoObserver(self.feed)
        self.poseidon = Poseidon(
            self.cluster,
            LEARNERS,
            seed=setting.seed,
            note=lambda text, job_id: self.feed.add("poseidon", f"Poseidon: {text}", subject=job_id),
        )
        self.play = Play(
            self.cluster,
            setting.scenes,
            disconnect=setting.scenario.disconnect,
            tell=self._tell_step,
            on_started=self._pools_are_full,
        )
        policy = self._settings.policy()
        self.judge = Judge(self.cluster, policy, self._tell_loss)
        self.watch = Watch(
            self.cluster, policy, others_removed=self._removed_by_others, unseen_s=_UNSEEN_S * setting.speed
        )
        self._poseidon_serves = asyncio.Event()
        self._node_statuses = {node.id: node.status for node in self.cluster.state.nodes.values()}
        listen(self.cluster, self._tell_nodes)
        self._ending = Ending(
            self.cluster,
            self.watch.truth,
            lambda: self.at(self.play.last_step_s),
            repaired=setting.reconciler,
            limit_s=_LIMIT_S + (0 if setting.reconciler else LEARNERS.alert_after_s),
        )

    def at(self, step_s: float) -> float:
        """When a step of the play is done, in seconds since the epoch; infinity before that is known."""
        since = self.play.running_since
        return since + step_s if since is not None else float("inf")

    @property
    def elapsed_s(self) -> float:
        """Since the failure began, in seconds of the cluster's time; negative before."""
        return self.cluster.now - self.at(self.play.first_step_s)

    # -- what happens ------------------------------------------------------------------------------------------------

    def _pools_are_full(self) -> None:
        if not self.setting.poseidon:
            return
        self.poseidon.start()
        self._poseidon_serves.set()
        for pool in self.poseidon.pools.values():
            for _ in range(max(1, pool.target // _CLAIMED_AT_FIRST)):
                self.poseidon.claim(pool.number)

    def _tell_step(self, text: str) -> None:
        self.feed.add("failure", text)
        self.watch.failure_begins()

    def _tell_nodes(self, batch: Batch) -> None:
        for event in batch.events:
            node = event.payload
            if isinstance(node, Node) and self._node_statuses.get(node.id) != node.status:
                self._node_statuses[node.id] = node.status
                self.feed.add("node", f"node {node.status}", subject=node.spec.name)

    def _tell_loss(self, change: Change) -> None:
        verdict = change.verdict
        self.feed.add("lost", verdict.state, verdict.cause or verdict.rule, change.job.id)

    def _removed_by_others(self) -> set[tuple[str, str]]:
        return self.play.deregistered | {("default", job_id) for job_id in self.poseidon.purged}

    # -- the run -----------------------------------------------------------------------------------------------------

    async def run(self, show: Callable[[], None]) -> Outcome:
        """Runs the demo to its end; `show` is called for each frame of the view."""
        async with (
            TwinServer(self.cluster, clock=self._clock) as server,
            PoseidonServer(self.poseidon, touch=server.touch) as beside,
        ):
            follower = await self._start_reconciler(server.address, beside.address) if self.setting.reconciler else None
            server.touch()
            self.play.begin()
            while not self._is_over(follower):
                server.touch()
                self.judge.advance()
                show()
                await asyncio.sleep(_FRAME_S)
            self.watch.truth.settle()
            if follower is not None:
                await self._conclude(follower, server)
            show()
        return self._outcome()

    async def _start_reconciler(self, address: str, poseidon_address: str) -> asyncio.Task[None]:
        nomad = NomadSettings(address=address, resync_interval_s=self._settings.nomad.resync_interval_s)
        beside = PoseidonSettings(address=poseidon_address if self.setting.poseidon else None, interval_s=_ASK_EACH_S)
        settings = self._settings.model_copy(update={"nomad": nomad, "poseidon": beside})
        clock, speed, observers = self._clock.now, self.setting.speed, Observers(self.observer)
        self.running = Running(settings, observers, clock=clock, speed=speed)
        if self.setting.page:
            # Losses that are played must not wake anybody: whatever the variables say, no collector hears of them.
            telemetry = attach_telemetry(self.running, settings, observers, clock, environ={})
            self.page = await add_page(
                self.running, observers, settings, metrics=telemetry.render, sample_s=_SAMPLE_S, or_elsewhere=True
            )
        serves = self._poseidon_serves.wait
        add_poseidon(self.running, observers, settings, clock=clock, speed=speed, begin=serves)
        follower = asyncio.create_task(self.running.run())
        for _ in range(_PATIENCE_FRAMES):
            if self.running.controller.synced or follower.done():
                break
            await asyncio.sleep(_FRAME_S)
        return follower

    async def _conclude(self, follower: asyncio.Task[None], server: TwinServer) -> None:
        """Stops the reconciler; that it is still there, agrees and stops in time are promises too."""
        assert self.running is not None
        if not follower.done():
            await self._agree(self.running, server)
            self.watch.look_for_surplus()
            self.running.stop()
            await asyncio.wait([follower], timeout=_PATIENCE_S)
        if not follower.done():
            self.watch.broken.append(f"the reconciler did not stop within {_PATIENCE_S:g} s")
            follower.cancel()
        elif (error := follower.exception()) is not None:
            self.watch.broken.append(f"the reconciler has ended: {error}")

    async def _agree(self, running: Running, server: TwinServer) -> None:
        """What the reconciler believes at the end must be what is, as soon as the last event has reached it."""
        for _ in range(_PATIENCE_FRAMES):
            # Some verdicts change with time alone, and only a cluster that is touched goes with it.
            server.touch()
            self.judge.advance()
            believed, true = environment_rows(running.core), self.judge.rows()
            if believed == true:
                return
            await asyncio.sleep(_FRAME_S)
        self.watch.broken += [
            f"of environment {id_} the reconciler believes {_difference(believed.get(id_), row)}"
            for id_, row in sorted(true.items())
            if believed.get(id_) != row
        ]

    def _is_over(self, follower: asyncio.Task[None] | None) -> bool:
        if self.cluster.now >= self.at(self.play.last_step_s):
            self.poseidon.stop_claims()
        if follower is None:
            return self._ending.is_over(under_way=self.poseidon.is_alarmed)
        return follower.done() or self._ending.is_over(under_way=self._is_at_work())

    def _is_at_work(self) -> bool:
        """Whether the reconciler is about to do something, or waits before it stops what is too much."""
        if self.running is None or self.observer.under_way > 0:
            return True
        surplus = self.running.core.planner.surplus
        return any(map(surplus.is_wanted, self.watch.truth.targets))

    # -- the outcome -------------------------------------------------------------------------------------------------

    def _rows(self) -> dict[str, EnvironmentRow]:
        return environment_rows(self.running.core) if self.running is not None else self.judge.rows()

    def _outcome(self) -> Outcome:
        watch, poseidon = self.watch, self.poseidon
        return Outcome(
            scenario=self.setting.scenario.name,
            reconciled=self.setting.reconciler,
            environments=self._rows(),
            lost=len(watch.truth.lost),
            protected=len(watch.protected),
            created=len(watch.created),
            removed=len(watch.removed),
            trimmed=len(watch.trimmed),
            revived=len(watch.revived),
            time_to_target_s=_rounded(self._ending.full_after(self.at(self.play.first_step_s))),
            after_last_step_s=_rounded(self._ending.full_after(self.at(self.play.last_step_s))),
            promises_broken=watch.broken,
            purged=sum(why == "ended" for why in poseidon.purged.values()),
            ordered_by_alert=poseidon.ordered_by_alert,
            refused=poseidon.refused,
            peak_starting=watch.peak_starting,
        )


def _difference(believed: EnvironmentRow | None, true: EnvironmentRow) -> str:
    if believed is None:
        return "nothing"
    pairs = ((key, getattr(believed, key), getattr(true, key)) for key in true.__struct_fields__)
    return ", ".join(f"{key} {ours}, not {theirs}" for key, ours, theirs in pairs if ours != theirs)


def _rounded(duration_s: float | None) -> float | None:
    return round(max(0.0, duration_s), 1) if duration_s is not None else None
