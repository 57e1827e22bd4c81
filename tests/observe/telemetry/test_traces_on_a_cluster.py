"""What a collector gets of a reconciler at work: the story of a loss, connected; and what it costs if it is ill."""

from __future__ import annotations

import asyncio
import re
from collections import Counter

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from poseidon_reconciler.config.observing import TelemetrySettings
from poseidon_reconciler.nomad.documents import TRACE_ID, mark_of
from poseidon_reconciler.twin.documents import job_document
from tests.observe.telemetry.living import MORTAL, Living, living
from tests.observe.telemetry.receiver import Manner, Receiver, plain, receiving

STAGES = ("evidence", "verdict", "hold", "create-runner", "placed", "running", "idle")


def telemetry_to(receiver: Receiver) -> TelemetrySettings:
    return TelemetrySettings(endpoint=receiver.address, interval_s=0.5, timeout_s=2.0)


def stamped_trace_id(found: Living) -> str:
    """The trace id in the job of the runner that was created."""
    actions = [action for step in found.notes.steps for action in step.actions]
    (created,) = [action.job_id for action in actions if action.kind == "create-runner"]
    document = dict(job_document(found.server.touch().state.jobs["default", created]))
    return mark_of(document)[TRACE_ID]


async def test_a_replacement_is_one_connected_trace() -> None:
    async with receiving() as receiver, living(telemetry_to(receiver)) as found:
        await found.replaced()
        trace_id = stamped_trace_id(found)
        await found.stop()

        story = receiver.traces()[trace_id]
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
        assert {span.name for span in _children(story, steps[0])} == {"GET /v1/job/:id"}
        assert [span.name for span in _children(story, steps[1])] == ["POST /v1/jobs"]


async def test_spans_say_what_they_are_about_and_lead_to_the_decision() -> None:
    async with receiving() as receiver, living(telemetry_to(receiver)) as found:
        await found.replaced()
        trace_id = stamped_trace_id(found)
        await found.stop()

        named = {span.name: span for span in receiver.traces()[trace_id]}
        told = {name: plain(span.attributes) for name, span in named.items()}
        root = told["runner lost"]
        assert root["nomad.job.id"] == MORTAL
        assert root["poseidon.environment.id"] == "10"
        assert (root["poseidon_reconciler.rule"], root["poseidon_reconciler.cause"]) == ("stuck-complete",) * 2
        assert root["poseidon_reconciler.outcome"] == "replaced"
        assert "settling" in told["hold"]["poseidon_reconciler.hold.rules"]
        assert told["create-runner"]["poseidon_reconciler.action.kind"] == "create-runner"
        assert told["create-runner"]["poseidon_reconciler.outcome"] == "done"
        assert told["idle"]["nomad.allocation.id"]
        assert [event.name.split("/")[0] for event in named["evidence"].events].count("Allocation") == 1
        post = told["POST /v1/jobs"]
        assert (post["http.request.method"], post["http.response.status_code"]) == ("POST", "200")
        assert (post["url.template"], post["server.address"]) == ("/v1/jobs", "127.0.0.1")

        decisions = receiver.roots("decide")
        linked = {link.trace_id for link in named["runner lost"].links}
        assert linked & {decision.trace_id for decision in decisions}
        assert any(link.trace_id.hex() == trace_id for decision in decisions for link in decision.links)
        (connect,) = receiver.roots("connect")
        parts = Counter(span.name for span in receiver.traces()[connect.trace_id.hex()])
        assert parts["open stream"] == parts["read lists"] == parts["GET /v1/jobs"] == 1
        assert receiver.resource["service.name"] == "poseidon-reconciler"
        assert "poseidon_reconciler.pool.runners" in receiver.metrics


async def test_nothing_secret_or_whole_is_on_a_span() -> None:
    async with receiving() as receiver, living(telemetry_to(receiver)) as found:
        await found.replaced()
        await found.stop()

        for span in receiver.spans:
            events = [plain(event.attributes) for event in span.events]
            for attributes in (plain(span.attributes), *events):
                assert not [key for key in attributes if re.search(r"header|token|body|env(?!ironment)", key)]
                assert not [text for text in attributes.values() if len(text) > 300 or "TaskGroups" in text]


@pytest.mark.parametrize("manner", ["refuse", "hang", "503"])
async def test_a_collector_that_is_ill_costs_nothing(manner: Manner | str) -> None:
    async with receiving("hang" if manner == "hang" else "503") as receiver:
        settings = telemetry_to(receiver)
        if manner == "refuse":
            settings = TelemetrySettings(endpoint="http://127.0.0.1:1", interval_s=0.5, timeout_s=2.0)
        async with living(settings) as found:
            slowest_s = await _slowest_turn_while(found.replaced())
            took_s = await found.stop()

            assert ("create-runner", "done") in found.notes.outcomes
            assert manner == "refuse" or receiver.requests
            assert slowest_s < 1.0, "the event loop waited for the collector"
            assert took_s < 6.0
            assert found.notes.count("telemetry-not-sent") <= 1


async def _slowest_turn_while(work: object) -> float:
    """The longest time for which the event loop did not turn, in seconds."""
    assert asyncio.iscoroutine(work)
    loop = asyncio.get_running_loop()
    task, slowest_s = asyncio.ensure_future(work), 0.0
    while not task.done():
        before = loop.time()
        await asyncio.sleep(0.01)
        slowest_s = max(slowest_s, loop.time() - before)
    await task
    return slowest_s


def _children(trace: list[Span], parent: Span) -> list[Span]:
    return [span for span in trace if span.parent_span_id == parent.span_id]
