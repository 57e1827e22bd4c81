"""Why a job or an environment is judged as it is: the rule that matched, and why each rule above it did not."""

from __future__ import annotations

from msgspec import Struct

from poseidon_reconciler.core.blame import NodeLosses
from poseidon_reconciler.core.diagnosis import Verdict
from poseidon_reconciler.core.evidence import Evidence, evidence_for
from poseidon_reconciler.core.holds import Hold
from poseidon_reconciler.core.ids import template_id
from poseidon_reconciler.core.reconciler import Reconciler
from poseidon_reconciler.core.records import Job
from poseidon_reconciler.core.rules import table_for


class Unmatched(Struct, frozen=True):
    """A rule above the one that matched, and the sentence that would have had to be true."""

    rule: str
    state: str
    needs: str


class JobExplanation(Struct, frozen=True):
    """Everything behind one verdict.

    `next_rule` and `next_state`: what time alone makes of it at `verdict.due_at`; `blame`: what it was lost with.
    """

    job_id: str
    kind: str
    environment_id: str
    verdict: Verdict
    conditions: list[str]
    unmatched: list[Unmatched]
    evidence: list[Evidence]
    next_state: str | None
    next_rule: str | None
    blame: NodeLosses | None = None


class EnvironmentExplanation(Struct, frozen=True):
    """An environment's state and pool, and what keeps it from its target.

    `template` explains its own job; `blame`: what it lost with which node lately, whatever became of that since.
    """

    environment_id: str
    state: str
    rule: str
    cause: str | None
    target: int | None
    states: dict[str, int]
    deficit: int
    surplus: int
    surplus_story: str
    expected: int
    causes: dict[str, int]
    holds: list[Hold]
    template: JobExplanation | None
    blame: list[NodeLosses] = []


def explain_job(core: Reconciler, job: Job) -> JobExplanation | None:
    """Explains a job's present verdict; None for one that is only known by hearsay."""
    verdict = core.diagnosis.verdicts.get(job.id)
    if verdict is None:
        return None
    facts = core.diagnosis.facts(job, core.now)
    unmatched = []
    conditions: list[str] = []
    for rule in table_for(job.kind):
        false = rule.first_false(facts)
        if false is None:
            conditions = [condition.text for condition in rule.conditions]
            break
        unmatched.append(Unmatched(rule.name, rule.state, false.text))
    following = None
    if verdict.due_at is not None:
        later = core.diagnosis.facts(job, verdict.due_at)
        following = next(rule for rule in table_for(job.kind) if rule.first_false(later) is None)
    return JobExplanation(
        job_id=job.id,
        kind=job.kind,
        environment_id=job.environment_id,
        verdict=verdict,
        conditions=conditions,
        unmatched=unmatched,
        evidence=evidence_for(core.diagnosis, job, core.now),
        next_state=following.state if following is not None else None,
        next_rule=following.name if following is not None else None,
        blame=core.blame.of(job.id),
    )


def explain_environment(core: Reconciler, environment_id: str) -> EnvironmentExplanation | None:
    """Explains an environment; None for one of which nothing is known."""
    pool = core.diagnosis.pools.get(environment_id)
    if pool is None:
        return None
    state, rule, cause = core.diagnosis.environment_state(environment_id)
    template = core.model.jobs.get(template_id(environment_id))
    holds = [hold for hold in core.holds(core.now) if hold.environment_id in (None, environment_id)]
    return EnvironmentExplanation(
        environment_id=environment_id,
        state=state,
        rule=rule,
        cause=cause,
        target=template.target if template is not None else None,
        states={name: number for name, number in sorted(pool.states.items()) if number},
        deficit=core.planner.deficit(environment_id),
        surplus=core.planner.surplus.size(environment_id),
        surplus_story=core.planner.surplus.story(environment_id),
        expected=core.planner.ledger.expected_in(environment_id),
        causes=dict(core.diagnosis.lost_causes(environment_id)),
        holds=holds,
        template=explain_job(core, template) if template is not None else None,
        blame=core.blame.rows(environment_id),
    )
