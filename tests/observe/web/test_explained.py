"""The page that explains a verdict says which agent to look at, and where a surplus came from."""

from __future__ import annotations

import re

from tests.core.builders import runner
from tests.observe.web.serving import eventful


async def shown(path: str) -> str:
    """The text of a page, without its markup."""
    async with eventful().serving() as client, client.get(path) as answer:
        assert answer.status == 200
        return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", await answer.text()))


async def test_a_lost_job_tells_with_which_node_it_was_lost() -> None:
    page = await shown(f"/explain/{runner(0)}")
    assert re.search(
        r"Lost with its node: agent-a0, went down, ready again after 8s \(\S+ \S+ UTC\); 1 lost, 1 stuck-complete\.",
        page,
    )
    assert "Lost with its node" not in await shown(f"/explain/{runner(1)}")


async def test_an_environment_tells_its_losses_by_node_and_how_its_surplus_came_about() -> None:
    page = await shown("/explain/10")
    assert "1 more than the target: 2 came back from nodes out of reach." in page
    assert "Losses by node" in page
    assert "agent-a0" in page
