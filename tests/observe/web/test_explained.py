"""The page that explains a verdict says which agent to look at, and where a surplus came from."""

from __future__ import annotations

import re

from tests.core.builders import allocation, bench_with_pool, job, lose, runner
from tests.observe.web.serving import Served, eventful, pool


async def shown(path: str, served: Served | None = None) -> str:
    """The text of a page, without its markup."""
    async with (served or eventful()).serving() as client, client.get(path) as answer:
        assert answer.status == 200
        return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", await answer.text()))


async def test_a_lost_job_tells_with_which_node_it_was_lost() -> None:
    page = await shown(f"/explain/{runner(0)}")
    assert re.search(
        r"Last on agent-a0\. Its loss is traced to agent-a0: \S+ \S+ UTC went down, ready again after 8s; "
        r"1 lost, 1 stuck-complete\.",
        page,
    )
    assert "traced to" not in await shown(f"/explain/{runner(1)}")


async def test_an_environment_tells_its_losses_by_node_and_how_its_surplus_came_about() -> None:
    page = await shown("/explain/10")
    assert "1 more than the target: 2 came back from nodes out of reach." in page
    assert "Losses by the node to which they are traced" in page
    assert "agent-a0" in page


async def test_a_lost_job_and_the_runner_in_its_place_tell_of_each_other() -> None:
    served = pool()
    served.lose(0, index=500)
    created = next(action for action in served.bench.actions if action.kind == "create-runner")
    page = await shown(f"/explain/{runner(0)}", served)
    assert f"create-runner {created.job_id} in its place" in page
    assert "lost for good: stuck-complete" in page

    page = await shown(f"/explain/{created.job_id}", served)
    assert "It was decided on for environment 10 ; no such job is known." in page
    assert f"It is to replace {runner(0)} ." in page
    assert "under way" in page

    served.bench.feed(job(created.job_id, index=600), allocation("x", created.job_id, index=601))
    assert f"It replaces {runner(0)} ." in await shown(f"/explain/{created.job_id}", served)
    assert f"Replaced by {created.job_id} ." in await shown(f"/explain/{runner(0)}", served)


async def test_a_lost_job_tells_what_holds_it_back() -> None:
    served = Served(bench_with_pool(6))
    for number in range(3):
        lose(served.bench, number, index=300 + number)
    served.bench.wait(20)
    page = await shown(f"/explain/{runner(0)}", served)
    assert re.search(r"Held back since .* UTC: storm: many runners or nodes were lost together, until .* UTC\.", page)
