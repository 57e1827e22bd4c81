"""Actions of the core on a real cluster: confirm, act, look.

The core decides on a model; the executor trusts no model. It reads what an action is about, does nothing on the
strength of an answer that is missing, stale or older than the decision, and says what became of the action in the words
of `Executed`. Each action can be repeated: what is done already is `already`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import replace
from typing import Final

from poseidon_reconciler.core.ids import Kind, parse_job_id
from poseidon_reconciler.core.ledger import Action, ActionKind
from poseidon_reconciler.nomad.api import Api
from poseidon_reconciler.nomad.confirm import AsOf
from poseidon_reconciler.nomad.creating import create_runner, restore_environment
from poseidon_reconciler.nomad.documents import DocumentError, Stamp
from poseidon_reconciler.nomad.execution import Executed, Task, Tools
from poseidon_reconciler.nomad.protecting import protect_job
from poseidon_reconciler.nomad.repairing import remove_job, revive_environment
from poseidon_reconciler.nomad.trimming import stop_surplus
from poseidon_reconciler.policy import Policy

_ACTIONS: Final[dict[ActionKind, Callable[[Tools, Task], Awaitable[Executed]]]] = {
    "protect-job": protect_job,
    "create-runner": create_runner,
    "revive-environment": revive_environment,
    "restore-environment": restore_environment,
    "remove-job": remove_job,
    "stop-surplus": stop_surplus,
}
# What an action may be about: an environment's own job is never removed, a runner never revived.
_KINDS: Final[dict[ActionKind, frozenset[Kind]]] = {
    "protect-job": frozenset({"runner", "environment"}),
    "create-runner": frozenset({"runner"}),
    "revive-environment": frozenset({"environment"}),
    "restore-environment": frozenset({"environment"}),
    "remove-job": frozenset({"runner"}),
    "stop-surplus": frozenset({"runner"}),
}


class Executor:
    """Executes actions, any number at a time.

    Args:
        templates: the environments' own jobs as Nomad gave them, by job id; also brought up to date here.
        dry_run: read and plan everything, write nothing.
    """

    def __init__(
        self,
        api: Api,
        policy: Policy,
        templates: MutableMapping[str, bytes],
        *,
        dry_run: bool = False,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._tools = Tools(api, policy, templates, dry_run, sleep)

    def change_policy(self, policy: Policy) -> None:
        """Acts by another policy from the next action on."""
        self._tools = replace(self._tools, policy=policy)

    async def execute(
        self, action: Action, stamp: Stamp, as_of: AsOf, may_write: Callable[[], bool] = lambda: True
    ) -> Executed:
        """Executes one action. `as_of`: what the model knew of the job that it is about, or that a new one replaces;
        `may_write`: whether what was decided on is still known to be so, and wanted.
        """
        task = Task(action, stamp, as_of)
        name = parse_job_id(action.job_id)
        if name is None or name.environment_id != action.environment_id or name.kind not in _KINDS.get(action.kind, ()):
            return task.failed(f"{action.kind} is not for {action.job_id!r}")
        try:
            return await _ACTIONS[action.kind](replace(self._tools, api=self._tools.api.guarded(may_write)), task)
        except DocumentError as error:
            return task.failed(str(error))
