"""The lists as they were sent: whole jobs of ours, each read once for each registration, with what is newer of them."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from poseidon_reconciler.nomad.api import Api
from poseidon_reconciler.nomad.raw_lists import Member, RawListReader, RawLists
from tests.nomad.fake_nomad import FakeNomad, text
from tests.nomad.jobs import OTHER, RUNNER, TEMPLATE, runner, template


@pytest.fixture
def reader(api: Api) -> RawListReader:
    return RawListReader(api)


def fill(nomad: FakeNomad) -> None:
    nomad.add_job(template(2))
    nomad.add_job(runner())
    nomad.add_job({**runner(OTHER), "ID": "somebody-elses", "Name": "somebody-elses"})
    nomad.add_allocation(RUNNER, "a1")
    nomad.add_evaluation(RUNNER, "e1", "complete")
    nomad.add_node("n1")


def jobs(lists: RawLists) -> dict[str, list[dict[str, Any]]]:
    documents = (list(map(orjson.loads, member)) for member in lists.members["Jobs"])
    return {parts[0]["ID"]: parts for parts in documents}


def first(members: list[Member]) -> dict[str, Any]:
    document: dict[str, Any] = orjson.loads(members[0][0])
    return document


async def test_members_are_as_they_were_sent_and_jobs_of_ours_whole(nomad: FakeNomad, reader: RawListReader) -> None:
    fill(nomad)

    lists = await reader.read()

    assert lists.indexes == dict.fromkeys(("Jobs", "Allocations", "Nodes", "Evaluations"), nomad.index)
    assert {id_: "TaskGroups" in parts[0] for id_, parts in jobs(lists).items()} == {
        TEMPLATE: True, RUNNER: True, "somebody-elses": False,
    }  # fmt: skip
    tables = ("Allocations", "Evaluations", "Nodes")
    assert [first(lists.members[table])["ID"] for table in tables] == ["a1", "e1", "n1"]
    assert lists.failures == {}


async def test_a_job_is_read_whole_once_for_each_registration(nomad: FakeNomad, reader: RawListReader) -> None:
    fill(nomad)
    await reader.read()
    nomad.requests.clear()
    nomad.index += 1
    nomad.jobs[RUNNER].update(Status="dead", ModifyIndex=nomad.index)

    whole, stub = jobs(await reader.read())[RUNNER]

    assert not [path for path in nomad.paths("GET") if path.startswith("/v1/job/")]
    assert "TaskGroups" in whole
    assert (whole["Status"] != "dead", stub["Status"]) == (True, "dead")

    nomad.add_job(runner(used="true"))
    (whole,) = jobs(await reader.read())[RUNNER]
    assert whole["TaskGroups"][1]["Meta"]["used"] == "true"


async def test_a_table_that_cannot_be_read_is_not_there(nomad: FakeNomad, reader: RawListReader) -> None:
    fill(nomad)
    nomad.script("GET", "/v1/nodes", text(403, "Permission denied"))

    lists = await reader.read()

    assert set(lists.members) == {"Jobs", "Allocations", "Evaluations"}
    assert set(lists.failures) == {"Nodes"}
    assert "Nodes" not in lists.indexes
