"""Which jobs are ours, and the names of the jobs that we make.

Poseidon tells its jobs apart by their id alone, so the id is all there is to go by. A prefix is not an id:
`template-1` and `template-10` are different environments, `template-10-x` is none.

New names are derived, never drawn: two instances (or one before and after a restart) that look at the same
loss ask for the same job, and the second request finds that it exists.
"""

from __future__ import annotations

import re
import uuid
from typing import Final, Literal, NamedTuple

Kind = Literal["environment", "runner"]

TEMPLATE_PREFIX: Final = "template-"
# Without leading zeros: Poseidon prints the number with %d, so `template-010` was made by somebody else.
_TEMPLATE: Final = re.compile(r"template-(0|[1-9][0-9]{0,18})\Z")
_RUNNER: Final = re.compile(r"(0|[1-9][0-9]{0,18})-(.+)\Z", re.DOTALL)
_NAMESPACE: Final = uuid.uuid5(uuid.NAMESPACE_URL, "https://github.com/openHPI/poseidon#reconciler")


class JobName(NamedTuple):
    """What a job's id tells: its kind and the number of the environment it belongs to."""

    kind: Kind
    environment_id: str


def parse_job_id(job_id: str) -> JobName | None:
    """Reads a job id as Poseidon does; None for a job that is none of ours."""
    if match := _TEMPLATE.match(job_id):
        return JobName("environment", match[1])
    if match := _RUNNER.match(job_id):
        return JobName("runner", match[1])
    return None


def template_id(environment_id: str) -> str:
    """The id of an environment's own job."""
    return TEMPLATE_PREFIX + environment_id


def replacement_id(environment_id: str, replaces: str, create_index: int) -> str:
    """The id of the runner that takes the place of a lost one.

    `create_index` is the lost job's `CreateIndex`: a job of the same id that was registered anew is another loss.
    """
    return f"{environment_id}-{uuid.uuid5(_NAMESPACE, f'replace {replaces} {create_index}')}"


def is_derived(job_id: str) -> bool:
    """Whether a runner's name was derived, by us or by another instance, and not drawn by Poseidon."""
    try:
        return uuid.UUID(job_id.partition("-")[2]).version == 5
    except ValueError:
        return False


def refill_id(environment_id: str, template_version: int, number: int) -> str:
    """The id of the `number`-th runner that replaces nothing known.

    `template_version` is the environment job's `JobModifyIndex`.
    """
    return f"{environment_id}-{uuid.uuid5(_NAMESPACE, f'refill {environment_id} {template_version} {number}')}"
