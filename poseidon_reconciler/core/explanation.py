"""Why a job or an environment is judged as it is, and what is done about it: the rule that matched, and why each rule
above it did not; what was decided, and what holds back the rest.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from poseidon_reconciler.core.blame import NodeLosses
from poseidon_reconciler.core.decisions import Decision
from poseidon_reconciler.core.diagnosis import Verdict
from poseidon_reconciler.core.evidence import Evidence, evidence_for
from poseidon_reconciler.core.holds import Hold, failures_about, holds_about
from poseidon_reconciler.core.ids import is_derived, replacement_id, template_id
from poseidon_reconciler.core.reconciler import Reconciler
from poseidon_reconciler.core.records import Job
from poseidon_reconciler.core.rules import table_for
from poseidon_reconciler.core.status import node_of


class Unmatched(Struct, frozen=True):
    """A rule above the one that matched, and the sentence that would have had to be true."""

    rule: str
    state: str
    needs: str


class JobExplanation(Struct, frozen=True):
    """Everything behind one verdict.

    `next_rule` and `next_state`: what time alone makes of it at `verdict.due_at`; `node`: where its last allocation is,
    or was; `blame`: the node to which its loss is traced, which may be another, and what else was lost with that.
    `decisions`: what was decided about it, the latest of each kind; `holds`: what keeps more from being done;
    `replaced_by` and `replaces`: jobs that are there, or were.
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
    node: str | None = None
    decisions: list[Decision] = []
    holds: list[Hold] = []
    replaced_by: str | None = None
    replaces: str | None = None


class OrderExplanation(Struct, frozen=True):
    """A runner that was decided on, and is not among the jobs that are known."""

    job_id: str
    environment_id: str
    replaces: str | None
    decisions: list[Decision]
    holds: list[Hold]


class EnvironmentExplanation(Struct, frozen=True):
    """An environment's state and pool, and what keeps it from its target.

    `template` explains its own job, but for what holds that back; `blame`: what it lost with which node lately,
    whatever became of that since.
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


Explanation = JobExplanation | OrderExplanation | EnvironmentExplanation


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
        node=node_of(core, job),
        decisions=core.planner.decisions.about(job.id),
        holds=holds_about(core.planner, job, core.now),
        replaced_by=_replacement(core, job),
        replaces=_replaced(core, job),
    )


def explain_order(core: Reconciler, job_id: str) -> OrderExplanation | None:
    """Explains a runner that was only decided on; None for one that was not."""
    order = core.planner.decisions.order_of(job_id)
    if order is None:
        return None
    return OrderExplanation(
        job_id=job_id,
        environment_id=order.environment_id,
        replaces=order.replaces,
        decisions=core.planner.decisions.about(job_id),
        holds=failures_about(core.planner, job_id),
    )


def _replacement(core: Reconciler, job: Job) -> str | None:
    """The job that took a job's place, by whomever it was ordered."""
    job_id = replacement_id(job.environment_id, job.id, job.create_index)
    return job_id if job_id in core.model.jobs else None


def _replaced(core: Reconciler, job: Job) -> str | None:
    """The job whose place a job took, by whomever it was ordered."""
    if (order := core.planner.decisions.order_of(job.id)) is not None:
        return order.replaces
    if not is_derived(job.id):
        return None
    others = core.model.environments[job.environment_id].runners.values()
    ids = ((other.id, replacement_id(job.environment_id, other.id, other.create_index)) for other in others)
    return next((other_id for other_id, replacement in ids if replacement == job.id), None)


def explain_environment(core: Reconciler, environment_id: str) -> EnvironmentExplanation | None:
    """Explains an environment; None for one of which nothing is known."""
    pool = core.diagnosis.pools.get(environment_id)
    if pool is None:
        return None
    state, rule, cause = core.diagnosis.environment_state(environment_id)
    template = core.model.jobs.get(template_id(environment_id))
    # What holds its own job holds the environment, and is told with that.
    own = explain_job(core, template) if template is not None else None
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
        template=replace(own, holds=[]) if own is not None else None,
        blame=core.blame.rows(environment_id),
    )
