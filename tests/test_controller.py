"""The loop: what it waits for before it decides, what it does with what became of its actions, and how it ends."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

import poseidon_reconciler.controller.loop as controller_module
from poseidon_reconciler.controller import Ping, PolicyChanged, Resumed, StreamClosed, StreamDoubt, StreamFrame
from poseidon_reconciler.core.events import Snapshot
from poseidon_reconciler.core.ledger import Action, ActionOutcome
from poseidon_reconciler.core.pauses import Pause
from poseidon_reconciler.policy import PacePolicy, Policy, PoolPolicy
from tests.controllers import DONE, RESYNC_S, Rig, at_once, in_virtual_time, now, pool, rig
from tests.core.builders import allocation, job, line_of, node, node_id, runner

# --- before anything is decided -------------------------------------------------------------------------------------


@in_virtual_time
async def test_nothing_is_judged_or_decided_before_the_lists_are_read() -> None:
    async with rig() as r:
        r.lists.slow = True
        await r.open()
        r.lose(0, index=200)
        await asyncio.sleep(100)
        assert (r.actions.begun, r.notes.steps, r.verdicts()) == ([], [], {})

        r.lists.answer_now()
        await at_once()

        assert r.controller.synced
        assert r.verdicts()[runner(1)] == "idle"


@in_virtual_time
async def test_lines_that_came_while_lists_were_read_are_taken_in_after_them_in_their_order() -> None:
    async with rig() as r:
        r.lists.slow = True
        await r.open()
        for status in ("dead", "pending"):
            r.say(job(runner(0), status, index=200, created=20), index=200)
            await at_once()

        r.lists.answer_now()
        await at_once()

        assert r.core.model.jobs[runner(0)].status == "pending"
        assert r.core.model.index == 200


async def lines_around_lists(r: Rig, lists: Snapshot) -> None:
    """A runner's end is told before the lists are asked for once more, another one's while they are read."""
    r.lists.answer = lambda: (Snapshot(), "no leader")
    await r.open()
    r.lose(0, index=200)
    await at_once()
    r.lists.answer, r.lists.slow = lambda: (lists, ""), True
    await asyncio.sleep(1)
    r.lose(2, index=310)
    await at_once()
    r.lists.answer_now()
    await at_once()


@in_virtual_time
async def test_lines_that_came_before_the_lists_were_asked_for_are_in_them_or_of_another_history() -> None:
    async with rig() as r:
        # The servers were restored from a snapshot of before the end of the first runner, and have done much since.
        await lines_around_lists(r, pool(300))

        assert (r.verdicts()[runner(0)], r.verdicts()[runner(2)]) == ("idle", "recovering")


@in_virtual_time
async def test_without_all_four_lists_no_line_is_in_them() -> None:
    async with rig() as r:
        lists = pool(300)
        lists.nodes = None
        del lists.indexes["Nodes"]
        await lines_around_lists(r, lists)

        assert (r.verdicts()[runner(0)], r.verdicts()[runner(2)]) == ("recovering", "recovering")


@in_virtual_time
async def test_lists_that_are_older_than_what_the_stream_has_told_are_read_again() -> None:
    async with rig() as r:
        await r.open()
        r.say(job(runner(0), index=200, created=20), index=200)
        await asyncio.sleep(RESYNC_S - 1)
        assert r.notes.count("lists-read") == 1

        r.lists.answer = lambda: (pool(199), "")
        await asyncio.sleep(2)
        assert not r.controller.synced
        r.lists.answer = lambda: (pool(200), "")
        await asyncio.sleep(2)

        assert len(r.lists.asked) == 4
        assert r.notes.count("lists-read") == 2


@in_virtual_time
async def test_lists_after_another_stream_need_not_be_as_new_as_what_the_one_before_had_told() -> None:
    async with rig() as r:
        await r.open()
        r.say(job(runner(0), index=200, created=20), index=200)
        await at_once()

        r.controller.put(StreamClosed("cut", now()))
        await r.open()

        assert r.controller.synced
        assert r.core.snapshots.epoch == 1


@in_virtual_time
async def test_what_is_put_in_one_go_is_taken_in_in_that_order() -> None:
    async with rig() as r:
        await r.open()

        # Two lines that came in one piece: both of one index, and the last of them counts.
        for status in ("dead", "pending"):
            r.say(job(runner(0), status, index=200, created=20), index=200)
        await at_once()

        assert r.core.model.jobs[runner(0)].status == "pending"


@in_virtual_time
async def test_how_much_was_read_is_told() -> None:
    async with rig() as r:
        await r.open()
        assert ("lists-read", "1 environment, 4 jobs") in r.notes.notes


@in_virtual_time
async def test_lists_that_were_read_before_the_latest_doubt_say_nothing() -> None:
    async with rig() as r:
        answers = [pool(100, 1), pool(300, 2)]

        def answer() -> tuple[Snapshot, str]:
            if len(answers) == 2:
                # A line of no meaning first: whatever is put first wakes the loop.
                r.controller.put(StreamFrame(line_of({}), now()))
                r.controller.put(StreamDoubt("a gap", now()))
            return answers.pop(0), ""

        r.lists.answer = answer
        await r.open()

        assert len(r.lists.asked) == 2
        assert [step.at for step in r.notes.steps if step.changes] == [now() - 0.001]
        assert r.verdicts()[runner(1)] == "idle"


@in_virtual_time
async def test_lists_that_arrive_after_the_stream_was_closed_are_not_believed() -> None:
    async with rig() as r:
        r.lists.slow = True
        await r.open()
        r.controller.put(StreamClosed("EOF", now()))
        await at_once()

        r.lists.answer_now()
        await asyncio.sleep(1000)

        assert not r.controller.synced
        assert r.verdicts() == {}
        assert ("stream-closed", "EOF") in r.notes.notes


@in_virtual_time
async def test_a_stream_that_is_closed_stops_all_decisions_until_it_is_open_and_the_lists_are_read_again() -> None:
    async with rig() as r:
        await r.open()
        r.lose(0, index=200)
        await asyncio.sleep(5)
        r.controller.put(StreamClosed("EOF", now()))
        await asyncio.sleep(RESYNC_S / 2)
        assert (r.actions.begun, r.controller.synced) == ([], False)

        r.lists.answer = lambda: (pool(300), "")
        await r.open()
        assert r.controller.synced

        assert len(r.lists.asked) == 2


@in_virtual_time
async def test_a_stream_that_stays_closed_costs_nothing() -> None:
    async with rig() as r:
        await r.open()
        r.controller.put(StreamClosed("connection refused", now()))

        await asyncio.sleep(2 * RESYNC_S)

        assert len(r.lists.asked) == 1


@in_virtual_time
async def test_a_gap_has_the_lists_read_and_nothing_decided_meanwhile() -> None:
    async with rig() as r:
        await r.open()
        r.lose(0, index=200)
        await asyncio.sleep(5)
        r.lists.slow = True

        r.controller.put(StreamDoubt("lines 201 to 210 are missing", now()))
        await asyncio.sleep(100)

        assert not r.controller.synced
        assert r.actions.begun == []
        assert ("reading-lists", "lines 201 to 210 are missing") in r.notes.notes


# --- reading lists -------------------------------------------------------------------------------------


@in_virtual_time
async def test_lists_are_read_again_after_the_interval_counted_from_the_last_reading() -> None:
    async with rig() as r:
        await r.open()
        began = r.lists.asked[0]
        await asyncio.sleep(100)
        r.controller.put(StreamDoubt("a gap", now()))

        await asyncio.sleep(2.5 * RESYNC_S)

        assert [round(at - began) for at in r.lists.asked] == [0, 100, 400, 700]
        assert r.controller.synced


@in_virtual_time
async def test_what_the_stream_says_while_lists_are_read_again_is_judged_at_once() -> None:
    async with rig() as r:
        await r.open()
        r.lists.slow = True
        await asyncio.sleep(RESYNC_S + 1)
        assert len(r.lists.asked) == 2

        r.lose(0, index=200)
        await at_once()

        assert r.verdicts()[runner(0)] == "recovering"


@pytest.mark.parametrize("failure", ["raises", "empty", "one list less"])
@in_virtual_time
async def test_lists_that_cannot_be_read_are_asked_for_again_after_waits_that_grow(failure: str) -> None:
    def answer() -> tuple[Snapshot, str]:
        if failure == "raises":
            raise OSError("connection refused")
        snapshot = pool(100) if failure == "one list less" else Snapshot()
        snapshot.evaluations = None
        return snapshot, "OSError: connection refused"

    async with rig() as r:
        r.lists.answer = answer
        await r.open()
        await asyncio.sleep(300)
        waits = [round(later - earlier) for earlier, later in pairwise(r.lists.asked)]
        assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
        assert not r.controller.synced
        assert r.notes.notes.count(("lists-not-read", "OSError: connection refused")) == len(r.lists.asked)

        r.lists.answer = lambda: (pool(100), "")
        await asyncio.sleep(61)

        assert r.controller.synced


@in_virtual_time
async def test_without_the_list_of_nodes_the_others_are_enough_and_it_is_said() -> None:
    async with rig() as r:
        snapshot = pool(100)
        snapshot.nodes = None
        r.lists.answer = lambda: (snapshot, "nodes: 403")

        await r.open()

        assert r.controller.synced
        assert ("lists-incomplete", "nodes: 403") in r.notes.notes


@in_virtual_time
async def test_more_lines_than_can_be_kept_have_the_stream_taken_up_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_module, "_MAX_KEPT_FRAMES", 5)
    async with rig() as r:
        r.lists.slow = True
        await r.open()
        for number in range(5):
            r.say(index=200 + number)
        await at_once()
        assert r.stream_restarts == 0

        r.say(index=205)
        await at_once()

        assert r.stream_restarts == 1
        assert r.notes.count("too-many-frames") == 1


@in_virtual_time
async def test_lists_are_not_believed_after_lines_had_to_be_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_module, "_MAX_KEPT_FRAMES", 5)
    async with rig() as r:
        r.lists.slow = True
        await r.open()
        for number in range(6):
            r.lose(number % 3, index=200 + number)
        await at_once()

        # The stream takes a moment to end; the lists were read before the lines that are lost.
        r.lists.answer_now()
        await at_once()

        assert not r.controller.synced


# --- actions -------------------------------------------------------------------------------------


@in_virtual_time
async def test_what_is_due_is_done_when_it_is_due() -> None:
    async with rig() as r:
        await r.open()
        r.lose(0, index=200)
        heard = now()
        await asyncio.sleep(60)

        # Ten seconds until the runner is lost. Until the pool has been short for long enough it takes ten more.
        ((created_at, _),) = r.actions.of("create-runner")
        ((removed_at, _),) = r.actions.of("remove-job")
        assert removed_at - heard == pytest.approx(10, abs=1e-3)
        assert created_at - heard == pytest.approx(20, abs=1e-3)
        assert r.notes.outcomes == [("remove-job", "done"), ("create-runner", "done")]


@in_virtual_time
async def test_a_clock_that_goes_faster_than_the_loops_is_not_waited_for_longer() -> None:
    async with rig(speed=10.0) as r:
        await r.open()
        r.lose(0, index=200)
        heard = now()
        # The test's own lines carry the loop's time, which is the faster clock's past.
        await asyncio.sleep(10)

        ((removed_at, _),) = r.actions.of("remove-job")
        assert removed_at - heard == pytest.approx(1, abs=1e-2)


@in_virtual_time
async def test_a_world_that_is_not_as_believed_is_read_anew() -> None:
    async with rig() as r:
        await r.open()
        r.actions.answer = lambda _: ActionOutcome("not-wanted", "it runs")
        r.lists.slow = True
        r.lose(0, index=200)

        await asyncio.sleep(10.5)

        assert r.notes.outcomes == [("remove-job", "not-wanted")]
        assert not r.controller.synced
        assert len(r.lists.asked) == 2
        assert ("reading-lists", f"remove-job {runner(0)} was not confirmed: it runs") in r.notes.notes

        await asyncio.sleep(100)
        assert len(r.actions.begun) == 1


@in_virtual_time
async def test_what_fails_is_tried_again_after_waits_that_grow_and_a_success_ends_them() -> None:
    async with rig() as r:
        await r.open()
        r.actions.answer = lambda _: ActionOutcome("not-done", "no leader")
        r.lose(0, index=200)
        await asyncio.sleep(45)
        begun = [at for at, _ in r.actions.of("remove-job")]
        waits = [round(later - earlier) for earlier, later in pairwise(begun)]
        assert waits == [2, 4, 8, 16]
        assert f"remove-job {runner(0)}: no leader" in {hold.reason for hold in r.core.holds(now())}

        r.actions.answer = lambda _: DONE
        await asyncio.sleep(200)

        assert len(r.actions.of("remove-job")) == 6
        assert r.core.holds(now()) == []


@in_virtual_time
async def test_a_creation_of_which_nobody_knows_is_asked_for_again_under_its_name() -> None:
    async with rig() as r:
        await r.open()
        answers = [ActionOutcome("unknown", "timeout")]
        r.actions.answer = lambda action: answers.pop() if action.kind == "create-runner" and answers else DONE
        r.lose(0, index=200)

        await asyncio.sleep(60)

        (first_at, first), (second_at, second) = r.actions.of("create-runner")
        assert first == second
        assert second_at - first_at == pytest.approx(2, abs=1e-3)


@in_virtual_time
async def test_an_action_that_raises_may_have_been_done_and_harms_no_other() -> None:
    def answer(action: Action) -> ActionOutcome:
        if action.kind == "create-runner" and ("create-runner", "unknown") not in r.notes.outcomes:
            raise RuntimeError("a fault of ours")
        return DONE

    async with rig() as r:
        await r.open()
        r.actions.answer = answer
        r.lose(0, index=200)

        await asyncio.sleep(60)

        assert r.notes.outcomes == [("remove-job", "done"), ("create-runner", "unknown"), ("create-runner", "done")]
        assert len({job_id for _, job_id in r.actions.of("create-runner")}) == 1


@in_virtual_time
async def test_no_more_than_eight_actions_are_under_way_at_once() -> None:
    async with rig(Policy(pace=PacePolicy(max_creates_per_second=1000))) as r:
        r.lists.answer = lambda: (pool(100, 0, 20, nodes=10), "")
        r.actions.takes_s = 1.0
        await r.open()

        await asyncio.sleep(60)

        assert r.actions.most_at_once == 8
        assert len(r.actions.of("create-runner")) == 20


@pytest.mark.parametrize("speed", [1.0, 10.0])
@in_virtual_time
async def test_what_has_waited_for_slow_servers_is_not_created_in_one_burst(speed: float) -> None:
    async with rig(Policy(pace=PacePolicy(max_creates_per_second=2, max_starting_per_node=50)), speed=speed) as r:
        r.lists.answer = lambda: (pool(100, 0, 30), "")
        answered_at = r.actions.until = now() + 60
        await r.open()
        await asyncio.sleep(120)

        times = [(at - answered_at) * speed for at, _ in r.actions.begun]
        assert len(times) == 30
        assert sum(at < 0 for at in times) == 8
        for first in range(8, 30):
            assert sum(times[first] <= at < times[first] + 5 for at in times) <= 5 * 2 + 2


@pytest.mark.parametrize(("read_at", "times"), [(899, 1), (900, 2)])
@in_virtual_time
async def test_a_creation_is_believed_until_a_list_that_is_as_new_does_not_have_it(read_at: int, times: int) -> None:
    async with rig() as r:
        r.lists.answer = lambda: (pool(100, 2, 3), "")
        await r.open()
        await asyncio.sleep(15)
        assert len(r.actions.of("create-runner")) == 1

        r.lists.answer = lambda: (pool(read_at, 2, 3), "")
        r.controller.put(StreamDoubt("a gap", now()))
        await asyncio.sleep(60)

        assert len(r.actions.of("create-runner")) == times
        assert len({job_id for _, job_id in r.actions.of("create-runner")}) == 1


# --- the end -------------------------------------------------------------------------------------


@in_virtual_time
async def test_an_orderly_end_waits_for_what_is_under_way_and_begins_nothing_more() -> None:
    async with rig(Policy(pace=PacePolicy(max_creates_per_second=1000))) as r:
        r.lists.answer = lambda: (pool(100, 0, 20, nodes=10), "")
        r.actions.takes_s = 5.0
        await r.open()
        await asyncio.sleep(11)
        assert len(r.actions.begun) == 8

        assert await r.controller.drain(8.0) == 0
        await asyncio.sleep(100)

        assert (len(r.actions.begun), r.actions.ended) == (8, 8)
        assert len(r.notes.outcomes) == 8


@in_virtual_time
async def test_while_it_ends_it_takes_in_what_happens_and_tells_of_no_decision() -> None:
    async with rig(Policy(pool=PoolPolicy(lost_grace_s=0.0, settle_s=0.0))) as r:
        r.actions.takes_s = 5.0
        await r.open()
        r.lose(0, index=200)
        await at_once()
        begun = len(r.actions.begun)
        assert begun

        end = asyncio.create_task(r.controller.drain(8.0))
        await at_once()
        r.lose(1, index=210)
        await end

        assert r.verdicts()[runner(1)] == "lost"
        assert sum(len(step.actions) for step in r.notes.steps) == len(r.actions.begun) == begun


@in_virtual_time
async def test_an_orderly_end_does_not_wait_for_what_waits() -> None:
    async with rig(Policy(pace=PacePolicy(max_creates_per_second=0.1))) as r:
        r.lists.answer = lambda: (pool(100, 0, 6), "")
        await r.open()
        await asyncio.sleep(25)
        begun, began = len(r.actions.begun), now()

        assert await r.controller.drain(8.0) == 0
        await asyncio.sleep(100)

        assert len(r.actions.begun) == begun
        assert now() - began == pytest.approx(100)


@in_virtual_time
async def test_an_orderly_end_says_how_much_did_not_end_in_time() -> None:
    async with rig() as r:
        r.actions.takes_s = 60.0
        await r.open()
        r.lose(0, index=200)
        await asyncio.sleep(11)
        began = now()

        assert await r.controller.drain(8.0) == 1
        assert now() - began == pytest.approx(8, abs=1e-3)


@in_virtual_time
async def test_with_nothing_under_way_an_orderly_end_takes_no_time() -> None:
    async with rig() as r:
        await r.open()
        began = now()

        assert await r.controller.drain(8.0) == 0
        assert now() == began


@in_virtual_time
async def test_a_loop_that_is_cancelled_gives_up_what_is_under_way() -> None:
    async with rig() as r:
        r.actions.takes_s = 60.0
        await r.open()
        r.lose(0, index=200)
        await asyncio.sleep(11)
        r.lists.slow = True
        r.controller.put(StreamDoubt("a gap", now()))
        await at_once()

    assert r.actions.given_up == 1


@in_virtual_time
async def test_a_loop_that_turns_answers_whoever_asks_before_the_lists_and_after() -> None:
    async with rig() as r:
        for _ in range(2):
            answered = asyncio.Event()
            r.controller.put(Ping(answered.set))
            await asyncio.wait_for(answered.wait(), 1)
            await r.open()
        assert r.controller.synced


@in_virtual_time
async def test_what_waits_for_its_turn_while_the_policy_changes_is_decided_on_by_the_new_one() -> None:
    async with rig(Policy(pace=PacePolicy(max_creates_per_second=50, max_starting_per_node=50))) as r:
        r.lists.answer = lambda: (pool(100, runners=0, target=12), "")
        r.actions.takes_s = 10
        await r.open()
        await asyncio.sleep(15)
        assert len(r.actions.begun) == 8

        r.controller.put(PolicyChanged(Policy(pool=PoolPolicy(pause="leave everything"))))
        await asyncio.sleep(600)
        assert len(r.actions.begun) == 8
        r.controller.put(PolicyChanged(Policy()))
        await asyncio.sleep(600)

        assert len({action.job_id for _, action in r.actions.begun}) == 12


@in_virtual_time
async def test_an_action_of_the_policy_before_is_not_begun_under_the_next() -> None:
    async with rig(Policy(pace=PacePolicy(max_creates_per_second=50, max_starting_per_node=50))) as r:
        r.lists.answer = lambda: (pool(100, runners=0, target=12), "")
        r.actions.takes_s = 10
        await r.open()
        await asyncio.sleep(15)

        r.controller.put(PolicyChanged(Policy(pool=PoolPolicy(settle_s=3600))))
        await asyncio.sleep(60)
        assert len(r.actions.begun) == 8
        assert r.notes.outcomes.count(("create-runner", "withdrawn")) == 4
        await asyncio.sleep(3600)

        assert len({action.job_id for _, action in r.actions.begun}) == 12


@in_virtual_time
async def test_what_was_not_begun_because_of_another_policy_is_decided_on_anew_at_once() -> None:
    pace = PacePolicy(max_creates_per_second=50, max_starting_per_node=50)
    async with rig(Policy(pace=pace)) as r:
        r.lists.answer = lambda: (pool(100, runners=0, target=40), "")
        r.actions.takes_s = 10
        await r.open()
        await asyncio.sleep(15)

        r.controller.put(PolicyChanged(Policy(pace=pace, pool=PoolPolicy(surge=1))))
        await asyncio.sleep(50)

        assert len({action.job_id for _, action in r.actions.begun}) == 40
        assert len(r.actions.begun) == 40


@in_virtual_time
async def test_a_pause_that_is_lifted_leaves_no_wait_behind() -> None:
    pace = PacePolicy(max_creates_per_second=50, max_starting_per_node=50)
    async with rig(Policy(pace=pace)) as r:
        r.lists.answer = lambda: (pool(100, runners=0, target=40), "")
        r.actions.takes_s = 10
        await r.open()
        await asyncio.sleep(15)

        r.controller.put(Pause(None, "a look at it", now()))
        await asyncio.sleep(20)
        assert len(r.actions.begun) == 8
        r.controller.put(Resumed(None))
        await asyncio.sleep(50)

        assert len({action.job_id for _, action in r.actions.begun}) == 40


async def test_each_turn_is_told_of_and_so_is_what_waits() -> None:
    async with rig() as r:
        turns: list[float] = []
        r.controller.on_turn = turns.append
        await r.open()
        before = len(turns)
        r.say(job(runner(0), index=200, created=20), index=200)
        assert r.controller.inputs_waiting == 1
        await at_once()

        assert r.controller.inputs_waiting == 0
        assert len(turns) > before > 0
        assert all(took_s >= 0 for took_s in turns)


@pytest.mark.parametrize(("paused", "may"), [(None, False), ("10", False), ("11", True)])
@in_virtual_time
async def test_nothing_of_what_is_under_way_is_written_once_its_environment_is_paused(
    paused: str | None, may: bool
) -> None:
    async with rig() as r:
        r.actions.takes_s = 600.0
        await r.open()
        r.lose(0, index=200)
        await asyncio.sleep(11)
        assert r.actions.may_write()
        r.controller.put(Pause(paused, "exam", now(), now() + 60))
        await at_once()
        assert r.actions.may_write() is may
        await asyncio.sleep(61)
        assert r.actions.may_write()


@in_virtual_time
async def test_nothing_of_what_is_under_way_is_written_after_another_stream_was_opened() -> None:
    async with rig() as r:
        r.lists.answer = lambda: (pool(100, target=4), "")
        r.actions.takes_s = 600.0
        await r.open()
        await asyncio.sleep(11)

        r.controller.put(StreamDoubt("a gap", now()))
        assert r.controller.synced
        await at_once()
        assert r.actions.may_write()
        r.controller.put(StreamClosed("cut", now()))
        await at_once()
        assert not r.actions.may_write()
        await r.open()

        assert r.controller.synced
        assert not r.actions.may_write()


@in_virtual_time
async def test_what_waits_while_another_stream_is_opened_is_decided_on_anew() -> None:
    async with rig(Policy(pace=PacePolicy(max_creates_per_second=50, max_starting_per_node=50))) as r:
        r.lists.answer = lambda: (pool(100, runners=0, target=12), "")
        r.actions.takes_s = 10
        await r.open()
        await asyncio.sleep(15)
        assert len(r.actions.begun) == 8

        r.controller.put(StreamClosed("cut", now()))
        await r.open()
        await asyncio.sleep(60)

        assert r.notes.outcomes.count(("create-runner", "withdrawn")) == 4
        assert len({action.job_id for _, action in r.actions.begun}) == 12


@in_virtual_time
async def test_what_the_lists_alone_call_for_is_not_begun_where_the_lines_after_them_say_otherwise() -> None:
    async with rig() as r:
        r.lists.answer = lambda: (pool(100, runners=2, target=3), "")
        await r.open()
        await asyncio.sleep(9)
        r.lists.slow = True
        r.controller.put(StreamDoubt("a gap", now()))
        r.say(job(runner(7), index=200), allocation("a7", runner(7), index=200, node=node_id(1)), index=200)
        await asyncio.sleep(9)

        r.lists.answer_now()
        await asyncio.sleep(60)

        assert r.actions.begun == []


@in_virtual_time
async def test_nothing_is_created_any_more_once_others_have_filled_the_pool() -> None:
    async with rig() as r:
        r.lists.answer = lambda: (pool(100, runners=2, target=3), "")
        r.actions.takes_s = 600.0
        await r.open()
        await asyncio.sleep(11)
        assert r.actions.may_write()

        r.say(job(runner(7), index=200), allocation("a7", runner(7), index=200, node=node_id(1)), index=200)
        await at_once()

        assert not r.actions.may_write()


@in_virtual_time
async def test_whoever_looks_on_is_told_of_nodes_and_storms_although_no_job_is_concerned() -> None:
    async with rig() as r:
        r.lists.answer = lambda: (pool(100, 0), "")
        await r.open()
        r.notes.steps.clear()
        r.say(node(node_id(2), "down", index=300), index=300)
        await asyncio.sleep(60)

        told = [(step.nodes[0].status if step.nodes else None, step.storm is not None) for step in r.notes.steps]
        assert told == [("down", True), (None, True)]
