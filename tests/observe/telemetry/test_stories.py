"""The story of a loss: what it is made of, in every order in which things can come, and that it always ends."""

from __future__ import annotations

from itertools import pairwise

import pytest

from poseidon_reconciler.core.ledger import Action, ActionOutcome
from poseidon_reconciler.observe.telemetry import stories as stories_module
from tests.core.builders import Bench, allocation, bench_with_pool, end_template, job, lose, node_id, purge, runner
from tests.observe.telemetry.telling import DONE, READ, WRITE, Telling

LOST_AFTER_S = 10
SETTLED_AFTER_S = 10


@pytest.fixture
def bench() -> Bench:
    return bench_with_pool(3)


@pytest.fixture
def telling(bench: Bench) -> Telling:
    return Telling(bench)


def creation_of(bench: Bench) -> Action:
    (action,) = [action for action in bench.actions if action.kind == "create-runner"]
    return action


def lost_and_decided(bench: Bench) -> Action:
    """A runner is lost, and another one decided on."""
    lose(bench, 0, index=500)
    bench.wait(LOST_AFTER_S + SETTLED_AFTER_S)
    return creation_of(bench)


def test_a_story_has_all_its_parts_one_after_the_other(bench: Bench, telling: Telling) -> None:
    action = lost_and_decided(bench)
    stamped = telling.act(action, DONE, READ, WRITE)
    bench.wait(2)
    telling.runs(action.job_id, index=901)

    (root,) = telling.spans("runner lost")
    parts = [
        span for span in telling.spans() if span.parent is not None and span.parent.span_id == root.context.span_id
    ]
    parts.sort(key=lambda span: span.start_time or 0)
    assert [span.name for span in parts] == [
        "evidence",
        "verdict",
        "hold",
        "create-runner",
        "placed",
        "running",
        "idle",
    ]
    assert all(one.end_time == other.start_time for one, other in pairwise(parts))
    assert (root.start_time, root.end_time) == (parts[0].start_time, parts[-1].end_time)
    assert stamped == f"{root.context.trace_id:032x}"
    lengths_s = {span.name: ((span.end_time or 0) - (span.start_time or 0)) / 1e9 for span in parts}
    assert (lengths_s["evidence"], lengths_s["hold"], lengths_s["placed"]) == (LOST_AFTER_S, SETTLED_AFTER_S, 2)


def test_the_first_sign_is_where_it_begins_and_leads_nowhere_if_nomad_mends_it(bench: Bench, telling: Telling) -> None:
    lose(bench, 0, index=500)
    bench.wait(5)
    bench.feed(
        job(runner(0), "running", index=501, created=200), allocation("b", runner(0), index=501, node=node_id(1))
    )
    bench.wait(100)
    assert telling.spans("runner lost") == []
    assert len(telling.traces.stories) == 0


def test_a_runner_that_was_seen_before_its_registration_was_confirmed(bench: Bench, telling: Telling) -> None:
    action = lost_and_decided(bench)
    with telling.traces.acting(action) as deed:
        telling.runs(action.job_id, index=901)
        assert telling.outcomes() == []
        deed.ended(DONE)

    assert telling.outcomes() == ["replaced"]
    assert {"placed", "running", "idle"} <= set(telling.names())


def test_what_was_removed_before_it_is_replaced_is_still_one_story(bench: Bench, telling: Telling) -> None:
    lose(bench, 0, index=500)
    bench.wait(LOST_AFTER_S)
    (removal,) = [action for action in bench.actions if action.kind == "remove-job"]
    telling.act(removal)
    purge(bench, runner(0), index=510)
    bench.wait(SETTLED_AFTER_S)
    action = creation_of(bench)
    assert action.replaces is None
    telling.act(action)
    telling.runs(action.job_id, index=901)

    assert telling.outcomes() == ["replaced"]
    assert len({span.context.trace_id for span in telling.spans() if span.name != "decide"}) == 1


def test_a_loss_that_poseidon_itself_has_replaced(bench: Bench, telling: Telling) -> None:
    lose(bench, 0, index=500)
    bench.wait(LOST_AFTER_S)
    purge(bench, runner(0), index=510)
    telling.runs(runner(7), index=511)
    telling.traces.tick()

    assert telling.outcomes() == ["filled-by-others"]
    assert len(telling.traces.stories) == 0


def test_a_creation_that_fails_and_one_that_is_repeated_stand_in_one_story(bench: Bench, telling: Telling) -> None:
    first = lost_and_decided(bench)
    telling.act(first, ActionOutcome("not-done", "403"), READ)
    bench.core.planner.take_outcome(first, ActionOutcome("not-done", "403"), bench.now)
    bench.wait(2 * SETTLED_AFTER_S)
    second = [action for action in bench.actions if action.kind == "create-runner"][-1]
    assert second is not first
    telling.act(second)
    telling.runs(second.job_id, index=901)

    assert telling.outcomes() == ["replaced"]
    deeds = telling.spans("create-runner")
    assert [(deed.attributes or {})["poseidon_reconciler.outcome"] for deed in deeds] == ["not-done", "done"]
    assert [deed.status.is_ok for deed in deeds] == [False, True]
    assert len({deed.context.trace_id for deed in deeds}) == 1


def test_a_new_runner_that_is_lost_before_it_was_idle(bench: Bench, telling: Telling) -> None:
    action = lost_and_decided(bench)
    telling.act(action)
    bench.feed(job(action.job_id, "pending", index=901), allocation("n", action.job_id, "pending", index=901))
    bench.feed(
        allocation("n", action.job_id, "failed", index=902, created=901),
        job(action.job_id, "dead", index=902, created=901),
    )
    bench.wait(LOST_AFTER_S)

    assert telling.outcomes() == ["lost-again"]
    assert len(telling.traces.stories) == 1


def test_a_used_runner_that_is_lost_is_not_replaced(bench: Bench, telling: Telling) -> None:
    bench.feed(job(runner(0), index=300, created=200, registered=300, used=True))
    lose(bench, 0, index=500)
    bench.feed(job(runner(0), "dead", index=501, created=200, registered=501, used=True))
    bench.wait(LOST_AFTER_S)
    purge(bench, runner(0), index=510)

    assert telling.outcomes("used runner lost") == ["gone"]


def test_an_environment_that_is_revived(bench: Bench, telling: Telling) -> None:
    end_template(bench, index=500)
    bench.wait(LOST_AFTER_S)
    (revival,) = [action for action in bench.actions if action.kind == "revive-environment"]
    telling.act(revival, DONE, READ, WRITE)
    bench.feed(
        job("template-10", "running", index=600, created=100, target=3),
        allocation("t2", "template-10", index=600, node=node_id(1)),
    )

    assert telling.outcomes("environment lost") == ["recovered"]
    assert {"hold", "confirm", "register", "revive-environment"} <= set(telling.names())


def test_a_pool_that_is_to_be_larger_has_a_story_of_its_own(bench: Bench, telling: Telling) -> None:
    bench.feed(job("template-10", index=600, created=100, registered=600, target=4))
    telling.shortages.look_at_all(bench.core, bench.now)
    bench.wait(SETTLED_AFTER_S)
    action = creation_of(bench)
    telling.act(action)
    telling.runs(action.job_id, index=901)

    assert telling.outcomes("pool short") == ["replaced"]
    (root,), (hold,) = telling.spans("pool short"), telling.spans("hold")
    assert (root.start_time, (hold.end_time or 0) - (hold.start_time or 0)) == (hold.start_time, SETTLED_AFTER_S * 1e9)


def test_another_epoch_ends_all_stories(bench: Bench, telling: Telling) -> None:
    lost_and_decided(bench)
    # The runner is as it was before it died: the servers were restored from a snapshot.
    bench.read(900, Jobs=[job("template-10", index=102, created=100, target=3), job(runner(0), index=202, created=200)])
    assert telling.outcomes() == ["new-epoch"]


def test_a_story_without_an_end_is_given_up(bench: Bench, telling: Telling) -> None:
    telling.act(lost_and_decided(bench))
    bench.now += 4_000
    telling.traces.tick()
    assert telling.outcomes() == ["without-an-end"]


def test_the_number_of_open_stories_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stories_module, "_MAX_OPEN", 2)
    bench = bench_with_pool(5)
    telling = Telling(bench)
    for number in range(5):
        lose(bench, number, index=500 + number)
    bench.wait(400)
    for action in bench.actions:
        telling.act(action)
    assert len(telling.traces.stories) == 2
    assert len(telling.traces.stories._by_new) <= 2


def test_at_the_end_of_the_program_everything_is_ended(bench: Bench, telling: Telling) -> None:
    lost_and_decided(bench)
    telling.traces.close()
    assert telling.outcomes() == ["program-ended"]
    assert [span.name for span in telling.spans() if span.parent is None][-1] == "connect"


def test_what_still_lives_is_protected_within_the_decision(bench: Bench, telling: Telling) -> None:
    bench.feed(allocation("old", runner(0), "lost", "stop", index=400, created=202))
    (action,) = [action for action in bench.actions if action.kind == "protect-job"]
    telling.act(action, DONE, READ, WRITE)

    (cycle,), (deed,) = telling.spans("decide"), telling.spans("protect-job")
    assert deed.parent is not None
    assert deed.parent.span_id == cycle.context.span_id
    assert telling.spans("runner lost") == []
