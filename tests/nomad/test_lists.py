"""Lists are whole or absent, and each job is read once for each time that it is registered."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from poseidon_reconciler.core.events import JobPayload
from poseidon_reconciler.core.reconciler import Reconciler
from poseidon_reconciler.nomad import pages
from poseidon_reconciler.nomad.api import Api
from poseidon_reconciler.nomad.connection import Connection
from poseidon_reconciler.nomad.lists import ListReader, Lists
from poseidon_reconciler.nomad.transport import Transport
from poseidon_reconciler.policy import Policy
from tests.nomad.fake_nomad import FakeNomad, Script, after, hang_up, text
from tests.nomad.jobs import OTHER, RUNNER, TEMPLATE, config_meta, document, runner, template


@pytest.fixture
def reader(api: Api) -> ListReader:
    return ListReader(api, {})


def jobs_of(lists: Lists) -> dict[str, JobPayload]:
    assert lists.snapshot.jobs is not None
    return {job.id: job for job in lists.snapshot.jobs}


def reads_of_jobs(nomad: FakeNomad) -> list[str]:
    return sorted(path.removeprefix("/v1/job/") for path in nomad.paths("GET") if path.startswith("/v1/job/"))


def fill(nomad: FakeNomad) -> None:
    nomad.add_job(template(2))
    nomad.add_job(runner())
    nomad.add_job(runner(OTHER, used="true"))
    for job_id in (TEMPLATE, RUNNER, OTHER):
        nomad.add_allocation(job_id, f"a-{job_id}")
        nomad.add_evaluation(job_id, f"e-{job_id}", "complete")
    nomad.add_node("n1")


async def test_four_lists_are_read_with_their_indexes(nomad: FakeNomad, reader: ListReader) -> None:
    fill(nomad)

    lists = await reader.read()

    snapshot = lists.snapshot
    assert snapshot.indexes == dict.fromkeys(("Jobs", "Allocations", "Nodes", "Evaluations"), nomad.index)
    assert set(jobs_of(lists)) == {TEMPLATE, RUNNER, OTHER}
    assert snapshot.allocations is not None
    assert snapshot.evaluations is not None
    assert snapshot.nodes is not None
    assert [len(snapshot.allocations), len(snapshot.evaluations), len(snapshot.nodes)] == [3, 3, 1]
    assert (lists.failures, lists.faults) == ({}, 0)


async def test_the_core_knows_everything_by_one_reading(nomad: FakeNomad, reader: ListReader) -> None:
    fill(nomad)
    reconciler = Reconciler(Policy())

    reconciler.feed_snapshot((await reader.read()).snapshot, 1000.0)

    verdicts = reconciler.diagnosis.verdicts
    assert {job_id: verdict.state for job_id, verdict in verdicts.items()} == {
        TEMPLATE: "active",
        RUNNER: "idle",
        OTHER: "used",
    }
    assert reconciler.planner.desk.target("10") == 2


async def test_a_job_is_read_whole_once_for_each_registration(nomad: FakeNomad, reader: ListReader) -> None:
    fill(nomad)
    await reader.read()
    nomad.requests.clear()
    await reader.read()
    assert reads_of_jobs(nomad) == []

    claimed = runner(used="true")
    nomad.add_job(claimed)
    lists = await reader.read()

    assert reads_of_jobs(nomad) == [RUNNER]
    used = {job_id: job.task_groups[1].meta for job_id, job in jobs_of(lists).items() if job.task_groups}
    assert used[RUNNER] == {"used": "true"}
    assert used[OTHER] == {"used": "true"}


async def test_a_status_changes_without_another_reading(nomad: FakeNomad, reader: ListReader) -> None:
    fill(nomad)
    await reader.read()
    nomad.requests.clear()
    nomad.index += 1
    nomad.jobs[RUNNER].update(Status="dead", ModifyIndex=nomad.index)

    lists = await reader.read()

    assert reads_of_jobs(nomad) == []
    assert jobs_of(lists)[RUNNER].status == "dead"
    assert jobs_of(lists)[RUNNER].task_groups is not None


async def test_the_same_index_after_a_restore_is_another_registration(nomad: FakeNomad, reader: ListReader) -> None:
    fill(nomad)
    await reader.read()
    nomad.requests.clear()
    config_meta(nomad.jobs[RUNNER])["used"] = "true"
    nomad.jobs[RUNNER]["SubmitTime"] += 1

    lists = await reader.read()

    assert reads_of_jobs(nomad) == [RUNNER]
    groups = jobs_of(lists)[RUNNER].task_groups
    assert groups is not None
    assert groups[1].meta == {"used": "true"}


async def test_a_job_that_is_gone_is_forgotten(nomad: FakeNomad, reader: ListReader) -> None:
    fill(nomad)
    await reader.read()
    del nomad.jobs[RUNNER]

    lists = await reader.read()

    assert RUNNER not in jobs_of(lists)
    assert RUNNER not in reader._known


async def test_strangers_are_listed_but_not_read(nomad: FakeNomad, reader: ListReader) -> None:
    nomad.add_job(document("web", {}))
    nomad.add_job({**document("10-service", {}), "Type": "service"})

    lists = await reader.read()

    assert set(jobs_of(lists)) == {"web", "10-service"}
    assert reads_of_jobs(nomad) == []


async def test_templates_are_kept_as_nomad_gave_them(nomad: FakeNomad, api: Api) -> None:
    templates: dict[str, bytes] = {}
    reader = ListReader(api, templates)
    fill(nomad)
    await reader.read()
    del nomad.jobs[TEMPLATE]
    await reader.read()

    assert set(templates) == {TEMPLATE}
    assert b'"prewarmingPoolSize":"2"' in templates[TEMPLATE]


async def test_a_job_that_vanishes_between_the_list_and_its_reading_is_not_listed(
    nomad: FakeNomad, reader: ListReader
) -> None:
    fill(nomad)
    gone = after(lambda n, _: n.jobs.pop(RUNNER), nomad, text(404, "job not found", {"X-Nomad-Index": "999"}))
    nomad.script("GET", f"/v1/job/{RUNNER}", gone)

    lists = await reader.read()

    assert set(jobs_of(lists)) == {TEMPLATE, OTHER}
    assert "Jobs" in lists.snapshot.indexes


@pytest.mark.parametrize(
    "faults", [[text(500, "No cluster leader")] * 4, [text(403, "Permission denied")], [hang_up] * 4]
)
async def test_jobs_of_which_one_cannot_be_read_are_not_read(
    nomad: FakeNomad, reader: ListReader, faults: list[Script]
) -> None:
    fill(nomad)
    nomad.script("GET", f"/v1/job/{RUNNER}", *faults)

    first = await reader.read()
    second = await reader.read()

    assert first.snapshot.jobs is None
    assert "Jobs" not in first.snapshot.indexes
    assert set(first.failures) == {"Jobs"}
    assert first.snapshot.allocations is not None
    assert set(jobs_of(second)) == {TEMPLATE, RUNNER, OTHER}


async def test_a_list_that_may_not_be_read_is_absent(nomad: FakeNomad, reader: ListReader) -> None:
    fill(nomad)
    nomad.script("GET", "/v1/nodes", text(403, "Permission denied"))

    lists = await reader.read()

    assert lists.snapshot.nodes is None
    assert "Nodes" not in lists.snapshot.indexes
    assert {table: failure.kind for table, failure in lists.failures.items()} == {"Nodes": "denied"}


async def test_an_unreadable_member_is_counted_and_nothing_is_gone_by_it(nomad: FakeNomad, reader: ListReader) -> None:
    fill(nomad)
    nomad.allocations[RUNNER].append({"ID": "z", "JobID": 5, "ClientStatus": "running", "DesiredStatus": "run"})

    lists = await reader.read()

    assert lists.faults == 1
    assert "Allocations" not in lists.snapshot.indexes
    assert lists.snapshot.allocations is not None
    assert len(lists.snapshot.allocations) == 3


@pytest.mark.parametrize("paging", [True, False])
async def test_lists_of_many_pages_are_whole(
    nomad: FakeNomad, reader: ListReader, monkeypatch: pytest.MonkeyPatch, paging: bool
) -> None:
    monkeypatch.setattr(pages, "PER_PAGE", 7)
    nomad.pages = paging
    for number in range(50):
        nomad.add_job(runner(f"10-{number:03}"))

    lists = await reader.read()

    assert len(jobs_of(lists)) == 50
    assert nomad.paths("GET").count("/v1/jobs") == (8 if paging else 1)


async def test_many_runners_are_read_side_by_side_but_leave_threads_free(nomad: FakeNomad) -> None:
    under_way, most = 0, 0
    for number in range(200):
        nomad.add_job(runner(f"10-{number:03}"))

    async def counted(request: web.Request) -> web.StreamResponse:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.005)
        under_way -= 1
        return nomad.respond(request)

    for number in range(200):
        nomad.script("GET", f"/v1/job/10-{number:03}", counted)
    api = Api(Transport(Connection(nomad.address), threads=6))
    lists = await ListReader(api, {}).read()
    await api.close()

    assert len(jobs_of(lists)) == 200
    assert most == 3


async def test_equal_groups_are_kept_once(nomad: FakeNomad, reader: ListReader) -> None:
    nomad.add_job(runner(RUNNER))
    nomad.add_job(runner(OTHER, used="true"))

    groups = [job.task_groups for job in jobs_of(await reader.read()).values()]

    first, second = groups
    assert first is not None
    assert second is not None
    assert first[0] is second[0]
    assert first[1].meta != second[1].meta
