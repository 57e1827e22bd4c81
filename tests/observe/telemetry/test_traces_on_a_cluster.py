"""What a collector gets of a reconciler at work: the story of a loss, connected; and what it costs if it is ill."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from dataclasses import dataclass

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from poseidon_reconciler.config.observing import TelemetrySettings
from poseidon_reconciler.nomad.documents import TRACE_ID, mark_of
from poseidon_reconciler.twin.documents import job_document
from tests.leaps import in_leaps, run_in_leaps
from tests.observe.telemetry.living import MORTAL, Living, living
from tests.observe.telemetry.receiver import Manner, Receiver, plain, receiving

STAGES = ("evidence", "verdict", "hold", "create-runner", "placed", "running", "idle")


def telemetry_to(address: str, timeout_s: float = 5.0) -> TelemetrySettings:
    return TelemetrySettings(endpoint=address, interval_s=0.1, timeout_s=timeout_s)


def stamped_trace_id(found: Living) -> str:
    """The trace id in the job of the runner that was created."""
    actions = [action for step in found.notes.steps for action in step.actions]
    (created,) = [action.job_id for action in actions if action.kind == "create-runner"]
    document = dict(job_document(found.server.touch().state.jobs["default", created]))
    return mark_of(document)[TRACE_ID]


@dataclass(frozen=True)
class Told:
    """What the collector has got, and the trace of the runner that was replaced."""

    receiver: Receiver
    trace_id: str


async def _replace() -> Told:
    async with receiving() as receiver, living(telemetry_to(receiver.address)) as found:
        await found.replaced()
        trace_id = stamped_trace_id(found)
        await found.stop()
    return Told(receiver, trace_id)


@pytest.fixture(scope="module")
def told() -> Told:
    return run_in_leaps(_replace())


def test_a_replacement_is_one_connected_trace(told: Told) -> None:
    story = told.receiver.traces()[told.trace_id]
    by_id = {span.span_id: span for span in story}
    (root,) = [span for span in story if not span.parent_span_id]
    assert root.name == "runner lost"
    assert all(span.parent_span_id in by_id for span in story if span is not root)
    assert all(root.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano for span in story)

    stages = sorted(_children(story, root), key=lambda span: (span.start_time_unix_nano, span.end_time_unix_nano))
    assert [span.name for span in stages if span.name != "remove-job"] == list(STAGES)
    assert "remove-job" in {span.name for span in stages}
    (creation,) = [span for span in stages if span.name == "create-runner"]
    steps = sorted(_children(story, creation), key=lambda span: span.start_time_unix_nano)
    assert [span.name for span in steps] == ["confirm", "register"]
    # What is replaced may be there still, and is read again then, with what became of it.
    reads = {f"GET /v1/job/:id{part}" for part in ("", "/allocations", "/evaluations")}
    assert {"GET /v1/job/:id"} <= {span.name for span in _children(story, steps[0])} <= reads
    assert [span.name for span in _children(story, steps[1])] == ["POST /v1/jobs"]


def test_spans_say_what_they_are_about_and_lead_to_the_decision(told: Told) -> None:
    named = {span.name: span for span in told.receiver.traces()[told.trace_id]}
    attributes = {name: plain(span.attributes) for name, span in named.items()}
    root = attributes["runner lost"]
    assert root["nomad.job.id"] == MORTAL
    assert root["poseidon.environment.id"] == "10"
    assert (root["poseidon_reconciler.rule"], root["poseidon_reconciler.cause"]) == ("stuck-complete",) * 2
    assert root["poseidon_reconciler.outcome"] == "replaced"
    assert "settling" in attributes["hold"]["poseidon_reconciler.hold.rules"]
    assert attributes["create-runner"]["poseidon_reconciler.action.kind"] == "create-runner"
    assert attributes["create-runner"]["poseidon_reconciler.outcome"] == "done"
    assert attributes["idle"]["nomad.allocation.id"]
    assert [event.name.split("/")[0] for event in named["evidence"].events].count("Allocation") == 1
    post = attributes["POST /v1/jobs"]
    assert (post["http.request.method"], post["http.response.status_code"]) == ("POST", "200")
    assert (post["url.template"], post["server.address"]) == ("/v1/jobs", "127.0.0.1")

    decisions = told.receiver.roots("decide")
    linked = {link.trace_id for link in named["runner lost"].links}
    assert linked & {decision.trace_id for decision in decisions}
    assert any(link.trace_id.hex() == told.trace_id for decision in decisions for link in decision.links)
    (connect,) = told.receiver.roots("connect")
    parts = Counter(span.name for span in told.receiver.traces()[connect.trace_id.hex()])
    assert parts["open stream"] == parts["read lists"] == parts["GET /v1/jobs"] == 1
    assert told.receiver.resource["service.name"] == "poseidon-reconciler"
    assert "poseidon_reconciler.pool.runners" in told.receiver.metrics


def test_nothing_secret_or_whole_is_on_a_span(told: Told) -> None:
    for span in told.receiver.spans:
        events = [plain(event.attributes) for event in span.events]
        for each in (plain(span.attributes), *events):
            assert not [key for key in each if re.search(r"header|token|body|env(?!ironment)", key)]
            assert not [text for text in each.values() if len(text) > 300 or "TaskGroups" in text]


@pytest.mark.parametrize("manner", ["refuse", "hang", "503"])
@in_leaps
async def test_a_collector_that_is_ill_costs_nothing(manner: Manner | str) -> None:
    async with receiving("hang" if manner == "hang" else "503") as receiver:
        # Whoever waited for one that hangs would wait for so long.
        settings = telemetry_to(receiver.address, timeout_s=2.0)
        if manner == "refuse":
            settings = telemetry_to("http://127.0.0.1:1", timeout_s=2.0)
        async with living(settings) as found:
            slowest_s = await _slowest_turn_while(found.replaced())
            took_s = await found.stop()

            assert ("create-runner", "done") in found.notes.outcomes
            assert manner == "refuse" or receiver.requests
            assert slowest_s < 1.5, "the event loop waited for the collector"
            assert took_s < 6.0
            assert found.notes.count("telemetry-not-sent") <= 1


async def _slowest_turn_while(work: object) -> float:
    """The longest time for which the event loop did not turn, in seconds on the wall."""
    assert asyncio.iscoroutine(work)
    task, slowest_s = asyncio.ensure_future(work), 0.0
    while not task.done():
        before = time.monotonic()
        await asyncio.sleep(0.1)
        slowest_s = max(slowest_s, time.monotonic() - before)
    await task
    return slowest_s


def _children(trace: list[Span], parent: Span) -> list[Span]:
    return [span for span in trace if span.parent_span_id == parent.span_id]
