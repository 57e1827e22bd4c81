"""The sections of the page as they are written, for those who read it without a browser."""

from __future__ import annotations

from tests.observe.web.serving import Served, pool


async def written(served: Served) -> str:
    async with served.serving() as client, client.get("/") as answer:
        return await answer.text()


async def test_no_more_is_never_less_than_none() -> None:
    page = await written(pool())
    assert "and 0 more" in page
    assert "and -" not in page


async def test_each_number_of_a_pool_says_what_it_means() -> None:
    served = pool()
    served.lose(0, index=500)
    page = await written(served)
    for text in ("on their way", "1 expected", "what the target lacks beyond", "Used runners do not count"):
        assert text in page
    assert "1 idle runner missing in 1 pool (1 on their way)." in page


async def test_that_nothing_is_lost_does_not_say_that_nothing_was_removed() -> None:
    page = await written(pool())
    assert "Nothing was lost" not in page
    assert "No job died for good since the start; what others stopped or purged is not counted." in page
