"""What a dry run would have done is counted once, and ends as the cluster shows."""

from __future__ import annotations

from typing import Any

import pytest

from poseidon_reconciler.core.ledger import ActionOutcome
from poseidon_reconciler.core.reconciler import Step
from poseidon_reconciler.core.shadow import Shadow, ShadowScore
from poseidon_reconciler.policy import Policy
from tests.core.builders import (
    TEMPLATE,
    allocation,
    bench_with_pool,
    end_template,
    evaluation,
    event,
    haunted,
    job,
    lose,
    node_id,
    purge,
    runner,
)


class Dry:
    """A pool in a dry run: whatever is decided is looked at, and not done."""

    def __init__(self, runners: int = 3, policy: Policy | None = None) -> None:
        self.bench = bench_with_pool(runners, policy=policy)
        self.core = self.bench.core
        self.core.planner.desk.imagines = True
        self.shadow = Shadow(self.core)
        keep = self.bench._keep

        def keep_and_tell(step: Step) -> Step:
            self.shadow.stepped(step)
            for action in step.actions:
                self.core.planner.take_outcome(action, ActionOutcome("done", ""), self.core.now)
            return keep(step)

        self.bench._keep = keep_and_tell  # type: ignore[method-assign]

    def score(self, kind: str) -> ShadowScore:
        (score,) = [score for score in self.shadow.scores() if score.kind == kind]
        return score

    def ended(self, kind: str) -> dict[str, int]:
        """What became of the actions of a kind, without zeros."""
        score = self.score(kind)
        numbers = {name: getattr(score, name) for name in ("by_others", "by_nomad", "too_late", "obsolete", "open")}
        assert sum(numbers.values()) == score.would
        return {name: number for name, number in numbers.items() if number}

    def resync(self, index: int, runners: int) -> None:
        """A list of all jobs, which has none of those that would have been created."""
        known = self.core.model.jobs.values()
        jobs = [
            job(j.id, j.status, index=j.modify_index, created=j.create_index, target=j.target)
            for j in known
            if j.gone is None
        ]
        assert len(jobs) == runners + 1
        self.bench.read(index, Jobs=jobs)


@pytest.fixture
def dry() -> Dry:
    return Dry()


def test_nothing_to_do_is_no_score(dry: Dry) -> None:
    assert dry.shadow.scores() == []


# --- protect-job -----------------------------------------------------------------------------------------------------


def endanger(dry: Dry, index: int = 300) -> None:
    dry.bench.feed(haunted(dry.bench, runner(0), index=index, node=node_id(2)))
    assert dry.ended("protect-job") == {"open": 1}


def dead(index: int) -> tuple[dict[str, Any], dict[str, Any]]:
    stopped = allocation("a0", runner(0), "complete", "stop", index=index, created=201, node=node_id(1))
    return stopped, job(runner(0), "dead", index=index, created=200)


def test_a_job_that_dies_was_not_protected_in_time(dry: Dry) -> None:
    endanger(dry)
    # The healthy allocation is ordered to stop first, which is no end of the risk.
    dry.bench.feed(allocation("a0", runner(0), "running", "stop", index=305, created=201, node=node_id(1)))
    assert dry.ended("protect-job") == {"open": 1}
    dry.bench.feed(*dead(310))
    assert dry.ended("protect-job") == {"open": 1}
    dry.bench.wait(15)
    assert dry.ended("protect-job") == {"too_late": 1}


def test_a_dead_job_that_is_purged_at_once_was_not_protected_in_time(dry: Dry) -> None:
    endanger(dry)
    dry.bench.feed(*dead(310))
    purge(dry.bench, runner(0), index=311)
    assert dry.ended("protect-job") == {"too_late": 1}


def test_a_new_version_is_somebodys_protection(dry: Dry) -> None:
    endanger(dry)
    version = job(runner(0), index=320, created=200, registered=320, version=1, used=True)
    dry.bench.feed(version, after_s=7)
    assert dry.ended("protect-job") == {"by_others": 1}
    assert dry.score("protect-job").after_s == 7


def test_an_allocation_that_gets_a_successor_is_no_risk_any_more(dry: Dry) -> None:
    endanger(dry)
    linked = haunted(dry.bench, runner(0), index=320, node=node_id(2)) | {"NextAllocation": "a0"}
    dry.bench.feed(linked)
    assert dry.ended("protect-job") == {"by_nomad": 1}
    assert dry.score("protect-job").after_s is None


def test_what_somebody_purges_alive_needs_no_protection(dry: Dry) -> None:
    endanger(dry)
    purge(dry.bench, runner(0), index=320)
    assert dry.ended("protect-job") == {"obsolete": 1}


def test_what_is_not_confirmed_would_not_have_been_done(dry: Dry) -> None:
    endanger(dry)
    (action,) = dry.bench.actions
    dry.shadow.acted(action, ActionOutcome("unknown", "no answer"))
    assert dry.ended("protect-job") == {"open": 1}
    dry.shadow.acted(action, ActionOutcome("not-wanted", "it is dead already"))
    assert dry.ended("protect-job") == {"obsolete": 1}


# --- create-runner ---------------------------------------------------------------------------------------------------


def fresh(number: int, index: int) -> tuple[dict[str, Any], dict[str, Any]]:
    name = runner(number)
    return job(name, index=index), allocation(f"a{number}", name, index=index + 1, created=index, node=node_id(1))


def test_a_runner_that_somebody_adds_is_the_one_that_was_lacking(dry: Dry) -> None:
    lose(dry.bench, 0, index=310)
    dry.bench.wait(30)
    (decided_at,) = [action.at for action in dry.bench.actions if action.kind == "create-runner"]
    assert dry.ended("create-runner") == {"open": 1}

    dry.bench.wait(270)
    dry.bench.feed(*fresh(7, 400))

    assert dry.ended("create-runner") == {"by_others": 1}
    assert dry.score("create-runner").after_s == dry.bench.now - decided_at > 250


def test_the_same_lack_is_counted_once_however_often_it_is_decided_on(dry: Dry) -> None:
    lose(dry.bench, 0, index=310)
    dry.bench.wait(30)
    for index in (400, 500):
        dry.resync(index, runners=3)
        dry.bench.wait(30)

    creations = [action for action in dry.bench.actions if action.kind == "create-runner"]
    assert len(creations) == 3
    assert (dry.score("create-runner").would, dry.score("create-runner").repeats) == (1, 2)
    lose(dry.bench, 1, index=600)
    dry.bench.wait(30)
    assert dry.ended("create-runner") == {"open": 2}


def test_all_that_is_lacking_is_decided_on_although_nothing_ever_starts() -> None:
    dry = Dry(40)
    for number in range(30):
        lose(dry.bench, number, index=1_000 + number)
    dry.bench.wait(120)
    assert dry.ended("create-runner") == {"open": 30}


def test_a_runner_that_nomad_brings_back_needs_no_replacement(dry: Dry) -> None:
    lose(dry.bench, 0, index=310)
    dry.bench.wait(30)
    dry.bench.feed(
        job(runner(0), index=330, created=200),
        allocation("a0-again", runner(0), index=330, created=330, node=node_id(2)),
    )
    assert dry.ended("create-runner") == {"by_nomad": 1}
    assert dry.ended("remove-job") == {"obsolete": 1}


def test_a_lower_target_leaves_nothing_to_create(dry: Dry) -> None:
    lose(dry.bench, 0, index=310)
    dry.bench.wait(30)
    dry.bench.feed(job(TEMPLATE, index=330, created=100, registered=330, version=1, target=2))
    assert dry.ended("create-runner") == {"obsolete": 1}


def test_a_creation_that_is_not_confirmed_is_open_no_more(dry: Dry) -> None:
    lose(dry.bench, 0, index=310)
    dry.bench.wait(30)
    (action,) = [action for action in dry.bench.actions if action.kind == "create-runner"]
    dry.shadow.acted(action, ActionOutcome("not-wanted", "what it replaces is not lost"))
    assert dry.ended("create-runner") == {"obsolete": 1}


# --- the others ------------------------------------------------------------------------------------------------------


def test_an_environment_that_somebody_registers_anew_runs_again(dry: Dry) -> None:
    end_template(dry.bench, index=310)
    dry.bench.wait(30)
    assert dry.ended("revive-environment") == {"open": 1}
    dry.bench.feed(
        job(TEMPLATE, index=330, created=100, registered=330, version=1, target=3),
        allocation("t2", TEMPLATE, index=331, created=331, node=node_id(1)),
    )
    assert dry.ended("revive-environment") == {"by_others": 1}


def test_an_environment_that_somebody_stops_is_not_to_be_revived(dry: Dry) -> None:
    end_template(dry.bench, index=310)
    dry.bench.wait(30)
    dry.bench.feed(job(TEMPLATE, "dead", index=330, created=100, target=3, Stop=True))
    assert dry.ended("revive-environment") == {"obsolete": 1}


def test_an_environment_that_was_collected_may_be_registered_by_somebody(dry: Dry) -> None:
    end_template(dry.bench, index=310)
    collected = evaluation("gc", TEMPLATE, index=320)
    dry.bench.feed(event(collected, "JobBatchDeregistered"))
    dry.bench.wait(30)
    assert dry.ended("restore-environment") == {"open": 1}
    dry.bench.feed(job(TEMPLATE, index=330, target=3))
    assert dry.ended("restore-environment") == {"by_others": 1}


@pytest.mark.parametrize(("type_", "ended"), [("JobDeregistered", "by_others"), ("JobBatchDeregistered", "by_nomad")])
def test_a_dead_job_is_removed_by_somebody_or_collected(dry: Dry, type_: str, ended: str) -> None:
    lose(dry.bench, 0, index=310)
    dry.bench.wait(60)
    assert dry.ended("remove-job") == {"open": 1}
    dry.bench.feed(event(evaluation("e", runner(0), index=400), type_))
    assert dry.ended("remove-job") == {ended: 1}


def test_another_history_of_the_cluster_ends_everything(dry: Dry) -> None:
    lose(dry.bench, 0, index=310)
    dry.bench.wait(60)
    dry.core.connection_opened()
    dry.bench.read(50, Jobs=[], Allocations=[], Evaluations=[], Nodes=[])
    assert dry.ended("create-runner") == {"obsolete": 1}
    assert dry.ended("remove-job") == {"obsolete": 1}


def test_the_middle_of_all_delays_is_told(dry: Dry) -> None:
    for number, index in ((0, 310), (1, 320), (2, 330)):
        lose(dry.bench, number, index=index)
    dry.bench.wait(60)
    decided_at = {action.job_id: action.at for action in dry.bench.actions if action.kind == "remove-job"}
    for number, wait_s in ((0, 10), (1, 10), (2, 500)):
        dry.bench.wait(wait_s)
        purge(dry.bench, runner(number), index=400 + number)

    assert dry.score("remove-job").after_s == dry.bench.now - 500 - decided_at[runner(1)]
