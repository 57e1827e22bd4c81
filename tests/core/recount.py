"""All that a reconciler keeps up to date step by step, counted again from nothing.

Written plainly from what the contract says, without the shortcuts of the code that it is held against.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from poseidon_reconciler.core.facts import Facts
from poseidon_reconciler.core.reconciler import Reconciler
from poseidon_reconciler.core.records import Job
from poseidon_reconciler.core.rules import Rule, table_for

_COUNTING = {"idle", "starting", "recovering", "blocked"}
_LIVING = {"used", "idle", "active", "disconnected", "starting", "recovering", "blocked"}


def plain_rule(facts: Facts) -> Rule:
    """The first rule of the table all of whose conditions hold."""
    return next(rule for rule in table_for(facts.job.kind) if all(each.holds(facts) for each in rule.conditions))


def stored(core: Reconciler) -> dict[str, Any]:
    """What the reconciler keeps."""
    diagnosis = core.diagnosis
    verdicts = {
        job_id: (verdict.state, verdict.rule, verdict.cause, verdict.due_at, verdict.at_risk, verdict.counts)
        for job_id, verdict in diagnosis.verdicts.items()
    }
    pools = {
        pool.environment_id: ({s: n for s, n in pool.states.items() if n}, pool.counting, set(pool.lost))
        for pool in diagnosis.pools.values()
        if any(pool.states.values())
    }
    return {
        "verdicts": verdicts,
        "pools": pools,
        "runners": diagnosis.runners,
        "at_risk": set(diagnosis.at_risk),
        "next_due": diagnosis.next_due(),
        "deficits": {pool: core.planner.deficit(pool) for pool in pools},
        "unjudged": list(core.model.changed),
    }


def recounted(core: Reconciler) -> dict[str, Any]:
    """The same from the model alone."""
    jobs = {job.id: job for job in core.model.jobs.values() if job.seen or (job.current and job.current.placed)}
    verdicts = {job_id: _verdict(core, job) for job_id, job in jobs.items()}
    pools: dict[str, Any] = {}
    runners = {job_id: job for job_id, job in jobs.items() if job.kind == "runner"}
    for environment_id in sorted({job.environment_id for job in runners.values()}):
        own = [job_id for job_id, job in runners.items() if job.environment_id == environment_id]
        states = Counter(verdicts[job_id][0] for job_id in own)
        lost = {job_id for job_id in own if verdicts[job_id][0] == "lost"}
        pools[environment_id] = (dict(states), sum(verdicts[job_id][5] for job_id in own), lost)
    dues = [verdict[3] for verdict in verdicts.values() if verdict[3] is not None]
    return {
        "verdicts": verdicts,
        "pools": pools,
        "runners": sum(verdicts[job_id][0] != "gone" for job_id in runners),
        "at_risk": {job_id for job_id, verdict in verdicts.items() if verdict[4]},
        "next_due": min(dues, default=None),
        "deficits": {pool: _deficit(core, pool, counting) for pool, (_, counting, _) in pools.items()},
        "unjudged": [],
    }


def _verdict(core: Reconciler, job: Job) -> tuple[str, str, str | None, float | None, bool, bool]:
    facts = core.diagnosis.facts(job, core.now)
    rule = plain_rule(facts)
    cause = (job.gone or "stopped") if rule.state in ("gone", "stopped") else rule.cause
    due_at = rule.due(facts) if rule.due is not None else None
    killers = [id_ for id_ in job.allocations if _is_killer(job, id_)]
    risky = rule.state in _LIVING and job.status != "dead" and bool(killers)
    policy = facts.policy.disconnect_policy
    hangs = policy == "exactly" and rule.state == "lost" and job.current is not None and job.current.placed
    held = {"at-least": (), "leave-alone": ("disconnected",), "exactly": ("disconnected", "leaving")}[policy]
    counts = job.kind == "runner" and not job.used and (rule.state in (*_COUNTING, *held) or hangs)
    return rule.state, rule.name, cause, due_at, risky, counts


def _is_killer(job: Job, allocation_id: str) -> bool:
    """DESIGN's "at risk": desired stop, unlinked, lost or complete, of the job's current version."""
    data = job.allocations[allocation_id].data
    if data.desired_status != "stop" or data.next_allocation or data.client_status not in ("lost", "complete"):
        return False
    if data.job_version >= 0 and job.version >= 0:
        return data.job_version == job.version
    return data.alloc_modify_index < 0 or data.alloc_modify_index >= job.job_modify_index


def _deficit(core: Reconciler, environment_id: str, counting: int) -> int:
    template = core.model.environments[environment_id].template
    state = core.diagnosis.environment_state(environment_id)[0]
    if template is None or template.target is None or state in ("stopped", "missing", "gone"):
        return 0
    return max(0, template.target - counting - core.planner.ledger.expected_in(environment_id))
