"""The list's stubs have exactly the fields that real servers of both ages send."""

from __future__ import annotations

import pytest

from poseidon_reconciler.twin.stubs import allocation_stub, job_stub, node_stub
from tests.twin.labs import job_of, lab, newest, with_runner

JOB = {
    "CreateIndex", "Datacenters", "ID", "JobModifyIndex", "JobSummary", "ModifyIndex", "Multiregion", "Name",
    "Namespace", "ParameterizedJob", "ParentID", "Periodic", "Priority", "Status", "StatusDescription", "Stop",
    "SubmitTime", "Type",
}  # fmt: skip
ALLOCATION = {
    "ClientDescription", "ClientStatus", "CreateIndex", "CreateTime", "DeploymentStatus", "DesiredDescription",
    "DesiredStatus", "DesiredTransition", "EvalID", "FollowupEvalID", "ID", "JobID", "JobType", "JobVersion",
    "ModifyIndex", "ModifyTime", "Name", "Namespace", "NodeID", "NodeName", "PreemptedAllocations",
    "PreemptedByAllocation", "RescheduleTracker", "TaskGroup", "TaskStates",
}  # fmt: skip
NODE = {
    "Address", "CreateIndex", "Datacenter", "Drain", "Drivers", "HostVolumes", "ID", "LastDrain", "ModifyIndex", "Name",
    "NodeClass", "SchedulingEligibility", "Status", "StatusDescription", "Version",
}  # fmt: skip


@pytest.mark.parametrize(
    ("version", "job", "allocation", "node"),
    [
        ("1.1.18", JOB, ALLOCATION, NODE),
        ("1.10.5", JOB | {"NodePool"}, ALLOCATION | {"NextAllocation"}, NODE | {"NodePool"}),
    ],
)
def test_fields(version: str, job: set[str], allocation: set[str], node: set[str]) -> None:
    cluster = lab(1, version=version)
    key = with_runner(cluster)
    (machine,) = cluster.state.nodes.values()
    assert job_stub(cluster.state, job_of(cluster, key), cluster.traits).keys() == job
    assert allocation_stub(newest(cluster, key), cluster.traits).keys() == allocation
    assert node_stub(machine, cluster.traits).keys() == node
