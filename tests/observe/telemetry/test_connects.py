"""The traces of connections: one for each way back to a complete view, however many attempts it takes."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import ReadableSpan

from tests.core.builders import Bench, bench_with_pool
from tests.observe.telemetry.telling import READ, Telling


@pytest.fixture
def bench() -> Bench:
    return bench_with_pool()


@pytest.fixture
def telling(bench: Bench) -> Telling:
    return Telling(bench)


def read_all(telling: Telling) -> None:
    """The lists are asked for and read."""
    telling.traces.noted("reading-lists", "the stream is open")
    telling.bench.now += 1
    with telling.traces.listing():
        telling.asked(READ)
    telling.traces.noted("lists-read", "")


def length_s(span: ReadableSpan) -> float:
    return ((span.end_time or 0) - (span.start_time or 0)) / 1e9


def test_from_the_end_of_the_stream_to_the_reading_of_the_lists(bench: Bench, telling: Telling) -> None:
    telling.traces.connects.opened(bench.now)
    read_all(telling)
    telling.traces.connects.closed("cut", bench.now)
    for _ in range(3):
        bench.now += 10
        telling.traces.connects.closed("unreachable", bench.now)
    telling.traces.connects.opened(bench.now)
    read_all(telling)

    first, second = telling.spans("connect")
    assert (length_s(first), length_s(second)) == (1, 31)
    assert [event.attributes for event in second.events] == [
        {"poseidon_reconciler.stream.ending": ending} for ending in ["cut", *["unreachable"] * 3]
    ]
    children = [span for span in telling.spans() if span.context.trace_id == second.context.trace_id]
    assert [span.name for span in children] == ["open stream", "GET /v1/job/:id", "read lists", "connect"]


def test_a_doubt_without_the_end_of_the_stream_is_a_trace_of_its_own(bench: Bench, telling: Telling) -> None:
    telling.traces.connects.opened(bench.now)
    read_all(telling)
    read_all(telling)
    assert [span.name for span in telling.spans() if span.parent is None] == ["connect", "resync"]


def test_a_stream_that_ends_while_the_lists_are_read_is_still_one_way_back(bench: Bench, telling: Telling) -> None:
    telling.traces.connects.opened(bench.now)
    telling.traces.noted("reading-lists", "the stream is open")
    telling.traces.noted("lists-not-read", "500")
    telling.traces.connects.closed("eof", bench.now)
    telling.traces.connects.opened(bench.now)
    read_all(telling)

    assert len(telling.spans("connect")) == 1
    assert [span.status.is_ok for span in telling.spans("read lists")] == [False, True]


def test_the_regular_reading_in_between_belongs_to_no_trace(bench: Bench, telling: Telling) -> None:
    telling.traces.connects.opened(bench.now)
    read_all(telling)
    before = telling.names()
    with telling.traces.listing():
        telling.asked(READ)
    telling.traces.noted("lists-read", "")
    assert telling.names() == before
