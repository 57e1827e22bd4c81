"""What happened lately, in rings that do not grow."""

from __future__ import annotations

from poseidon_reconciler.core.ledger import Action, ActionOutcome
from poseidon_reconciler.core.reconciler import Step
from poseidon_reconciler.observe.web.recent import MAX_DECISIONS, MAX_LOSSES, Recent
from tests.core.builders import bench_with_pool, lose


def action(number: int) -> Action:
    return Action(float(number), "create-runner", "10", f"10-{number}", "the pool is 1 short")


def recent() -> Recent:
    return Recent(bench_with_pool().core, lambda: 77.0)


def decided(*actions: Action) -> Step:
    return Step(0.0, [], list(actions), [])


def test_decisions_are_numbered_and_get_their_outcome() -> None:
    heard = recent()
    heard.stepped(decided(action(1), action(2)))
    heard.acted(action(2), ActionOutcome("not-wanted", "the pool is full"))
    first, second = heard.decisions
    assert (first.id, first.outcome) == (1, None)
    assert second.document()["outcome"] == {
        "at": "1970-01-01T00:01:17.000Z",
        "result": "not-wanted",
        "detail": "the pool is full",
    }
    assert [each.id for each in heard.since(2, 10)] == [2]


def test_the_oldest_decisions_go_and_leave_nothing_behind() -> None:
    heard = recent()
    for number in range(MAX_DECISIONS + 50):
        heard.stepped(decided(action(number)))
    heard.acted(action(0), ActionOutcome("done", "registered"))
    assert len(heard.decisions) == len(heard._open) == MAX_DECISIONS
    assert heard.decisions[0].id == 51


def test_the_last_losses_are_kept_each_once() -> None:
    bench = bench_with_pool(MAX_LOSSES + 20)
    heard = Recent(bench.core, lambda: bench.now)
    for number in range(MAX_LOSSES + 20):
        lose(bench, number, index=10_000 + number)
    bench.wait(60)
    for step in bench.steps:
        heard.stepped(step)
    assert len(heard.losses) == MAX_LOSSES
    assert len({loss.job_id for loss in heard.losses}) == MAX_LOSSES


def test_everything_that_is_heard_is_passed_on_as_a_change() -> None:
    heard = recent()
    changes: list[int] = []
    heard.on_change = lambda: changes.append(1)
    heard.stepped(decided(action(1)))
    heard.acted(action(1), ActionOutcome("done", ""))
    heard.noted("stream-closed", "EOF")
    assert len(changes) == 3
    assert heard.last_note == "stream-closed: EOF"
