"""The promises, held against a cluster that knows the truth while its reconciler hears late, twice or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.core.builders import TEMPLATE, pool_policy
from tests.core.histories import TARGET, Move, examples, moves
from tests.core.loop import WAYS, Loop

WORLD = (
    "nothing", "report", "claim", "lose-node", "return-node", "fail", "finish", "restart", "collect-ended",
)  # fmt: skip
OFTEN = ("act", "act", "act", "report-all", "report-all")
# A copy that only an agent out of reach has is not to be relied on, and may come back all the same.
ROUGH = (*WORLD, "disconnect-node")
DISTURBED = (*WAYS, *OFTEN)
# Nothing is held back on its way and every answer arrives: what is known is true.
CLEAR = ("crash", "repeat", "write-failed", *OFTEN)
PAUSES_S = (0.5, 3.0, 12.0, 60.0)


def play(policy: str, played: list[Move], **settings: object) -> Loop:
    loop = Loop(pool_policy(disconnect_policy=policy, **settings))
    for move in played:
        loop.play(move)
    return loop


@examples(150)
@given(played=moves((*WORLD, "purge", *DISTURBED), PAUSES_S))
def test_no_loss_is_replaced_twice_and_no_pool_filled_beyond_its_target(played: list[Move]) -> None:
    assert play("at-least", played).broken == []


@examples(100)
@given(played=moves((*WORLD, "purge", *DISTURBED), PAUSES_S))
def test_no_more_than_the_surge_is_added_to_the_target(played: list[Move]) -> None:
    assert play("at-least", played, surge=1).broken == []


@examples(150)
@given(played=moves((*ROUGH, "purge", *DISTURBED), PAUSES_S))
def test_no_exactly_pool_has_a_replacement_while_the_old_copy_can_still_run(played: list[Move]) -> None:
    assert play("exactly", played).broken == []


@examples(100)
@given(played=moves((*ROUGH, "purge", *DISTURBED), PAUSES_S))
def test_nothing_is_added_to_what_is_left_alone(played: list[Move]) -> None:
    assert play("leave-alone", played).broken == []


@pytest.mark.parametrize("policy", ["at-least", "exactly", "leave-alone"])
@examples(150)
@given(played=moves((*ROUGH, "purge", *CLEAR), PAUSES_S))
def test_what_a_fresh_view_decides_is_true(policy: str, played: list[Move]) -> None:
    assert play(policy, played).refused == []


@pytest.mark.parametrize("policy", ["at-least", "exactly", "leave-alone"])
@examples(40)
@given(played=moves((*ROUGH, *DISTURBED), PAUSES_S))
def test_once_faults_stop_the_pool_is_back_at_its_target_and_nothing_more_happens(
    policy: str, played: list[Move]
) -> None:
    loop = play(policy, played)
    loop.rest(1500.0)
    said = len(loop.cluster.sent)

    loop.rest(300.0)

    cluster = loop.cluster
    runners = [job_id for job_id in cluster.jobs if job_id != TEMPLATE and not cluster.is_used(job_id)]
    alive = [job_id for job_id in runners if cluster.placed(job_id)]
    assert len(alive) == len(runners)
    assert len(alive) >= TARGET if policy == "at-least" else len(alive) == TARGET
    assert cluster.placed(TEMPLATE)
    assert len(cluster.sent) == said
