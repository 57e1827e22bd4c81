"""Writes the table of `docs/storms.md`: all agents restart, and somebody refills the pool.

python docs/storms.py            prints the table
python docs/storms.py --write    puts it into the page
"""

from __future__ import annotations

import asyncio
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from poseidon_reconciler.app.demo.play import Play
from poseidon_reconciler.app.demo.truth import Truth
from poseidon_reconciler.app.observers import Observers
from poseidon_reconciler.app.simulation.lab import Lab
from poseidon_reconciler.config import Settings
from poseidon_reconciler.policy import PoolPolicy
from poseidon_reconciler.twin import poseidon_jobs as pj
from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.cluster import Settings as ClusterSettings
from poseidon_reconciler.twin.events import Batch, Event
from poseidon_reconciler.twin.listening import listen
from poseidon_reconciler.twin.player import cluster_for
from poseidon_reconciler.twin.poseidon import Habits, Poseidon
from poseidon_reconciler.twin.records import Allocation, Job, JobKey
from poseidon_reconciler.twin.runner import AgentPace
from poseidon_reconciler.twin.scenarios import Scenario, Step

_BEGIN: Final = "<!-- written by docs/storms.py -->"
_END: Final = "<!-- end -->"
PAGE: Final = Path(__file__).with_name("storms.md")
RUNNERS: Final = 200
SEEDS: Final = range(5)
_ENVIRONMENT: Final = "10"
_TEMPLATE: Final = pj.environment_id(10)
_START: Final = 1_000_000.0
_WARM_UP_S: Final = 60.0
_AWAY_S: Final = 60.0
_WATCHED_S: Final = 900.0
_LOOK_S: Final = 0.5
_WRITES: Final = frozenset({"JobRegistered", "JobDeregistered"})
_NAIVE_INTERVAL_S: Final = 10.0
# Docker starts a container in a second, and about three in a second if many are asked for at once.
_AGENTS: Final = AgentPace(start_s=1.0, parallel_starts=10_000, crowding=0.3)
_STORM: Final = Scenario(
    "storm", "All agents are away for longer than their heartbeat.",
    (Step(5.0, "stop"), Step(5.0 + _AWAY_S, "start")),
    settings=ClusterSettings(version="1.10.5", agents=_AGENTS), duration_s=5.0 + _AWAY_S,
)  # fmt: skip


class Variant(Struct, frozen=True):
    """Who refills the pool. Poseidon runs in all of them; `alert`: whether its pool alert is on."""

    name: str
    alert: bool = False
    naive: bool = False
    settings: Settings | None = None


VARIANTS: Final = (
    Variant("nothing"),
    Variant("naive refill every 10 s", naive=True),
    Variant("Poseidon's alert", alert=True),
    Variant("us, `protect: false`", alert=True, settings=Settings(pool=PoolPolicy(protect=False))),
    Variant("us", alert=True, settings=Settings()),
)


class Measured(Struct, frozen=True):
    """One storm.

    Attributes:
        starting, starting_new: most containers that waited for their first start on one node at once, and most of them
            of runners that were created since the failure began.
        writes, writes_peak, writes_mean: registrations and deregistrations by whoever refills; most within a second;
            per second between the first and the last of them.
        full_after_s: from when on the pool stayed at its target, in seconds after the agents were back; None if it was
            not there at the end.
        idle: idle runners at the end.
        lost: runners of the beginning that died for good or were deleted by Poseidon.
        created: runners that were created.
        above: runners above the target at the end.
        dead: jobs of runners that are dead at the end and still there.
        environment_runs: whether the environment's own job runs at the end.
    """

    starting: int
    starting_new: int
    writes: int
    writes_peak: int
    writes_mean: float
    full_after_s: float | None
    idle: int
    lost: int
    created: int
    above: int
    dead: int
    environment_runs: bool


class _Meter:
    """Looks at what the servers know, at every change of it.

    Attributes:
        originals: the runners at the beginning of the failure.
        written_at: when somebody registered or deregistered a job since then, but for what Poseidon deletes by itself.
    """

    def __init__(self, cluster: Cluster, poseidon: Poseidon) -> None:
        self.truth = Truth(cluster)
        self.most_starting = self.most_starting_new = 0
        self.created: set[JobKey] = set()
        self.originals: set[JobKey] = set()
        self.written_at: list[float] = []
        self.full_since: float | None = None
        self._cluster = cluster
        self._poseidon = poseidon
        self._written_index = -1
        self._failure_index: int | None = None
        self._starting: dict[str, str] = {}
        listen(cluster, self._hear)

    def failure_begins(self) -> None:
        if self._failure_index is None:
            self._failure_index = self._cluster.state.index
            self.originals = {key for key, _ in self.truth.runners(_ENVIRONMENT)}

    def _hear(self, batch: Batch) -> None:
        self.truth.take(batch)
        for event in batch.events:
            if event.type in _WRITES:
                self._note_write(event)
            if isinstance(event.payload, Allocation):
                self._note_start(event.payload)
            elif isinstance(event.payload, Job) and self._is_new(event.payload) and event.payload.id != _TEMPLATE:
                self.created.add(event.payload.key)

    def _note_write(self, event: Event) -> None:
        payload = event.payload
        job_id = payload.id if isinstance(payload, Job) else getattr(payload, "job_id", "")
        # A job and its evaluation are told in two batches of one write.
        if self._failure_index is None or event.index == self._written_index:
            return
        self._written_index = event.index
        if not (event.type == "JobDeregistered" and job_id in self._poseidon.purged):
            self.written_at.append(self._cluster.now)

    def _is_new(self, job: Job) -> bool:
        return self._failure_index is not None and job.create_index > self._failure_index

    def _note_start(self, allocation: Allocation) -> None:
        started = any(task.started_at is not None for task in allocation.task_states.values())
        if started or allocation.terminal or allocation.client_status != "pending":
            self._starting.pop(allocation.id, None)
            return
        self._starting[allocation.id] = allocation.node_name
        if self._failure_index is None:
            return
        allocations = self._cluster.state.allocations
        new = (node for id_, node in self._starting.items() if self._is_new(allocations[id_].job))
        self.most_starting = max(self.most_starting, *Counter(self._starting.values()).values())
        self.most_starting_new = max(self.most_starting_new, *Counter(new).values(), 0)

    def look(self) -> None:
        """Notes whether the pool is full."""
        if self.truth.idle(_ENVIRONMENT) < self.truth.targets[_ENVIRONMENT]:
            self.full_since = None
        elif self.full_since is None:
            self.full_since = self._cluster.now


def measure(variant: Variant, runners: int, seed: int, *, watched_s: float = _WATCHED_S) -> Measured:
    """Lets one storm pass, and says what it was like."""
    scene = replace(_STORM, runners=runners, agent_cpu_mhz=_STORM.work.cpu_mhz * (runners + 1))
    cluster = cluster_for(scene, seed=seed, now=_START - _WARM_UP_S)
    cluster.advance(_START)
    lab = Lab(cluster, seed=seed)
    poseidon = Poseidon(cluster, Habits() if variant.alert else Habits(alert_share=0.0), seed=seed)
    meter = _Meter(cluster, poseidon)
    play = Play(cluster, [scene], disconnect=None, tell=lambda _: meter.failure_begins(), on_started=poseidon.start)
    back_at = 0.0

    async def storm() -> None:
        nonlocal back_at
        tasks = []
        if variant.settings is not None:
            reconciler = lab.reconciler(variant.settings, Observers())
            tasks.append(asyncio.create_task(reconciler.run()))
        play.begin()
        while not play.done:
            await asyncio.sleep(_LOOK_S)
            if variant.naive and not tasks and play.running_since is not None:
                tasks.append(asyncio.create_task(_refill(cluster, meter)))
        back_at = cluster.now
        while cluster.now < back_at + watched_s:
            await asyncio.sleep(_LOOK_S)
            meter.look()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    lab.run(storm)
    return _measured(cluster, meter, back_at)


async def _refill(cluster: Cluster, meter: _Meter) -> None:
    """What a script does that looks at idle runners and at nothing else."""
    template = cluster.state.jobs["default", _TEMPLATE].spec
    while True:
        await asyncio.sleep(_NAIVE_INTERVAL_S)
        for _ in range(meter.truth.targets[_ENVIRONMENT] - meter.truth.idle(_ENVIRONMENT)):
            job_id = pj.runner_id(10, cluster.kernel.rng)
            cluster.jobs.register({**pj.with_config(dict(template), used="false"), "ID": job_id, "Name": job_id})


def _measured(cluster: Cluster, meter: _Meter, back_at: float) -> Measured:
    truth, jobs, times = meter.truth, cluster.state.jobs.values(), meter.written_at
    truth.settle()
    alive = {key for key, standing in truth.runners(_ENVIRONMENT) if standing.idle or standing.coming}
    return Measured(
        starting=meter.most_starting,
        starting_new=meter.most_starting_new,
        writes=len(times),
        writes_peak=_most_within_a_second(times),
        writes_mean=len(times) / max(1.0, times[-1] - times[0]) if times else 0.0,
        full_after_s=meter.full_since - back_at if meter.full_since is not None else None,
        idle=truth.idle(_ENVIRONMENT),
        lost=len(meter.originals - alive),
        created=len(meter.created),
        above=max(0, len(alive) - truth.targets[_ENVIRONMENT]),
        dead=sum(job.status == "dead" and not job.stop and job.id != _TEMPLATE for job in jobs),
        environment_runs=truth.jobs["default", _TEMPLATE].runs,
    )


def _most_within_a_second(times: Sequence[float]) -> int:
    most = first = 0
    for place, at in enumerate(times):
        while times[first] <= at - 1.0:
            first += 1
        most = max(most, place - first + 1)
    return most


# -- the page ---------------------------------------------------------------------------------------------------------


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _spread(measured: list[Measured], name: str) -> str:
    """The median, with the lowest and the highest where they differ from it as written."""
    values = [getattr(each, name) for each in measured]
    low, middle, high = (_number(value) for value in (min(values), statistics.median_low(values), max(values)))
    return middle if low == high else f"{middle} ({low}–{high})"


def _full(measured: list[Measured]) -> str:
    times = [each.full_after_s for each in measured if each.full_after_s is not None]
    if not times:
        return f"never: {_spread(measured, 'idle')} idle"
    low, middle, high = (f"{value:.0f}" for value in (min(times), statistics.median_low(times), max(times)))
    text = f"{middle} s" if low == high else f"{middle} s ({low}–{high})"
    return text if len(times) == len(measured) else f"{text}, in {len(times)} of {len(measured)}"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.1f}"


_COLUMNS: Final[tuple[tuple[str, Callable[[list[Measured]], str]], ...]] = (
    ("starting on one node", lambda m: _spread(m, "starting")),
    ("of them new", lambda m: _spread(m, "starting_new")),
    ("writes", lambda m: _spread(m, "writes")),
    ("most in 1 s", lambda m: _spread(m, "writes_peak")),
    ("mean per s", lambda m: _spread(m, "writes_mean")),
    ("full after", _full),
    ("lost", lambda m: _spread(m, "lost")),
    ("created", lambda m: _spread(m, "created")),
    ("too many", lambda m: _spread(m, "above")),
    ("dead left", lambda m: _spread(m, "dead")),
    ("environment runs", lambda m: f"{sum(each.environment_runs for each in m)} of {len(m)}"),
)
HEADINGS: Final = ("who refills", *(title for title, _ in _COLUMNS))


def table(rows: dict[str, list[Measured]]) -> str:
    """`rows`: by the name of the variant, what was measured in each seed."""
    lines = [_line(HEADINGS), _line("---" for _ in HEADINGS)]
    lines += [_line((name, *(tell(measured) for _, tell in _COLUMNS))) for name, measured in rows.items()]
    return "\n".join(lines)


def with_table(page: str, written: str) -> str:
    """The page with another table; the text around it stays."""
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n{written}\n{_END}{after}"


def main() -> None:
    written = table({variant.name: [measure(variant, RUNNERS, seed) for seed in SEEDS] for variant in VARIANTS})
    if "--write" in sys.argv:
        PAGE.write_text(with_table(PAGE.read_text(), written))
    else:
        print(written)


if __name__ == "__main__":
    main()
