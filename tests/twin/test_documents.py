"""The embedded cluster's documents against those of the recordings: the same fields, of the same types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.documents import allocation_document, event_document, iso, nanoseconds, without_empty
from poseidon_reconciler.twin.player import Player, cluster_for
from poseidon_reconciler.twin.poseidon_jobs import environment_job
from poseidon_reconciler.twin.scenarios import SCENARIOS
from poseidon_reconciler.twin.traits import Traits
from tests.twin.recordings import Frame, recorded, sent

# Objects whose keys are names or numbers of their own, not fields.
NAMED = {
    "Attributes", "ClassEligibility", "ConstraintFiltered", "Details", "DimensionExhausted", "Drivers",
    "FailedTGAllocs", "Meta", "NodesAvailable", "QueuedAllocations", "ResourcesExhausted", "TaskLifecycles",
    "TaskResources", "TaskStates",
}  # fmt: skip

# Paths that no recording shows, each of which is told by a recorded evaluation in the same form.
FROM_EVALUATIONS = "Allocation.Allocation.Metrics.ResourcesExhausted"
# Paths that only the recordings show: a score that appears where a job has several allocations; a node's own labels.
NOT_TOLD = {
    ("Allocation.Allocation.Metrics.ScoreMetaData.[].Scores.allocation-spread", "float"),
    ("Node.Node.Meta.*", "str"),
}


def fields(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Every path in a document, with the type that it leads to."""
    yield path, type(value).__name__
    if isinstance(value, dict):
        names = path.rpartition(".")[2]
        tasks = names == "Tasks" and "AllocatedResources" in path
        for name, child in value.items():
            yield from fields(child, f"{path}.{'*' if names in NAMED or tasks else name}")
    elif isinstance(value, list):
        for child in value:
            yield from fields(child, f"{path}.[]")


def told(frames: list[Frame]) -> set[tuple[str, str]]:
    return {
        found for frame in frames for event in frame["Events"] for found in fields(event["Payload"], event["Topic"])
    }


def test_events_have_the_fields_of_the_recordings() -> None:
    names = [name for name in SCENARIOS if "100" not in name]
    real = {found for name in names for found in told(recorded(name))}
    clusters = [Player(cluster_for(SCENARIOS[name], seed=1), SCENARIOS[name]).play().cluster for name in names]
    ours = {found for cluster in clusters for found in told(orjson.loads(orjson.dumps(sent(cluster))))}
    assert {found for found in ours - real if not found[0].startswith(FROM_EVALUATIONS)} == set()
    assert real - ours - NOT_TOLD == set()


def test_an_event_is_wrapped_as_recorded() -> None:
    real = recorded("startup")[0]["Events"][0]
    cluster = Cluster(1)
    cluster.run_for(20)
    ours = event_document(cluster.log[0].events[0], cluster.traits)
    assert ours.keys() == real.keys()
    assert (ours["Topic"], ours["FilterKeys"], ours["Namespace"]) == ("Node", None, "")
    assert ours["Key"] == ours["Payload"]["Node"]["ID"]


def test_the_api_tells_the_job_of_an_allocation_and_an_event_does_not() -> None:
    cluster = Cluster(1)
    cluster.run_for(20)
    cluster.jobs.register(environment_job(1, 1))
    cluster.run_for(5)
    (allocation,) = cluster.state.allocations.values()
    assert allocation_document(allocation)["Job"]["ID"] == "template-1"
    events = [event for batch in cluster.log for event in batch.events if event.topic == "Allocation"]
    assert all("Job" not in event_document(event, cluster.traits)["Payload"]["Allocation"] for event in events)


@pytest.mark.parametrize(("version", "marked"), [("1.10.5", False), ("1.11.3", True)])
def test_a_deleted_job_is_marked_by_newer_servers(version: str, marked: bool) -> None:
    cluster = Cluster(1)
    cluster.run_for(20)
    job, _ = cluster.jobs.register(environment_job(1, 1))
    traits = Traits.of(version)
    write = cluster.state.begin("JobDeregistered")
    write.drop_job(job.key, told=True)
    write.commit()
    document = event_document(cluster.log[-1].events[0], traits)
    assert document["Payload"].get("Deleted", False) is marked


def test_times_and_empty_fields() -> None:
    assert iso(None) is None
    assert iso(1_800_000_000.25) == "2027-01-15T08:00:00.250000Z"
    assert nanoseconds(1_800_000_000.25) == 1_800_000_000_250_000_000
    assert without_empty({"a": 0, "b": "", "c": None, "d": {}, "e": [], "f": False, "g": 1}) == {"g": 1}
