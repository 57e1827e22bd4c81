"""What is told, when, and how often."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from poseidon_reconciler.core.diagnosis import Change, Verdict
from poseidon_reconciler.core.holds import Hold, HoldRule
from poseidon_reconciler.core.reconciler import Step
from poseidon_reconciler.core.records import Job
from poseidon_reconciler.core.status import EnvironmentRow
from poseidon_reconciler.observe.notices import Notice, NoticeWatch

ROW = EnvironmentRow(
    state="active", cause=None, rule="active", target=3, idle=3, used=0, starting=0, recovering=0, blocked=0,
    disconnected=0, leaving=0, lost=0, deficit=0, surplus=0,
)  # fmt: skip


def held(rule: HoldRule, reason: str, environment_id: str | None = "10", *, until: float | None = None) -> Hold:
    return Hold(environment_id, rule, reason, None, until, "it is over")


STORM = held("storm", "storm: many runners or nodes were lost together", None, until=130.0)


def pool(idle: int, **numbers: Any) -> dict[str, EnvironmentRow]:
    return {"10": replace(ROW, idle=idle, **numbers)}


def loss(job: Job, *, at: float = 100.0, before: str | None = "recovering", new_epoch: bool = False) -> Step:
    def verdict(state: str) -> Verdict:
        return Verdict(state, "stuck-complete", "stuck-complete", at, None, False, False)  # type: ignore[arg-type]

    change = Change(job, verdict(before) if before else None, verdict("lost"))
    return Step(at, [change], [], [], new_epoch)


def runner(number: int = 0, *, used: bool = False, life: int = 50) -> Job:
    return Job(f"10-{number}", "runner", "10", create_index=40, job_modify_index=life, used=used)


def kinds(notices: list[Notice]) -> list[str]:
    return [notice.kind for notice in notices]


def looked(watch: NoticeWatch, idle: dict[float, int]) -> dict[float, list[str]]:
    """What each look told, by its time; nothing told is left out."""
    told = {at: kinds(watch.look(pool(number), [], at)) for at, number in idle.items()}
    return {at: each for at, each in told.items() if each}


# --- losses -----------------------------------------------------------------------------------------------------------


def test_a_loss_is_told_with_its_ids_and_cause() -> None:
    (notice,) = NoticeWatch().stepped(loss(runner()))

    assert (notice.kind, notice.subject, notice.at) == ("loss", "jobs/10-0", 100.0)
    assert notice.text == "environment 10: a runner is lost: 10-0, stuck-complete"
    assert notice.data == {
        "environment_id": "10",
        "job_id": "10-0",
        "kind": "runner",
        "used": False,
        "cause": "stuck-complete",
        "rule": "stuck-complete",
    }


def test_one_life_is_lost_once_however_often_and_by_whomever_it_is_seen() -> None:
    one, other = NoticeWatch(), NoticeWatch()
    (first,) = one.stepped(loss(runner()))
    (again,) = other.stepped(loss(runner(), at=900.0, before=None))

    assert one.stepped(loss(runner(), at=200.0)) == []
    assert first.id == again.id
    assert one.stepped(loss(runner(life=60)))[0].id != first.id


def test_what_stays_lost_is_no_loss() -> None:
    assert NoticeWatch().stepped(loss(runner(), before="lost")) == []


# --- holds ------------------------------------------------------------------------------------------------------------


def test_a_hold_is_told_once_it_has_lasted_for_a_minute_and_once_only() -> None:
    watch = NoticeWatch()
    told = {}
    for at in range(0, 300, 10):
        hold = held("enough-starting", f"{at // 10 + 1} runners short, enough are starting on the ready nodes")
        if notices := watch.look({}, [hold], float(at)):
            told[at] = notices

    assert list(told) == [60]
    (notice,) = told[60]
    assert (notice.kind, notice.subject) == ("hold", "environments/10")
    assert notice.data["held_for_s"] == 60.0


def test_a_short_hold_is_not_told_and_a_short_absence_does_not_count() -> None:
    watch = NoticeWatch()
    hold = held("target-unknown", "prewarmingPoolSize is unknown or no number")
    present = [0, 10, 20, 40, 50, 60]

    told = [at for at in range(0, 70, 10) if watch.look({}, [hold] if at in present else [], float(at))]
    assert told == [60]

    for at in (70, 80, 90, 100):
        watch.look({}, [], float(at))
    assert [at for at in range(110, 200, 10) if watch.look({}, [hold], float(at))] == [170]


def test_a_storm_is_told_at_once() -> None:
    watch = NoticeWatch()
    (notice,) = watch.look({}, [STORM], 100.0)

    assert (notice.kind, notice.subject, notice.data["until_in_s"]) == ("hold", "cluster", 30.0)
    assert watch.look({}, [STORM], 101.0) == []


def test_a_poisoned_environment_is_told_at_once() -> None:
    (notice,) = NoticeWatch().look(
        {}, [held("poisoned", "new runners fail again and again: no such image", until=200.0)], 100.0
    )

    assert (notice.kind, notice.text) == ("poison", "environment 10: new runners fail again and again: no such image")


def test_while_nobody_looks_a_hold_does_not_end() -> None:
    watch = NoticeWatch()
    hold = held("target-unknown", "prewarmingPoolSize is unknown or no number")
    told = [at for at in (0, 20, 40, 60, 500, 520, 600) if watch.look({}, [hold], float(at))]

    assert told == [60]


def test_ids_of_jobs_do_not_make_another_hold() -> None:
    watch = NoticeWatch()
    told = [
        watch.look({}, [held("action-failed", f"create-runner 10-{at:08x}-e9: 403 Permission denied")], float(at))
        for at in range(0, 70, 10)
    ]

    assert [len(each) for each in told] == [0, 0, 0, 0, 0, 0, 1]


# --- pools ------------------------------------------------------------------------------------------------------------


def test_an_empty_pool_is_told_after_a_while_and_again_when_it_is_whole() -> None:
    watch = NoticeWatch()
    told = looked(watch, {0: 3, 10: 1, 20: 0, 29: 0, 30: 0, 40: 0, 50: 2, 60: 3, 70: 3})

    assert told == {30: ["pool-empty"], 60: ["pool-back"]}


def test_a_pool_that_is_back_tells_how_long_it_took() -> None:
    watch = NoticeWatch()
    for at, idle in ((10, 1), (20, 0), (30, 0)):
        watch.look(pool(idle), [], float(at))
    (notice,) = watch.look(pool(3), [], 72.5)

    assert notice.text == "environment 10: 3 of 3 idle again, after 1m2.5s"
    assert notice.data == {"environment_id": "10", "target": 3, "idle": 3, "short_for_s": 62.5, "was_empty": True}


def test_a_pool_that_is_only_short_now_and_then_is_not_told() -> None:
    assert looked(NoticeWatch(), dict(enumerate([3, 2, 0, 1, 3, 0, 0, 3, 2, 3]))) == {}


def test_after_a_loss_the_pool_is_told_when_it_is_whole() -> None:
    watch = NoticeWatch()
    watch.stepped(loss(runner()))

    assert looked(watch, {101: 2, 140: 2, 153: 3, 160: 3}) == {153: ["pool-back"]}


@pytest.mark.parametrize("job", [runner(used=True), Job("template-10", "environment", "10")])
def test_a_loss_that_leaves_the_pool_as_it_was_is_not_followed_by_its_return(job: Job) -> None:
    watch = NoticeWatch()

    assert kinds(watch.stepped(loss(job))) == ["loss"]
    assert looked(watch, {101: 3, 102: 2, 103: 3}) == {}


def test_a_loss_among_more_than_enough_is_not_followed_by_a_return() -> None:
    watch = NoticeWatch()
    watch.stepped(loss(runner()))

    assert looked(watch, {101: 3, 102: 3}) == {}


def test_after_a_hold_the_pool_is_told_when_it_is_whole() -> None:
    watch = NoticeWatch()
    hold = held("action-failed", "create-runner: 403 Permission denied")
    for at in (0, 30, 60):
        watch.look(pool(2), [hold], float(at))

    assert kinds(watch.look(pool(3), [], 70.0)) == ["pool-back"]


@pytest.mark.parametrize("numbers", [{"state": "stopped"}, {"target": 0}, {"target": None}, {"state": "missing"}])
def test_a_pool_that_is_not_to_be_kept_is_not_told(numbers: dict[str, Any]) -> None:
    watch = NoticeWatch()

    assert [watch.look(pool(0, **numbers), [], float(at)) for at in (0, 60, 120)] == [[], [], []]


def test_another_cluster_begins_with_nothing() -> None:
    watch = NoticeWatch()
    watch.look(pool(0), [], 0.0)
    watch.stepped(loss(runner(), at=5.0, new_epoch=True))

    assert watch.look(pool(0), [], 11.0) == []


def test_what_it_remembers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poseidon_reconciler.observe.notices._MAX_REMEMBERED", 10)
    watch = NoticeWatch()
    for number in range(100):
        watch.stepped(loss(runner(number)))

    assert len(watch._told) == 10
