"""What must hold through any history that a real cluster could have: nothing here knows how a verdict is found."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poseidon_reconciler.core.diagnosis import Verdict
from poseidon_reconciler.core.journal import Journal
from poseidon_reconciler.core.ledger import Action
from poseidon_reconciler.core.reconciler import Reconciler, Step
from poseidon_reconciler.policy import Policy
from tests.core.builders import event, frame_of, pool_policy
from tests.core.histories import Input, Move, Recorder, examples, hear, moves, record, settle, wait
from tests.core.recount import recounted, stored

POLICIES = {name: pool_policy(disconnect_policy=name) for name in ("at-least", "exactly", "leave-alone")}
# Shorter in all than gone jobs are remembered: what is forgotten can be taken for new.
SHORT_S = (0.5, 3.0, 12.0, 40.0)
policies = st.sampled_from(list(POLICIES.values()))
seeds = st.integers(0, 2**32)


class Run:
    """One reconciler that has heard a history, and then let time pass."""

    def __init__(self, inputs: list[Input], policy: Policy) -> None:
        self.core = Reconciler(policy)
        self.steps: list[Step] = []
        for heard in inputs:
            self.steps += wait(self.core, heard.at)
            self.steps.append(hear(self.core, heard))
        self.steps += settle(self.core)

    @property
    def actions(self) -> list[Action]:
        return [action for step in self.steps for action in step.actions]

    @property
    def verdicts(self) -> dict[str, Verdict]:
        return self.core.diagnosis.verdicts

    @property
    def states(self) -> dict[str, tuple[str, str | None]]:
        """What the jobs that exist are, and why. Who ended the others, only the event of it can tell."""
        return {
            job_id: (verdict.state, verdict.cause)
            for job_id, verdict in self.verdicts.items()
            if verdict.state != "gone" and self.core.model.jobs[job_id].gone is None
        }

    def journal(self) -> bytes:
        journal = Journal()
        return b"\n".join(line for step in self.steps if (line := journal.line(step)) is not None)


def frames(inputs: list[Input]) -> list[Input]:
    """The lines of the stream among the inputs."""
    return [heard for heard in inputs if heard.line.snapshot is None]


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@examples(150)
@given(played=moves())
def test_whatever_is_kept_up_to_date_equals_a_recount_after_every_step(policy: Policy, played: list[Move]) -> None:
    core = Reconciler(policy)
    for heard in record(played).inputs:
        for due in iter(core.next_due, None):
            if due >= heard.at:
                break
            core.advance(due)
            assert stored(core) == recounted(core)
        hear(core, heard)
        assert stored(core) == recounted(core)


@examples(200)
@given(played=moves(pauses_s=SHORT_S), policy=policies, seed=seeds)
def test_whatever_is_heard_twice_at_once_or_later_changes_nothing(
    played: list[Move], policy: Policy, seed: int
) -> None:
    inputs = record(played).inputs
    chance = Random(seed)
    repeating: list[Input] = []
    for number, heard in enumerate(inputs):
        repeating.append(heard)
        if chance.random() < 0.2:
            repeating.append(heard)
        if chance.random() < 0.1:
            earlier = frames(inputs[: number + 1])
            first = chance.randrange(len(earlier))
            repeating += [line._replace(at=heard.at) for line in earlier[first : first + 8]]

    once, often = Run(inputs, policy), Run(repeating, policy)

    assert often.verdicts == once.verdicts
    assert often.actions == once.actions


@examples(200)
@given(played=moves(pauses_s=SHORT_S), policy=policies, seed=seeds)
def test_whatever_was_missed_lists_that_are_read_later_make_good(played: list[Move], policy: Policy, seed: int) -> None:
    recorder = record(played)
    recorder.read_all()
    chance = Random(seed)
    lines = frames(recorder.inputs)
    first = chance.randrange(len(lines))
    missed = set(lines[first : first + chance.choice([1, 1, 2, 5])])

    complete = Run(recorder.inputs, policy)
    gappy = Run([heard for heard in recorder.inputs if heard not in missed], policy)

    assert gappy.states == complete.states


# Without shrinking, which takes long, until it passes.
@examples(200)
@given(played=moves(pauses_s=SHORT_S), policy=policies)
def test_one_that_was_started_just_now_judges_like_one_that_has_heard_everything(
    played: list[Move], policy: Policy
) -> None:
    recorder = record(played)
    recorder.read_all()

    assert Run(recorder.inputs[-1:], policy).states == Run(recorder.inputs, policy).states


@examples(100)
@given(played=moves(pauses_s=SHORT_S), policy=policies)
def test_the_same_lines_give_the_same_journal_to_the_last_byte(played: list[Move], policy: Policy) -> None:
    inputs = record(played).inputs

    assert Run(inputs, policy).journal() == Run(inputs, policy).journal()


@examples(100)
@given(played=moves(pauses_s=SHORT_S), policy=policies, statuses=st.lists(st.sampled_from(["running", "complete"])))
def test_late_words_of_an_allocation_that_has_a_successor_change_nothing(
    played: list[Move], policy: Policy, statuses: list[str]
) -> None:
    recorder = Recorder()
    for move in played:
        recorder.play(move)
    cluster = recorder.cluster
    run = Run(recorder.inputs, policy)
    before = dict(run.verdicts)
    for wire in list(cluster.allocations.values()):
        if "NextAllocation" in wire and wire["DesiredStatus"] == "stop":
            for status in statuses:
                cluster.advance()
                told = event({**wire, "ClientStatus": status, "ModifyIndex": cluster.index})
                step = run.core.feed_frame(frame_of(cluster.index, [told]), run.core.now)
                assert (step.changes, step.actions) == ([], [])

    assert run.verdicts == before
