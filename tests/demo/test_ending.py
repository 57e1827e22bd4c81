"""When a demo is over."""

from __future__ import annotations

import pytest

from poseidon_reconciler.app.demo.ending import Ending
from poseidon_reconciler.app.demo.truth import Truth
from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.listening import listen
from poseidon_reconciler.twin.poseidon_jobs import runner_job
from tests.demo.clusters import empty, fill, key


class Story:
    """A cluster whose failure does its last step 10 s after its pool is full."""

    def __init__(self, *, repaired: bool) -> None:
        self.cluster: Cluster = empty()
        truth = Truth(self.cluster)
        listen(self.cluster, truth.take)
        fill(self.cluster)
        self.began_at = self.cluster.now
        self.ending = Ending(self.cluster, truth, lambda: self.began_at + 10.0, repaired=repaired, limit_s=100.0)
        self.cluster.jobs.deregister(key("10-0"))

    def is_over_at(self, at_s: float, *, under_way: bool = False) -> bool:
        self.cluster.advance(self.began_at + at_s)
        return self.ending.is_over(under_way=under_way)

    def repair_at(self, at_s: float) -> None:
        self.cluster.advance(self.began_at + at_s)
        self.cluster.jobs.register(runner_job("10-new"))


@pytest.mark.parametrize("repaired", [True, False])
def test_pools_that_are_back_and_stay_so(repaired: bool) -> None:
    story = Story(repaired=repaired)
    story.repair_at(20.0)
    assert not story.is_over_at(30.0)
    assert story.is_over_at(36.0)
    assert story.ending.full_after(story.began_at) == pytest.approx(20.5, abs=0.5)


def test_pools_that_are_back_before_the_last_step_may_fail_again() -> None:
    story = Story(repaired=True)
    story.repair_at(2.0)
    assert not story.is_over_at(24.0)
    assert story.is_over_at(25.5)


def test_what_is_under_way_is_waited_for() -> None:
    story = Story(repaired=True)
    story.repair_at(20.0)
    assert not story.is_over_at(50.0, under_way=True)
    assert story.is_over_at(51.0)


def test_a_pool_that_falls_short_again_is_not_back() -> None:
    story = Story(repaired=True)
    story.repair_at(20.0)
    story.cluster.advance(story.began_at + 25.0)
    story.cluster.jobs.deregister(key("10-1"))
    assert not story.is_over_at(60.0)
    assert story.ending.full_after(story.began_at) is None


def test_where_nobody_repairs_silence_is_the_end() -> None:
    assert not Story(repaired=False).is_over_at(49.0)
    assert Story(repaired=False).is_over_at(51.0)
    assert not Story(repaired=True).is_over_at(51.0)


def test_whatever_happens_it_ends() -> None:
    assert not Story(repaired=True).is_over_at(109.0, under_way=True)
    assert Story(repaired=True).is_over_at(110.0, under_way=True)
