"""The journal's lines: canonical, the same for the same input, and with a digest that stands for all verdicts."""

from __future__ import annotations

from poseidon_reconciler.core.journal import Journal
from tests.core.builders import Bench, allocation, job, purge, runner


def digest_of(bench: Bench) -> str:
    """The digest after all that a bench has gone through."""
    journal = Journal()
    for step in bench.steps:
        journal.line(step)
    return journal.digest


def test_the_digest_of_a_new_epoch_knows_nothing_of_the_old_one() -> None:
    bench, fresh = Bench(), Bench()
    bench.feed(job(runner(1), index=100))
    bench.core.connection_opened()
    for each in (bench, fresh):
        each.read(9, Jobs=[job(runner(2), index=8)], Allocations=[allocation("b", runner(2), index=9)])
    assert bench.core.snapshots.epoch == 1
    assert bench.core.diagnosis.verdicts == fresh.core.diagnosis.verdicts

    assert digest_of(bench) == digest_of(fresh)


def test_the_digest_knows_nothing_of_a_job_that_is_forgotten() -> None:
    bench = Bench()
    bench.feed(job(runner(1), index=100))
    purge(bench, runner(1), index=101)
    bench.feed(job("not-ours", index=200), after_s=2 * bench.core.model.retention_s)
    assert bench.core.diagnosis.verdicts == {}

    assert digest_of(bench) == Journal().digest
