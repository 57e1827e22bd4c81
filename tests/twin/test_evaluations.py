"""The queue of evaluations: order, waiting, blocking, and what a new leader takes up."""

from __future__ import annotations

from poseidon_reconciler.twin.poseidon_jobs import Work, runner_job, with_config
from tests.twin.labs import job_of, lab, newest, with_runner


def test_priority_comes_first_and_then_age() -> None:
    cluster = lab()
    for name, priority in (("first", 50), ("second", 50), ("urgent", 90)):
        cluster.jobs.register({**runner_job(f"10-{name}"), "Priority": priority})
    cluster.run_for(3)
    placed = sorted(cluster.state.allocations.values(), key=lambda allocation: allocation.create_index)
    # The first is in work before the urgent one comes.
    assert [allocation.job.id for allocation in placed] == ["10-first", "10-urgent", "10-second"]


def test_a_job_has_one_evaluation_in_work_at_a_time() -> None:
    cluster = lab()
    key = with_runner(cluster)
    made = [cluster.jobs.evaluate(key) for _ in range(5)]
    assert not cluster.evaluator.idle
    cluster.run_for(1)
    done = [cluster.state.evaluations[evaluation.id] for evaluation in made]
    assert {evaluation.status for evaluation in done} == {"complete"}
    assert [e.modify_index for e in done] == sorted(e.modify_index for e in done)
    assert cluster.evaluator.idle


def test_what_cannot_be_placed_blocks_and_says_why() -> None:
    cluster = lab(2)
    key = with_runner(cluster, Work(cpu_mhz=99_999))
    first, blocked = cluster.state.evaluations_of(key)
    assert (first.status, first.blocked_id, first.queued) == ("complete", blocked.id, {"default-group": 1})
    assert (blocked.status, blocked.triggered_by, blocked.previous_id) == ("blocked", "queued-allocs", first.id)
    assert blocked.failed_groups is not None
    assert blocked.failed_groups["default-group"]["DimensionExhausted"] == {"cpu": 2}
    assert job_of(cluster, key).status == "pending"


def test_a_second_blocked_evaluation_replaces_the_first() -> None:
    cluster = lab(1)
    key = with_runner(cluster, Work(cpu_mhz=99_999))
    cluster.jobs.register(with_config(dict(job_of(cluster, key).spec), x="1"))
    cluster.run_for(1)
    statuses = [
        (e.status, e.status_description) for e in cluster.state.evaluations_of(key) if e.triggered_by == "queued-allocs"
    ]
    assert statuses == [
        ("canceled", 'existing blocked evaluation exists for job "10-a"'),
        ("blocked", "created to place remaining allocations"),
    ]


def test_what_no_machine_can_ever_take_is_not_looked_at_for_every_machine() -> None:
    cluster = lab(2)
    key = with_runner(cluster, Work(kernel="plan9"))
    (blocked,) = [e for e in cluster.state.evaluations_of(key) if e.status == "blocked"]
    assert set((blocked.class_eligibility or {}).values()) == {False}
    agent = cluster.agents["agent-1"]
    agent.stop()
    agent.start()
    cluster.run_for(5)
    assert cluster.evaluator.blocked == [blocked.id]


def test_a_new_leader_takes_up_what_the_tables_say() -> None:
    cluster = lab(1)
    blocked = with_runner(cluster, Work(cpu_mhz=3000), name="10-big")
    waiting = with_runner(cluster, Work(cpu_mhz=3000))
    delayed = with_runner(
        cluster, Work(("sh", "-c", "exit 1"), restarts=0, reschedules=1, reschedule_delay_s=20.0), name="10-c"
    )
    cluster.restart_server(down_s=1.0)
    cluster.run_for(2)
    assert len(cluster.evaluator.blocked) == 1
    cluster.jobs.deregister(blocked)
    cluster.run_for(30)
    assert newest(cluster, waiting).client_status == "running"
    assert len(cluster.state.allocations_of(delayed)) == 2
