"""How long pools are short: summed over time, and until they are full of idle runners again."""

from __future__ import annotations

import pytest

from poseidon_reconciler.observe.telemetry.shortage import Shortages
from tests.core.builders import Bench, allocation, bench_with_pool, job, lose, node_id, purge, runner

LOST_AFTER_S = 10


class Account:
    """The shortages of a pool of three, looked at whenever somebody asks."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.refills: list[float] = []
        self.shortages = Shortages(self.refills.append)
        self.look()

    def look(self) -> None:
        self.shortages.look_at_all(self.bench.core, self.bench.now)

    @property
    def lacked(self) -> float:
        self.look()
        return self.shortages.pools["10"].lacked(self.bench.now)


@pytest.fixture
def account() -> Account:
    return Account(bench_with_pool(3))


def test_the_deficit_is_summed_over_time(account: Account) -> None:
    for number in (0, 1):
        lose(account.bench, number, index=500 + number)
    account.bench.wait(LOST_AFTER_S)
    assert account.lacked == 0

    account.bench.wait(4)
    assert account.lacked == 2 * 4
    assert account.lacked == 2 * 4, "looking again changes nothing"


def test_a_shortage_ends_when_the_pool_is_full_not_when_runners_are_ordered(account: Account) -> None:
    bench = account.bench
    lose(bench, 0, index=500)
    bench.wait(LOST_AFTER_S)
    account.look()
    bench.wait(15)
    (created,) = [action.job_id for action in bench.actions if action.kind == "create-runner"]
    account.look()
    assert bench.core.planner.deficit("10") == 0
    assert account.refills == []
    assert account.shortages.pools["10"].age_s(bench.now) == 15

    bench.wait(5)
    bench.feed(job(created, index=901), allocation("n", created, index=901, node=node_id(1)))
    account.look()
    account.look()
    assert account.refills == [20]
    assert account.shortages.pools["10"].age_s(bench.now) == 0


def test_a_pool_that_is_no_more_is_forgotten(account: Account) -> None:
    for job_id in ("template-10", *(runner(number) for number in range(3))):
        purge(account.bench, job_id, index=700)
    account.bench.wait(4000)
    account.bench.feed(job("template-11", index=800, target=0))
    account.look()
    assert set(account.shortages.pools) == {"11"}
