"""Random but legal histories of a small Nomad, as lists of inputs: lines of the stream, and lists read meanwhile.

A history is drawn as a list of moves, so that a failing one shrinks to the few moves that matter. A move that is not
possible just then does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import orjson
from hypothesis import settings
from hypothesis import strategies as st

from poseidon_reconciler.core.lines import Line, read_line
from poseidon_reconciler.core.reconciler import Reconciler, Step
from tests.core.builders import START, TEMPLATE, Wire, runner
from tests.core.cluster import TABLES, Cluster, is_placed
from tests.core.scheduling import schedule

NODES: Final = 3
RUNNERS: Final = 4
TARGET: Final = 3


class Move(NamedTuple):
    """One thing that happens: which, to whom (any number), and how long after the one before."""

    kind: str
    pick: int
    after_s: float


class Input(NamedTuple):
    """What a reconciler hears at a time: a line as it was sent, or lists. `of`: the index up to which it tells."""

    at: float
    data: bytes
    of: int

    @property
    def line(self) -> Line:
        return read_line(self.data)


# --- what may happen ----------------------------------------------------------------------------------------------


def _job_ids(cluster: Cluster) -> list[str]:
    """The jobs of the pool that exist, the environment's own among them."""
    return sorted(cluster.jobs)


def _some(things: list[str], pick: int) -> str | None:
    return things[pick % len(things)] if things else None


def _register(cluster: Cluster, pick: int) -> None:
    """Somebody registers a runner; an id can be used again once its job is gone."""
    job_id = runner(pick % RUNNERS)
    if job_id not in cluster.jobs:
        cluster.register(job_id)


def _register_environment(cluster: Cluster, pick: int) -> None:
    """A new version of the environment's job, with another target."""
    cluster.register(TEMPLATE, target=TARGET + pick % 2)


def _claim(cluster: Cluster, pick: int) -> None:
    idle = [id_ for id_ in _job_ids(cluster) if id_ != TEMPLATE and cluster.placed(id_) and not cluster.is_used(id_)]
    if job_id := _some(idle, pick):
        cluster.register(job_id, used=True)


def _schedule(cluster: Cluster, pick: int) -> None:
    waiting = cluster.schedulable()
    if waiting:
        schedule(cluster, waiting[pick % len(waiting)])


def _schedule_all(cluster: Cluster, pick: int) -> None:
    for _ in range(8):
        for evaluation in cluster.schedulable():
            schedule(cluster, evaluation)


def _report(cluster: Cluster, pick: int) -> None:
    near = [id_ for id_ in cluster.nodes if not cluster.is_away(id_)]
    if id_ := _some(near, pick):
        cluster.report(id_, halfway=pick % 4 == 3)


def _report_all(cluster: Cluster, pick: int) -> None:
    for id_ in cluster.nodes:
        if not cluster.is_away(id_):
            cluster.report(id_)


def _running(cluster: Cluster) -> list[str]:
    """The allocations that run, on agents that can say so."""
    wires = cluster.allocations.values()
    return [
        wire["ID"]
        for wire in wires
        if is_placed(wire) and wire["ClientStatus"] == "running" and not cluster.is_away(wire["NodeID"])
    ]


def _restart(cluster: Cluster, pick: int) -> None:
    if id_ := _some(_running(cluster), pick):
        cluster.restart(id_)


def _fail(cluster: Cluster, pick: int) -> None:
    if id_ := _some(_running(cluster), pick):
        cluster.end_task(id_, "failed")


def _finish(cluster: Cluster, pick: int) -> None:
    if id_ := _some(_running(cluster), pick):
        cluster.end_task(id_, "complete")


def _lose_node(cluster: Cluster, pick: int) -> None:
    """A node goes down, or one that was only disconnected is given up."""
    if id_ := _some([id_ for id_, wire in cluster.nodes.items() if wire["Status"] != "down"], pick):
        cluster.lose_node(id_, crash=pick % 4 > 1)


def _disconnect_node(cluster: Cluster, pick: int) -> None:
    if id_ := _some([id_ for id_ in cluster.nodes if not cluster.is_away(id_)], pick):
        cluster.lose_node(id_, "disconnected", crash=False)


def _return_node(cluster: Cluster, pick: int) -> None:
    if id_ := _some([id_ for id_ in cluster.nodes if cluster.is_away(id_)], pick):
        cluster.return_node(id_)


def _remove_node(cluster: Cluster, pick: int) -> None:
    down = [id_ for id_, wire in cluster.nodes.items() if wire["Status"] == "down"]
    if pick % 2 and (id_ := _some(down, pick)):
        cluster.remove_node(id_)


def _drain(cluster: Cluster, pick: int) -> None:
    if id_ := _some([id_ for id_ in cluster.nodes if not cluster.is_away(id_)], pick):
        cluster.drain(id_, on="DrainStrategy" not in cluster.nodes[id_])


def _stop(cluster: Cluster, pick: int) -> None:
    running = [id_ for id_ in _job_ids(cluster) if not cluster.jobs[id_]["Stop"]]
    if job_id := _some(running, pick):
        cluster.stop(job_id)


def _purge(cluster: Cluster, pick: int) -> None:
    if job_id := _some(_job_ids(cluster), pick):
        cluster.purge(job_id, tells_of_job=pick % 2 == 1)


def _collect(cluster: Cluster, pick: int) -> None:
    if job_id := _some([id_ for id_ in _job_ids(cluster) if cluster.jobs[id_]["Status"] == "dead"], pick):
        cluster.collect(job_id)


def _collect_ended(cluster: Cluster, pick: int) -> None:
    cluster.collect_ended()


def _nothing(cluster: Cluster, pick: int) -> None:
    """Only time passes."""


MOVES: Final[dict[str, Callable[[Cluster, int], None]]] = {
    "nothing": _nothing,
    "schedule": _schedule,
    "schedule-all": _schedule_all,
    "report": _report,
    "report-all": _report_all,
    "register": _register,
    "claim": _claim,
    "lose-node": _lose_node,
    "return-node": _return_node,
    "disconnect-node": _disconnect_node,
    "remove-node": _remove_node,
    "drain": _drain,
    "restart": _restart,
    "fail": _fail,
    "finish": _finish,
    "stop": _stop,
    "purge": _purge,
    "collect": _collect,
    "collect-ended": _collect_ended,
    "register-environment": _register_environment,
}
# Read the lists (whole or as stubs; now or over the next moves), and hear of them at once or some lines later.
_OFTEN: Final = ("schedule-all", "report-all", "schedule-all", "report-all")
_READINGS: Final = ("read", "read-stubs", "read-slowly", "read-late")


def moves(
    kinds: tuple[str, ...] = (*MOVES, *_READINGS, *_OFTEN), pauses_s: tuple[float, ...] = (0.0, 0.5, 3.0, 12.0, 400.0)
) -> st.SearchStrategy[list[Move]]:
    """Lists of moves. Many follow at once, some after seconds, a few after longer than any deadline."""
    move = st.builds(Move, st.sampled_from(kinds), st.integers(0, 11), st.sampled_from((0.0, *pauses_s)))
    # Left to itself, hypothesis draws lists of about five.
    return st.lists(move, min_size=12, max_size=60)


def examples(number: int) -> settings:
    """So many examples in an everyday run. `--hypothesis-profile=explore` looks fifty times as far, which takes
    minutes for each test: add `-o faulthandler_timeout=0`.
    """
    return settings(max_examples=number * settings().max_examples // 100)


# --- a history, written down ----------------------------------------------------------------------------------------


class Recorder:
    """Plays moves on a cluster and writes down what a reconciler would hear, in order.

    Attributes:
        inputs: what was heard so far.
    """

    def __init__(self, cluster: Cluster | None = None) -> None:
        self.cluster = cluster or Cluster(NODES)
        self.inputs: list[Input] = []
        self._heard = 0
        self._unread: list[str] = []
        self._lists: Wire = {}
        self._late: list[tuple[int, bytes, int]] = []
        self.begin()

    def begin(self) -> None:
        """A pool at rest."""
        self.cluster.register(TEMPLATE, target=TARGET)
        for number in range(TARGET):
            self.cluster.register(runner(number))
        _schedule_all(self.cluster, 0)
        _report_all(self.cluster, 0)
        self._hear()

    def play(self, move: Move) -> None:
        self.cluster.now += move.after_s
        if move.kind in MOVES:
            MOVES[move.kind](self.cluster, move.pick)
        self._hear()
        if self._unread:
            self._read_next()
        if move.kind not in MOVES:
            self._read(move)

    def read_all(self) -> None:
        """Reads all lists, whole, as they are now."""
        self._tell(self.cluster.lists())

    def _read(self, move: Move) -> None:
        """Lists are read one after the other: an older one is never heard of after a newer one."""
        if self._unread or self._late:
            return
        if move.kind == "read-slowly":
            self._unread, self._lists = list(TABLES), {"Indexes": {}}
            self._read_next()
        elif move.kind == "read-late":
            data = orjson.dumps({"Snapshot": self.cluster.lists()})
            self._late.append((len(self.inputs) + 1 + move.pick, data, self.cluster.index))
        else:
            self._tell(self.cluster.lists(stubs=move.kind == "read-stubs"))

    def _read_next(self) -> None:
        """One list more of those that are read one after the other while things happen."""
        read = self.cluster.lists([self._unread.pop(0)])
        self._lists["Indexes"].update(read.pop("Indexes"))
        self._lists.update(read)
        if not self._unread:
            self._tell(self._lists)

    def _tell(self, lists: Wire) -> None:
        self.inputs.append(Input(self.cluster.now, orjson.dumps({"Snapshot": lists}), self.cluster.index))

    def _hear(self) -> None:
        """Takes over what the cluster has sent, and the lists that have been under way for long enough."""
        for at, data in self.cluster.sent[self._heard :]:
            self.inputs.append(Input(at, data, self.cluster.index))
            for late in [late for late in self._late if late[0] <= len(self.inputs)]:
                self._late.remove(late)
                self.inputs.append(Input(at, late[1], late[2]))
        self._heard = len(self.cluster.sent)


def record(played: list[Move], cluster: Cluster | None = None) -> Recorder:
    """The history of these moves."""
    recorder = Recorder(cluster)
    for move in played:
        recorder.play(move)
    return recorder


def hear(core: Reconciler, heard: Input) -> Step:
    """Feeds an input to a reconciler, after all that was due before it."""
    wait(core, heard.at)
    line = heard.line
    if line.snapshot is not None:
        return core.feed_snapshot(line.snapshot, heard.at)
    return core.feed_frame(line, heard.at)


def wait(core: Reconciler, until: float) -> list[Step]:
    """Lets happen what is due before `until`."""
    steps = []
    while (due := core.next_due()) is not None and due < until:
        steps.append(core.advance(due))
    return steps


def settle(core: Reconciler, seconds: float = 3000.0) -> list[Step]:
    """Lets time pass, with nothing more to hear."""
    return wait(core, max(core.now, START) + seconds)
