"""Every metric there is: its name, what it counts, and by what it is told apart.

The only place where they are declared: the instruments are made from it, and so is `docs/metrics.md`. No label ever
holds the id of a runner or a job: each would be a series that nobody forgets.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

PREFIX: Final = "poseidon_reconciler."

_SECONDS: Final = "s"
# By what a pool is told from others, as everywhere in this program's JSON.
ENVIRONMENT: Final = "environment_id"


class Metric(NamedTuple):
    """A metric, by OpenTelemetry's conventions. `name` is without the prefix; `unit` is of UCUM; `text` a sentence."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    unit: str
    labels: tuple[str, ...]
    text: str

    @property
    def full_name(self) -> str:
        return PREFIX + self.name

    @property
    def prometheus_name(self) -> str:
        """The name that Prometheus sees, by the rules of OpenTelemetry's exporter."""
        name = self.full_name.replace(".", "_")
        if self.unit == _SECONDS:
            name += "_seconds"
        return name + "_total" if self.kind == "counter" else name


POOL_RUNNERS: Final = Metric(
    "pool.runners", "gauge", "{runner}", (ENVIRONMENT, "state"),
    "Runners of an environment by their state; those that are gone are not counted.",
)  # fmt: skip
POOL_TARGET: Final = Metric(
    "pool.target", "gauge", "{runner}", (ENVIRONMENT,), "How many idle runners the environment asks for."
)
POOL_DEFICIT: Final = Metric(
    "pool.deficit", "gauge", "{runner}", (ENVIRONMENT,),
    "How many runners are lacking, those that are on their way not counted as lacking.",
)  # fmt: skip
POOL_SURPLUS: Final = Metric(
    "pool.surplus", "gauge", "{runner}", (ENVIRONMENT,), "How many idle and coming runners are above the target."
)
POOL_EXPECTED: Final = Metric(
    "pool.expected", "gauge", "{runner}", (ENVIRONMENT,), "Runners that were ordered here and have not been seen yet."
)
POOL_DEFICIT_DURATION: Final = Metric(
    "pool.deficit.duration", "counter", _SECONDS, (ENVIRONMENT,),
    "The deficit summed over time: runner-seconds that were lacking and not on their way.",
)  # fmt: skip
POOL_SHORTAGE_AGE: Final = Metric(
    "pool.shortage.age", "gauge", _SECONDS, (ENVIRONMENT,),
    "How long the pool has been short: from its first deficit until it is full of idle runners again; 0 if it is not.",
)  # fmt: skip
POOL_REFILL_DURATION: Final = Metric(
    "pool.refill.duration", "histogram", _SECONDS, (),
    "How long pools took from their first deficit until they were full of idle runners again.",
)  # fmt: skip
ENVIRONMENTS: Final = Metric(
    "environments", "gauge", "{environment}", ("state",), "Environments by the state of their own job."
)
LOSSES: Final = Metric(
    "losses", "counter", "{job}", ("kind", "cause"),
    "Jobs that were lost for good, by the kind of job (`runner`, `environment`) and the cause.",
)  # fmt: skip
AT_RISK: Final = Metric(
    "jobs.at_risk", "gauge", "{job}", (), "Living jobs that Nomad would end at their next evaluation."
)
ACTIONS: Final = Metric(
    "actions", "counter", "{action}", ("kind", "outcome"),
    "Actions that ended: `done`, `not-done`, `not-wanted` (the world had changed), `unknown` (it may have been done),"
    " `withdrawn` (a pause, another policy or news of the cluster came first).",
)  # fmt: skip
HOLDS: Final = Metric(
    "holds", "gauge", "{hold}", (ENVIRONMENT, "rule"),
    "What is wanted and not done now, by why; `all` in place of an environment where it holds for every one.",
)  # fmt: skip
STREAM_SILENCE: Final = Metric(
    "stream.silence", "gauge", _SECONDS, (),
    "Since when nothing came over the event stream; Nomad sends a heartbeat every 30 s.",
)  # fmt: skip
STREAM_FRAMES: Final = Metric("stream.frames", "counter", "{line}", (), "Lines with events, heartbeats not counted.")
STREAM_EVENTS: Final = Metric("stream.events", "counter", "{event}", (), "Events in these lines.")
STREAM_MALFORMED: Final = Metric(
    "stream.malformed", "counter", "{line}", (), "Lines that could not be read, wholly or in part."
)
STREAM_GAPS: Final = Metric(
    "stream.gaps", "counter", "{gap}", (), "How often a connection did not go on where the last one had been."
)
STREAM_CONNECTIONS: Final = Metric(
    "stream.connections", "counter", "{connection}", ("ending",),
    "Connections and attempts that ended, by how; each is followed by another one.",
)  # fmt: skip
STREAM_INDEX: Final = Metric("stream.index", "gauge", "", (), "The Raft index of the newest line.")
BELIEVED_IDLE: Final = Metric(
    "poseidon.idle", "gauge", "{runner}", (ENVIRONMENT,), "Idle runners that Poseidon believes to have."
)
DRIFT: Final = Metric(
    "poseidon.drift", "gauge", "{runner}", (ENVIRONMENT,),
    "Idle runners that Poseidon believes to have, less those that there are: above 0 it hands out dead ones.",
)  # fmt: skip
API_REQUESTS: Final = Metric(
    "api.requests", "counter", "{request}", ("endpoint", "method", "outcome"),
    "Requests to Nomad's API, by what was concluded from the answer.",
)  # fmt: skip
API_DURATION: Final = Metric(
    "api.request.duration", "histogram", _SECONDS, ("endpoint", "method"), "How long requests to Nomad's API took."
)
SYNCED: Final = Metric(
    "synced", "gauge", "", (), "1 while the view of the cluster is complete and fresh, 0 while nothing is decided."
)
INPUTS_WAITING: Final = Metric(
    "controller.inputs.waiting", "gauge", "{input}", (), "Inputs that the controller has not taken in yet."
)
TURN_DURATION: Final = Metric(
    "controller.turn.duration", "histogram", _SECONDS, (), "How long the controller's turns took, waiting not counted."
)
MODEL_JOBS: Final = Metric(
    "model.jobs", "gauge", "{job}", (), "Jobs that are remembered, those that are gone for less than an hour included."
)
MODEL_ALLOCATIONS: Final = Metric("model.allocations", "gauge", "{allocation}", (), "Allocations that are remembered.")
NODES: Final = Metric(
    "nodes", "gauge", "{node}", ("status",), "Nodes by their status; `draining` where they are ready."
)

METRICS: Final = (
    POOL_RUNNERS, POOL_TARGET, POOL_DEFICIT, POOL_SURPLUS, POOL_EXPECTED, POOL_DEFICIT_DURATION, POOL_SHORTAGE_AGE,
    POOL_REFILL_DURATION, ENVIRONMENTS, LOSSES, AT_RISK, ACTIONS, HOLDS, BELIEVED_IDLE, DRIFT, NODES, SYNCED,
    STREAM_SILENCE, STREAM_FRAMES, STREAM_EVENTS, STREAM_MALFORMED, STREAM_GAPS, STREAM_CONNECTIONS, STREAM_INDEX,
    API_REQUESTS, API_DURATION, INPUTS_WAITING, TURN_DURATION, MODEL_JOBS, MODEL_ALLOCATIONS,
)  # fmt: skip
