"""Whether what was decided on is still called for, by all that was heard since.

Between a decision and its write lie reads that may take long, and what waits for its turn; and of what came while lists
were read, all is applied before anything is carried out. What the job itself tells is read again before each write;
that others have filled the pool meanwhile, no job tells.
"""

from __future__ import annotations

from poseidon_reconciler.core.ledger import Action
from poseidon_reconciler.core.plan import Planner


def is_overtaken(planner: Planner, action: Action, now: float) -> bool:
    """Whether an action that was decided on would not be any more, itself counted as under way."""
    desk, environment_id = planner.desk, action.environment_id
    if action.kind == "create-runner":
        return planner.refill.is_too_much(environment_id) or planner.refill.room_in(environment_id) < 0
    job, verdict = desk.model.jobs.get(action.job_id), desk.diagnosis.verdicts.get(action.job_id)
    if job is None or verdict is None or job.stop or job.gone is not None:
        # What we have stopped is still to be purged.
        return False
    match action.kind:
        case "remove-job" | "revive-environment":
            return verdict.state != "lost"
        case "stop-surplus":
            wanted = planner.surplus.is_wanted(environment_id)
            return verdict.state != "idle" or not wanted or planner.surplus.claims_settle_at(environment_id) > now
        case _:
            return False
