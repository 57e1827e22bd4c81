"""What is wanted and not done, and why: every reason with its name, since when it holds, and what ends it.

Nothing is remembered here. A hold is what the plan would answer if it were asked why it does not act.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from msgspec import Struct

from poseidon_reconciler.core.diagnosis import Pool
from poseidon_reconciler.core.plan import Planner, may_still_serve
from poseidon_reconciler.core.poison import LONGEST_WAIT_S, PROVEN_S
from poseidon_reconciler.core.records import Job
from poseidon_reconciler.core.retries import Waiting
from poseidon_reconciler.core.wording import counted
from poseidon_reconciler.policy import format_duration

HoldRule = Literal[
    "storm",
    "paused",
    "environment-stopped",
    "template-missing",
    "target-unknown",
    "revival-waits",
    "settling",
    "poisoned",
    "job-ceiling",
    "enough-starting",
    "rate",
    "surplus-settling",
    "used-out-of-reach",
    "action-failed",
]

_ALWAYS: Final[frozenset[HoldRule]] = frozenset({"storm", "paused"})
_MENDING: Final[frozenset[HoldRule]] = frozenset({"environment-stopped", "template-missing", "revival-waits"})
_REFILLING: Final[frozenset[HoldRule]] = frozenset(
    {
        "environment-stopped", "template-missing", "target-unknown", "settling", "poisoned", "job-ceiling",
        "enough-starting", "rate",
    }
)  # fmt: skip


class Hold(Struct, frozen=True, gc=False):
    """Something that is wanted and not done; without an environment it holds for all.

    `until` in seconds, None if time alone does not end it; `since` None if that is not known; `ends` continues
    "ends when".
    """

    environment_id: str | None
    rule: HoldRule
    reason: str
    since: float | None
    until: float | None
    ends: str


def current_holds(planner: Planner, now: float) -> list[Hold]:
    """What is wanted and not done at `now`."""
    holds = []
    pace = planner.desk.policy.pace
    if planner.storm.since is not None and planner.is_wanting():
        reason = "storm: many runners or nodes were lost together"
        ends = (
            f"nothing was lost and no node changed for {format_duration(pace.storm_settle_s)}, or it is "
            f"{format_duration(pace.storm_max_hold_s)} old"
        )
        holds.append(Hold(None, "storm", reason, planner.storm.since, planner.storm.until, ends))
    for pool in planner.desk.diagnosis.pools.values():
        holds += _in_environment(planner, pool, now)
    holds += map(_about_failure, planner.retries.waiting())
    return holds


def holds_about(planner: Planner, job: Job, now: float) -> list[Hold]:
    """What keeps something from being done about a job at `now`."""
    wanted = _rules_about(planner, job)
    held = [hold for hold in current_holds(planner, now) if hold.environment_id in (None, job.environment_id)]
    return [hold for hold in held if hold.rule in wanted] + failures_about(planner, job.id)


def failures_about(planner: Planner, job_id: str) -> list[Hold]:
    """The actions on a job, or to have another in its place, that failed and wait."""
    waiting = planner.retries.waiting()
    return [_about_failure(each) for each in waiting if job_id in (each.action.job_id, each.action.replaces)]


def _rules_about(planner: Planner, job: Job) -> set[HoldRule]:
    """The rules that stand in the way of what a job as it is calls for."""
    verdict, rules = planner.desk.diagnosis.verdicts[job.id], set[HoldRule]()
    if verdict.at_risk:
        # Protection waits for nothing else.
        rules |= {"paused"}
    if job.kind == "environment":
        if verdict.state != "active":
            rules |= _ALWAYS | _MENDING
        return rules
    if verdict.state == "lost":
        rules |= _ALWAYS
        if may_still_serve(job):
            rules |= {"used-out-of-reach"}
        if not job.used and not planner.refill.is_replaced(job):
            rules |= _REFILLING
    elif verdict.state == "gone" and planner.deficit(job.environment_id):
        rules |= _ALWAYS | _REFILLING
    elif verdict.state == "idle" and planner.surplus.is_wanted(job.environment_id):
        rules |= _ALWAYS | {"surplus-settling"}
    return rules


def _about_failure(waiting: Waiting) -> Hold:
    action = waiting.action
    reason = f"{action.kind} {action.job_id}: {waiting.detail}"
    ends = "it is tried again; each failure doubles the wait, up to 2m"
    return Hold(action.environment_id, "action-failed", reason, waiting.failed_at, waiting.until, ends)


def _in_environment(planner: Planner, pool: Pool, now: float) -> Iterator[Hold]:
    environment_id = pool.environment_id
    pause = planner.pauses.of(environment_id, now)
    if pause is not None:
        ends = "it expires, or is lifted where it was set"
        yield Hold(environment_id, "paused", f"paused: {pause.reason}", pause.since or None, pause.until, ends)
        return
    yield from _about_template(planner, pool, now)
    if planner.deficit(environment_id) and planner.storm.since is None:
        yield _about_deficit(planner, pool, now)
    if planner.surplus.is_wanted(environment_id) and planner.storm.since is None:
        yield from _about_surplus(planner, environment_id, now)
    serving = [job for job in pool.lost.values() if may_still_serve(job)]
    if serving:
        since = min(planner.desk.diagnosis.verdicts[job.id].since for job in serving)
        reason = f"{counted(len(serving), 'used runner')} may still run on nodes out of reach"
        ends = "their nodes come back, are removed, or tell what became of them"
        yield Hold(environment_id, "used-out-of-reach", reason, since, None, ends)


def _about_template(planner: Planner, pool: Pool, now: float) -> Iterator[Hold]:
    """Why an environment's own job, and with it the whole pool, is left as it is."""
    environment_id, diagnosis = pool.environment_id, planner.desk.diagnosis
    state, _, _ = diagnosis.environment_state(environment_id)
    template = planner.desk.template_of(environment_id)
    verdict = diagnosis.verdicts.get(template.id) if template is not None else None
    since = verdict.since if verdict is not None else None
    if state == "stopped" and pool.has_runners:
        reason = "the environment was stopped by somebody: hands off"
        yield Hold(environment_id, "environment-stopped", reason, since, None, "somebody starts its job again")
    elif state == "missing":
        reason = "no job of the environment is known: runners are kept, not refilled"
        yield Hold(environment_id, "template-missing", reason, since, None, "its job is registered again")
    elif planner.environment_action(environment_id) is not None and now < planner.revivals.ready_at(environment_id):
        reason = "the environment's own job died again and again: it is revived after longer and longer waits"
        until = planner.revivals.ready_at(environment_id)
        ends = "it is revived; once it has lasted for 5m, the waits are short again"
        yield Hold(environment_id, "revival-waits", reason, planner.revivals.tried_at(environment_id), until, ends)
    elif planner.desk.is_kept(environment_id) and planner.desk.target(environment_id) is None:
        ends = "its job says a number"
        yield Hold(environment_id, "target-unknown", "prewarmingPoolSize is unknown or no number", since, None, ends)


def _about_deficit(planner: Planner, pool: Pool, now: float) -> Hold:
    """Why a pool that is short is not refilled at once."""
    environment_id = pool.environment_id
    deficit = planner.refill.lacking(environment_id)
    assert deficit is not None
    settle_s = planner.desk.policy_of(environment_id).settle_s
    short = f"{counted(deficit.size, 'runner')} short"
    if not deficit.older_than(settle_s, now):
        reason = f"{short}, for less than {format_duration(settle_s)}: Poseidon goes first"
        until = deficit.next_at(settle_s, now)
        return Hold(
            environment_id,
            "settling",
            reason,
            deficit.since,
            until,
            "they have been lacking for long enough, or somebody else has ordered them",
        )
    if planner.refill.poison.of(environment_id) is not None:
        return _about_poison(planner, pool, short, now)
    if planner.refill.room_in(environment_id) <= 0:
        reason = f"{short}, and as many unused runners exist, dead ones too, as max_jobs allows"
        ends = "some of them are removed, or max_jobs is raised"
        return Hold(environment_id, "job-ceiling", reason, deficit.since, None, ends)
    if planner.refill.room_to_start() <= 0:
        reason = f"{short}, enough are starting on the ready nodes"
        ends = "one that is starting runs or is lost, or a node becomes ready"
        return Hold(environment_id, "enough-starting", reason, deficit.since, None, ends)
    reason = f"{short}, the next within the rate"
    until = max(now, planner.refill.rate.next_at())
    return Hold(
        environment_id, "rate", reason, deficit.since, until, "max_creates_per_second lets the next one through"
    )


def _about_poison(planner: Planner, pool: Pool, short: str, now: float) -> Hold:
    poisoning = planner.refill.poison.of(pool.environment_id)
    assert poisoning is not None
    times = "once" if poisoning.rounds == 1 else f"{poisoning.rounds} times in a row"
    reason = f"{short}, but new ones failed before they ran, {times}: {poisoning.trouble or poisoning.cause}"
    if now < poisoning.ready_at:
        until: float | None = poisoning.ready_at
        ends = f"one that is tried has run; each failure doubles the wait, up to {format_duration(LONGEST_WAIT_S)}"
    else:
        until = planner.refill.poison.proven_at(pool.environment_id)
        waits = "finds room and " if pool.counted.get("blocked") else ""
        ends = (
            f"the one that is tried {waits}has run for {format_duration(PROVEN_S)}; if it fails, a longer wait begins"
        )
    return Hold(pool.environment_id, "poisoned", reason, poisoning.since, until, ends)


def _about_surplus(planner: Planner, environment_id: str, now: float) -> Iterator[Hold]:
    until = planner.surplus.waits_until(environment_id, now)
    if until is None:
        return
    ends = "nobody has claimed one for long enough; idle ones are stopped then, the youngest first"
    if planner.surplus.rounds.ready_at(environment_id) == until:
        why = "as many as were stopped before have come again: somebody else wants more than the target"
        ends = "the wait is over, which is longer each time; once none has come for 5m, it is short again"
    elif planner.surplus.claims_settle_at(environment_id) > now:
        why = "a runner was claimed a moment ago"
    else:
        why = "it may be claimed yet"
    reason = f"{counted(planner.surplus.size(environment_id), 'runner')} more than the target, {why}"
    yield Hold(environment_id, "surplus-settling", reason, None, until, ends)
