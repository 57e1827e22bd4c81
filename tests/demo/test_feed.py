"""What happens, as lines."""

from __future__ import annotations

from poseidon_reconciler.app.demo.feed import Feed

LONG = "10-7a1d5006-7154-11f1-9c5d-02fc00000001"


class Clock:
    now = 100.0


def lines(feed: Feed) -> list[str]:
    return [entry.line() for entry in feed.entries]


def feed_and_clock(speed: float = 1.0) -> tuple[Feed, Clock]:
    clock = Clock()
    return Feed(lambda: clock.now, speed), clock


def test_a_single_line_names_what_it_is_about() -> None:
    feed, _ = feed_and_clock()
    feed.add("decided", "create-runner", "the pool is short", LONG)
    feed.add("node", "node down", subject="agent-1")
    feed.add("failure", "stopped: all agents")
    assert lines(feed) == [
        "create-runner 10-7a1d5006…: the pool is short", "node down agent-1", "stopped: all agents"
    ]  # fmt: skip


def test_equal_things_at_once_are_one_line() -> None:
    feed, clock = feed_and_clock()
    for number in range(3):
        feed.add("done", "protect-job", "in place", f"10-{number}")
        feed.add("lost", "lost", "node-lost", f"11-{number}")
        clock.now += 0.5
    assert lines(feed) == ["protect-job × 3: in place", "lost × 3: node-lost"]


def test_of_several_reasons_the_first_is_told() -> None:
    feed, _ = feed_and_clock()
    feed.add("decided", "create-runner", "2 short", "10-a")
    feed.add("decided", "create-runner", "1 short", "10-b")
    assert lines(feed) == ["create-runner × 2: 2 short, …"]


def test_what_comes_later_is_another_line() -> None:
    feed, clock = feed_and_clock()
    feed.add("node", "node down", subject="agent-1")
    clock.now += 2
    feed.add("node", "node down", subject="agent-2")
    assert lines(feed) == ["node down agent-1", "node down agent-2"]


def test_in_a_faster_cluster_more_is_at_once() -> None:
    feed, clock = feed_and_clock(speed=10.0)
    feed.add("node", "node down", subject="agent-1")
    clock.now += 10
    feed.add("node", "node down", subject="agent-2")
    assert lines(feed) == ["node down × 2"]


def test_lines_are_taken_once_and_only_when_they_do_not_change_any_more() -> None:
    feed, clock = feed_and_clock()
    feed.add("node", "node down", subject="agent-1")
    assert feed.take_finished() == []
    clock.now += 2
    feed.add("node", "node ready", subject="agent-1")
    assert [entry.text for entry in feed.take_finished()] == ["node down"]
    assert [entry.text for entry in feed.take_finished(all_of_them=True)] == ["node ready"]
    assert feed.take_finished(all_of_them=True) == []


def test_what_was_taken_is_not_counted_up() -> None:
    feed, _ = feed_and_clock()
    feed.add("node", "node down", subject="agent-1")
    feed.take_finished(all_of_them=True)
    feed.add("node", "node down", subject="agent-2")
    assert lines(feed) == ["node down agent-1", "node down agent-2"]


def test_other_peoples_text_cannot_steer_a_terminal() -> None:
    feed, _ = feed_and_clock()
    feed.add("done", "create-runner", "\x1b[2J", "10-a")
    assert lines(feed) == ["create-runner 10-a: \\x1b[2J"]
