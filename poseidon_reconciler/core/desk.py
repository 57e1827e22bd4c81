"""What lies on the planner's desk: what every part of the plan looks at, and what it writes down for the others."""

from __future__ import annotations

from typing import Final

from poseidon_reconciler.core.diagnosis import Diagnosis
from poseidon_reconciler.core.ledger import Ledger
from poseidon_reconciler.core.model import Model
from poseidon_reconciler.core.pace import Alarm
from poseidon_reconciler.core.pauses import Pauses
from poseidon_reconciler.core.records import Job
from poseidon_reconciler.policy import Policy, PoolPolicy

_REFILLABLE: Final = frozenset({"active", "starting", "recovering", "blocked", "disconnected", "lost"})


class Desk:
    """Model, diagnosis and policy to look at; a ledger, an alarm and pauses to write to.

    Attributes:
        imagines: whether nothing of what is decided is carried out (a dry run): what is asked for never starts, and
            must not take the room of what else would be asked for.
    """

    def __init__(self, model: Model, diagnosis: Diagnosis, policy: Policy) -> None:
        self.model = model
        self.diagnosis = diagnosis
        self.policy = policy
        self.ledger = Ledger()
        self.alarm = Alarm()
        self.pauses = Pauses(policy)
        self.imagines = False

    def policy_of(self, environment_id: str) -> PoolPolicy:
        """How an environment's pool is to be kept."""
        return self.policy.for_environment(environment_id)

    def template_of(self, environment_id: str) -> Job | None:
        """An environment's own job, if any is known."""
        environment = self.model.environments.get(environment_id)
        return environment.template if environment is not None else None

    def target(self, environment_id: str) -> int | None:
        """The target of a pool that is to be kept; None if it is not (stopped, missing) or has none."""
        template = self.template_of(environment_id)
        return template.target if template is not None and self.is_kept(environment_id) else None

    def is_kept(self, environment_id: str) -> bool:
        """Whether an environment's pool is to be kept at all."""
        return self.diagnosis.environment_state(environment_id)[0] in _REFILLABLE

    def is_paused(self, environment_id: str, now: float) -> bool:
        """Whether an environment is to be left alone; the alarm is set for the end of that."""
        pause = self.pauses.of(environment_id, now)
        if pause is not None:
            self.alarm.set(pause.until)
        return pause is not None
