"""What somebody means who names a job, the beginning of a job's id, or an environment's number."""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Iterator
from typing import Final

from poseidon_reconciler.core.explanation import Explanation, explain_environment, explain_job, explain_order
from poseidon_reconciler.core.ids import template_id
from poseidon_reconciler.core.reconciler import Reconciler
from poseidon_reconciler.policy import quoted

_NEAR: Final = 3
# Comparing two texts closely costs; only what begins most alike is compared.
_COMPARED: Final = 50


class UnknownSubjectError(LookupError):
    """Nothing, or more than one thing, is meant. `near`: a few ids that may have been."""

    def __init__(self, reason: str, near: list[str]) -> None:
        super().__init__(reason)
        self.near = near


def explain(core: Reconciler, subject: str) -> Explanation:
    """Explains what `subject` names.

    Raises:
        UnknownSubjectError: it names nothing that is known, or begins several ids.
    """
    explanation = _explain_exactly(core, subject)
    if explanation is None and "-" in subject:
        jobs = [job_id for job_id in core.model.jobs if job_id.startswith(subject)]
        orders = (job_id for job_id in core.planner.decisions.ordered() if job_id.startswith(subject))
        beginning = list(dict.fromkeys((*jobs, *orders)))
        if len(beginning) > 1:
            near = sorted(beginning[:_NEAR])
            raise UnknownSubjectError(f"{len(beginning)} jobs begin with {quoted(subject)}: give more of the id", near)
        explanation = _explain_exactly(core, beginning[0]) if beginning else None
    if explanation is None:
        alike = heapq.nlargest(_COMPARED, _known(core, subject), key=lambda known: _alike_chars(known, subject))
        near = difflib.get_close_matches(subject, alike, n=_NEAR)
        raise UnknownSubjectError(f"{quoted(subject)} is neither a job nor an environment that is known", near)
    return explanation


def _explain_exactly(core: Reconciler, subject: str) -> Explanation | None:
    job = core.model.jobs.get(subject)
    explanation = explain_job(core, job) if job is not None else None
    return explanation or explain_order(core, subject) or explain_environment(core, subject)


def _known(core: Reconciler, subject: str) -> Iterator[str]:
    """All ids that the subject may be a slip of: a runner's has its environment's number in front."""
    for environment_id in core.diagnosis.pools:
        yield environment_id
        yield template_id(environment_id)
    environment = core.model.environments.get(subject.partition("-")[0])
    if environment is not None:
        yield from environment.runners


def _alike_chars(one: str, other: str) -> int:
    """How many characters both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))
