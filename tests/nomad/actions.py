"""An executor against the scriptable Nomad, and the shapes in which a job can be found."""

from __future__ import annotations

from collections.abc import MutableMapping

from poseidon_reconciler.core.ledger import Action, ActionKind
from poseidon_reconciler.nomad.api import Api
from poseidon_reconciler.nomad.confirm import AsOf
from poseidon_reconciler.nomad.documents import Stamp
from poseidon_reconciler.nomad.execution import Executed
from poseidon_reconciler.nomad.executor import Executor
from poseidon_reconciler.policy import Policy
from tests.nomad.fake_nomad import FakeNomad, JsonObject
from tests.nomad.jobs import RUNNER

STAMP = Stamp("d7", "trace")


class Acting:
    """Executes one action at a time; no wait takes any time."""

    def __init__(self, api: Api, nomad: FakeNomad) -> None:
        self.nomad = nomad
        self.waited_s = 0.0
        self.templates: MutableMapping[str, bytes] = {}
        self.policy = Policy()
        self.dry_run = False
        self._api = api

    async def _sleep(self, seconds: float) -> None:
        self.waited_s += seconds

    async def __call__(
        self, kind: ActionKind, job_id: str, as_of: AsOf | None = None, *, replaces: str | None = None
    ) -> Executed:
        executor = Executor(self._api, self.policy, self.templates, dry_run=self.dry_run, sleep=self._sleep)
        action = Action(1000.0, kind, "10", job_id, "why", replaces=replaces)
        return await executor.execute(action, STAMP, as_of or AsOf())


def kill(nomad: FakeNomad, job_id: str = RUNNER) -> None:
    """Makes a job one that Nomad has given up: its only allocation is complete."""
    nomad.add_allocation(job_id, f"a-{job_id}", ClientStatus="complete")
    nomad.index += 1
    nomad.jobs[job_id].update(Status="dead", ModifyIndex=nomad.index)


def planned(job: JsonObject, **groups: dict[str, int]) -> JsonObject:
    """What the scheduler says to a change of this job; keys are group names with `_` for `-`."""
    updates = {name.replace("_", "-"): counts for name, counts in groups.items()}
    return {"Annotations": {"DesiredTGUpdates": updates}, "JobModifyIndex": job["JobModifyIndex"]}


def in_place(nomad: FakeNomad, job: JsonObject) -> None:
    """What a server does upon an in-place update: the allocations that run get the new version."""
    nomad.index += 1
    job.update(Status="running", ModifyIndex=nomad.index)
    for allocation in nomad.allocations[job["ID"]]:
        if allocation["DesiredStatus"] == "run":
            allocation.update(JobVersion=job["Version"], ModifyIndex=nomad.index)
