"""What the SDK logs of its troubles becomes a line now and then, and goes nowhere else."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from poseidon_reconciler.observe.telemetry.quiet import Quiet

LOGGER = logging.getLogger("opentelemetry.exporter.otlp")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def quiet(clock: Clock) -> Iterator[Quiet]:
    handler = Quiet(clock)
    handler.install()
    yield handler
    handler.uninstall()


def test_one_line_at_once_and_the_next_much_later_with_how_many_were_left_out(quiet: Quiet, clock: Clock) -> None:
    for _ in range(1000):
        LOGGER.error("Failed to export spans batch code: %d", 503)
    assert list(quiet.take()) == ["Failed to export spans batch code: 503"]

    clock.now = 301
    LOGGER.warning("again")
    assert list(quiet.take()) == ["again (999 more since the last of these lines)"]


def test_nobody_else_hears_of_it(quiet: Quiet) -> None:
    heard: list[str] = []
    # Not pytest's own, which listens where nothing is passed on, too.
    root = logging.Handler()
    root.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger().addHandler(root)
    try:
        LOGGER.error("x")
        quiet.uninstall()
        LOGGER.error("y")
    finally:
        logging.getLogger().removeHandler(root)
    assert heard == ["y"]
    assert list(quiet.take()) == ["x"]


def test_it_is_given_back_whoever_ends_first() -> None:
    first, second = Quiet(), Quiet()
    for handler in (first, second):
        handler.install()
    first.uninstall()
    assert not logging.getLogger("opentelemetry").propagate
    second.uninstall()
    assert logging.getLogger("opentelemetry").propagate


def test_a_line_is_short_and_shows_neither_keys_nor_addresses_in_memory(quiet: Quiet) -> None:
    LOGGER.error("with url: /v1/traces?api-key=secret (<Connection object at 0x7f00>: refused)\n%s", "x" * 1000)
    (line,) = quiet.take()
    assert line.startswith("with url: /v1/traces?… (refused)")
    assert len(line) == 200


def test_a_record_that_cannot_be_formatted(quiet: Quiet) -> None:
    quiet.emit(logging.LogRecord("opentelemetry", logging.ERROR, "", 0, "%d", ("no number",), None))
    assert list(quiet.take()) == ["%d"]


def test_what_is_no_warning_is_nothing(quiet: Quiet) -> None:
    LOGGER.info("Shutdown called")
    assert list(quiet.take()) == []
