"""The front of the room: what metrics say while things change, and that nothing in here can harm what is looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from prometheus_client.parser import text_string_to_metric_families

from poseidon_reconciler.config.observing import TelemetrySettings
from poseidon_reconciler.core.ledger import Action, ActionOutcome
from poseidon_reconciler.observe.drift import EnvironmentView, PoseidonView, Statistics
from poseidon_reconciler.observe.telemetry.calls import Call
from poseidon_reconciler.observe.telemetry.telemetry import Telemetry
from tests.core.builders import bench_with_pool, job, lose, purge, runner

ACTION = Action(0.0, "create-runner", "10", "10-new", "why")
DONE = ActionOutcome("done", "", 1)
CALL = Call("GET", "/v1/jobs", False, 200, "ok", 0.01)


class Looked:
    """A bench with telemetry, of which every look is a fresh one."""

    synced = True
    inputs_waiting = 7

    def __init__(self, settings: TelemetrySettings | None = None) -> None:
        self.bench = bench_with_pool(3)
        self.notes: list[tuple[str, str]] = []
        self.poseidon: PoseidonView | None = None
        self.telemetry = Telemetry(
            settings or TelemetrySettings(),
            self.bench.core,
            self,
            nomad_address="http://nomad:4646",
            endings=["cut", "eof"],
            note=lambda event, detail: self.notes.append((event, detail)),
            clock=lambda: self.bench.now,
            environ={},
        )
        self.telemetry.poseidon = lambda: self.poseidon

    def page(self) -> str:
        body, _ = self.telemetry.render()
        return body.decode()

    def values(self) -> dict[str, dict[tuple[str, ...], float]]:
        """Values by metric, and by the values of its labels in their order by name."""
        self.telemetry._tick()
        found: dict[str, dict[tuple[str, ...], float]] = {}
        for family in text_string_to_metric_families(self.page()):
            for each in family.samples:
                labels = tuple(value for _, value in sorted(each.labels.items()))
                found.setdefault(each.name.removeprefix("poseidon_reconciler_"), {})[labels] = each.value
        return found


@pytest.fixture
def looked() -> Iterator[Looked]:
    made = Looked()
    yield made
    asyncio.run(made.telemetry.close())


def test_series_of_an_environment_end_with_it(looked: Looked) -> None:
    looked.poseidon = PoseidonView(1.0, None, {"10": EnvironmentView(Statistics(10, 3, 4, 0), 3, 0, 3)})
    values = looked.values()
    assert values["pool_runners"][("10", "idle")] == 3
    assert values["poseidon_drift"] == {("10",): 1}

    for number, job_id in enumerate(("template-10", *(runner(number) for number in range(3)))):
        purge(looked.bench, job_id, index=700 + number)
    looked.bench.feed(job("template-11", index=800, target=0))
    looked.poseidon = PoseidonView(1.0, "it does not answer", looked.poseidon.environments)

    values = looked.values()
    assert {environment for environment, _ in values["pool_runners"]} == {"11"}
    for name in ("pool_target", "pool_deficit", "pool_surplus", "pool_expected", "pool_shortage_age_seconds"):
        assert set(values[name]) == {("11",)}
    assert set(values["pool_deficit_duration_seconds_total"]) == {("11",)}
    assert "poseidon_drift" not in values


def test_what_happens_is_counted_from_zero(looked: Looked) -> None:
    assert looked.values()["losses_total"]["stuck-complete", "runner"] == 0
    assert looked.values()["actions_total"]["create-runner", "done"] == 0

    lose(looked.bench, 0, index=500)
    looked.bench.wait(10)
    for step in looked.bench.steps:
        looked.telemetry.stepped(step)
    looked.telemetry.acted(ACTION, DONE)
    looked.telemetry.asked(CALL)
    looked.telemetry.turned(0.002)

    values = looked.values()
    assert values["losses_total"]["stuck-complete", "runner"] == 1
    assert values["actions_total"]["create-runner", "done"] == 1
    assert values["api_requests_total"]["/v1/jobs", "GET", "ok"] == 1
    assert values["controller_turn_duration_seconds_count"][()] == 1
    assert values["controller_inputs_waiting"][()] == 7


def test_the_stream_in_numbers(looked: Looked) -> None:
    stream = looked.telemetry.stream
    stream.frame(40, 3, faulty=False)
    stream.frame(41, 2, faulty=True)
    stream.malformed_line()
    stream.gap()
    looked.telemetry.stream_closed("cut", looked.bench.now)

    values = looked.values()
    names = ("frames_total", "events_total", "malformed_total", "gaps_total", "index")
    assert [values[f"stream_{name}"][()] for name in names] == [2, 5, 2, 1, 41]
    assert values["stream_connections_total"] == {("cut",): 1, ("eof",): 0}
    assert 0 <= values["stream_silence_seconds"][()] < 60


def test_holds_are_counted_by_their_rule(looked: Looked) -> None:
    assert looked.values()["holds"]["all", "storm"] == 0
    lose(looked.bench, 0, index=500)
    looked.bench.wait(12)
    assert looked.values()["holds"]["10", "settling"] == 1
    for number in (1, 2):
        lose(looked.bench, number, index=510 + number)
    looked.bench.core.planner.take_outcome(ACTION, ActionOutcome("not-done", "403"), looked.bench.now)
    assert looked.values()["holds"]["10", "action-failed"] == 1


def test_a_page_is_made_on_any_thread_and_for_several_at_once(looked: Looked) -> None:
    alone = {line.split(" ")[0] for line in looked.page().splitlines()}
    with ThreadPoolExecutor(4) as pool:
        pages = [future.result() for future in [pool.submit(looked.page) for _ in range(12)]]
    assert {frozenset(line.split(" ")[0] for line in page.splitlines()) for page in pages} == {frozenset(alone)}
    assert {page.count("# TYPE poseidon_reconciler_synced") for page in pages} == {1}


def test_a_mistake_in_here_is_told_and_nothing_else(looked: Looked, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(looked.telemetry._metrics, "acted", fail)
    monkeypatch.setattr(looked.telemetry._metrics, "asked", fail)
    looked.telemetry.acted(ACTION, DONE)
    looked.telemetry.asked(CALL)
    looked.telemetry._tick()
    assert looked.notes == [("telemetry-not-sent", "telemetry: RuntimeError: a mistake of ours")]


def test_without_a_collector_nothing_is_traced(looked: Looked) -> None:
    lose(looked.bench, 0, index=500)
    looked.bench.wait(30)
    for step in looked.bench.steps:
        looked.telemetry.stepped(step)
    with looked.telemetry.acting(ACTION) as acting, looked.telemetry.listing():
        acting.ended(DONE)
        assert acting.trace_id is None
    assert looked.telemetry.trace_id_of(ACTION) is None
    assert looked.telemetry._traces is None


async def test_an_action_that_cannot_be_told_is_carried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = Looked(TelemetrySettings(endpoint="http://127.0.0.1:1"))

    def fail(*_: object) -> None:
        raise RuntimeError("a mistake of ours")

    assert looked.telemetry._traces is not None
    monkeypatch.setattr(looked.telemetry._traces, "acting", fail)
    with looked.telemetry.acting(ACTION) as acting:
        acting.ended(DONE)
    await looked.telemetry.close(0.1)
