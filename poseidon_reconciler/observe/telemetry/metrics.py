"""The instruments: what happened is counted where it happens, what is so is read from the latest sample.

Series of an environment that is gone must vanish, so whatever is told apart by environment is observed: a series that
is not reported at a collection is not exported. What can happen is counted from 0, because a counter that begins
with its first event hides that event from `rate` and `increase`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, get_args

from opentelemetry.metrics import CallbackOptions, Counter, Histogram, MeterProvider, Observation

from poseidon_reconciler.core.holds import HoldRule
from poseidon_reconciler.core.ledger import Action, ActionKind, ActionOutcome
from poseidon_reconciler.core.reconciler import Step
from poseidon_reconciler.core.rules import EnvironmentState, LostCause
from poseidon_reconciler.core.status import POOL_STATES
from poseidon_reconciler.observe.drift import PoseidonView
from poseidon_reconciler.observe.telemetry import catalogue as names
from poseidon_reconciler.observe.telemetry.calls import Call
from poseidon_reconciler.observe.telemetry.catalogue import ENVIRONMENT, Metric
from poseidon_reconciler.observe.telemetry.sample import ALL, GONE, PoolSample, Sample
from poseidon_reconciler.observe.telemetry.stream import StreamCounts

Observations = Iterable[Observation]

# Those that are gone have no series, and so no number either.
_ENVIRONMENT_STATES: Final = tuple(state for state in get_args(EnvironmentState) if state != GONE)
_OUTCOMES: Final = ("done", "not-done", "not-wanted", "unknown", "withdrawn")
_NODE_STATUSES: Final = ("ready", "draining", "down", "disconnected", "initializing")
_REFILL_BOUNDS_S: Final = (1, 2.5, 5, 10, 20, 30, 45, 60, 90, 120, 180, 300, 600, 1200, 3600)
_REQUEST_BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_TURN_BOUNDS_S: Final = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


class Metrics:
    """All metrics of one reconciler. Its methods are called on the event loop."""

    def __init__(
        self,
        provider: MeterProvider,
        sample: Callable[[], Sample],
        stream: StreamCounts,
        poseidon: Callable[[], PoseidonView | None],
    ) -> None:
        """`sample` gives the latest sample, on any thread."""
        self._meter = provider.get_meter("poseidon_reconciler")
        self._sample = sample
        self._stream = stream
        self._poseidon = poseidon
        self._losses = self._counter(names.LOSSES)
        self._actions = self._counter(names.ACTIONS)
        self._requests = self._counter(names.API_REQUESTS)
        self._request_duration = self._histogram(names.API_DURATION, _REQUEST_BOUNDS_S)
        self._refill_duration = self._histogram(names.POOL_REFILL_DURATION, _REFILL_BOUNDS_S)
        self._turn_duration = self._histogram(names.TURN_DURATION, _TURN_BOUNDS_S)
        self._count_from_zero()
        self._observe_pools()
        self._observe_cluster()
        self._observe_stream()

    # --- what happened -------------------------------------------------------------------------------------------

    def stepped(self, step: Step) -> None:
        """Counts what was found lost."""
        for change in step.changes:
            if change.verdict.state == "lost" and (change.before is None or change.before.state != "lost"):
                self._losses.add(1, {"kind": change.job.kind, "cause": str(change.verdict.cause)})

    def acted(self, action: Action, outcome: ActionOutcome) -> None:
        """Counts what was done."""
        self._actions.add(1, {"kind": action.kind, "outcome": outcome.result})

    def asked(self, call: Call) -> None:
        """Counts and times a request."""
        asked = {"endpoint": call.route, "method": call.method}
        self._requests.add(1, {**asked, "outcome": call.outcome})
        self._request_duration.record(call.duration_s, asked)

    def refilled(self, duration_s: float) -> None:
        """A pool is full again, so long after it began to be short."""
        self._refill_duration.record(duration_s)

    def turned(self, duration_s: float) -> None:
        """The controller has made a turn."""
        self._turn_duration.record(duration_s)

    def _count_from_zero(self) -> None:
        for cause in get_args(LostCause):
            for kind in ("runner", "environment"):
                self._losses.add(0, {"kind": kind, "cause": cause})
        for action in get_args(ActionKind):
            for outcome in _OUTCOMES:
                self._actions.add(0, {"kind": action, "outcome": outcome})

    # --- what is so ----------------------------------------------------------------------------------------------

    def _observe_pools(self) -> None:
        of_pools = self._of_pools
        self._gauge(names.POOL_RUNNERS, self._runners)
        self._gauge(names.POOL_TARGET, of_pools(lambda pool: pool.row.target))
        self._gauge(names.POOL_DEFICIT, of_pools(lambda pool: pool.row.deficit))
        self._gauge(names.POOL_SURPLUS, of_pools(lambda pool: pool.row.surplus))
        self._gauge(names.POOL_EXPECTED, of_pools(lambda pool: pool.expected))
        self._gauge(names.POOL_SHORTAGE_AGE, of_pools(lambda pool: pool.shortage_age_s))
        self._observed_counter(names.POOL_DEFICIT_DURATION, of_pools(lambda pool: pool.lacked_runner_s))
        self._gauge(names.BELIEVED_IDLE, self._believed)
        self._gauge(names.DRIFT, self._drifts)

    def _observe_cluster(self) -> None:
        self._gauge(names.ENVIRONMENTS, self._environments)
        self._gauge(names.HOLDS, self._holds)
        self._gauge(names.NODES, self._nodes)
        self._gauge(names.SYNCED, self._of_sample(lambda sample: int(sample.synced)))
        self._gauge(names.INPUTS_WAITING, self._of_sample(lambda sample: sample.inputs_waiting))
        self._gauge(names.MODEL_JOBS, self._of_sample(lambda sample: sample.jobs))
        self._gauge(names.MODEL_ALLOCATIONS, self._of_sample(lambda sample: sample.allocations))
        self._gauge(names.AT_RISK, self._of_sample(lambda sample: sample.at_risk))

    def _observe_stream(self) -> None:
        stream = self._stream
        self._gauge(names.STREAM_SILENCE, lambda: [Observation(stream.silence_s)])
        self._gauge(names.STREAM_INDEX, lambda: [Observation(stream.index)])
        self._observed_counter(names.STREAM_FRAMES, lambda: [Observation(stream.frames)])
        self._observed_counter(names.STREAM_EVENTS, lambda: [Observation(stream.events)])
        self._observed_counter(names.STREAM_MALFORMED, lambda: [Observation(stream.malformed)])
        self._observed_counter(names.STREAM_GAPS, lambda: [Observation(stream.gaps)])
        self._observed_counter(
            names.STREAM_CONNECTIONS,
            lambda: [Observation(number, {"ending": ending}) for ending, number in stream.endings.copy().items()],
        )

    def _of_sample(self, number: Callable[[Sample], float]) -> Callable[[], Observations]:
        return lambda: [Observation(number(self._sample()))]

    def _of_pools(self, number: Callable[[PoolSample], float | None]) -> Callable[[], Observations]:
        def observe() -> Iterator[Observation]:
            for environment_id, pool in self._sample().pools.items():
                value = number(pool)
                if value is not None:
                    yield Observation(value, {ENVIRONMENT: environment_id})

        return observe

    def _runners(self) -> Iterator[Observation]:
        for environment_id, pool in self._sample().pools.items():
            for state in POOL_STATES:
                yield Observation(getattr(pool.row, state), {ENVIRONMENT: environment_id, "state": state})

    def _environments(self) -> Iterator[Observation]:
        states = [pool.row.state for pool in self._sample().pools.values()]
        for state in _ENVIRONMENT_STATES:
            yield Observation(states.count(state), {"state": state})

    def _holds(self) -> Iterator[Observation]:
        # Of what holds for everything each rule is always there, so that a panel or rule has something to look at.
        none: dict[tuple[str, str], int] = dict.fromkeys(((ALL, rule) for rule in get_args(HoldRule)), 0)
        for (environment_id, rule), number in {**none, **self._sample().holds}.items():
            yield Observation(number, {ENVIRONMENT: environment_id, "rule": rule})

    def _nodes(self) -> Iterator[Observation]:
        nodes = self._sample().nodes
        for status in dict.fromkeys((*_NODE_STATUSES, *nodes)):
            yield Observation(nodes.get(status, 0), {"status": status})

    def _believed(self) -> Iterator[Observation]:
        for environment_id, believed, _ in self._beliefs():
            yield Observation(believed, {ENVIRONMENT: environment_id})

    def _drifts(self) -> Iterator[Observation]:
        for environment_id, believed, idle in self._beliefs():
            yield Observation(believed - idle, {ENVIRONMENT: environment_id})

    def _beliefs(self) -> Iterator[tuple[str, int, int]]:
        """The idle runners of each environment: those that Poseidon believes to have, and those that there are."""
        view = self._poseidon()
        if view is None or view.problem is not None:
            return
        for environment_id, environment in view.environments.items():
            if environment.believed is not None:
                yield environment_id, environment.believed.idle_runners, environment.idle

    # --- instruments ---------------------------------------------------------------------------------------------

    def _counter(self, metric: Metric) -> Counter:
        return self._meter.create_counter(metric.full_name, metric.unit, metric.text)

    def _histogram(self, metric: Metric, bounds: Iterable[float]) -> Histogram:
        return self._meter.create_histogram(
            metric.full_name, metric.unit, metric.text, explicit_bucket_boundaries_advisory=list(bounds)
        )

    def _gauge(self, metric: Metric, observe: Callable[[], Observations]) -> None:
        self._meter.create_observable_gauge(metric.full_name, [_callback(observe)], metric.unit, metric.text)

    def _observed_counter(self, metric: Metric, observe: Callable[[], Observations]) -> None:
        self._meter.create_observable_counter(metric.full_name, [_callback(observe)], metric.unit, metric.text)


def _callback(observe: Callable[[], Observations]) -> Callable[[CallbackOptions], Observations]:
    return lambda _: observe()
