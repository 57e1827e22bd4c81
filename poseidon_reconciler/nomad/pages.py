"""A list of any length in answers of bounded length, as one list with the index at which it was complete.

Between two pages the cluster goes on: what is then created may be missed, so the list as a whole is no newer than its
oldest page. Servers before 1.3 ignore paging and send everything at once. A member that cannot be read makes the list
incomplete, and an incomplete list must not tell that something is gone: it has no index.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import msgspec

from poseidon_reconciler.core.events import UNKNOWN
from poseidon_reconciler.nomad.outcomes import Answer, Ok, Outcome, Unknown, staleness_of

T = TypeVar("T")

PER_PAGE: Final = 1000
_MAX_PAGES: Final = 10_000

_raws: Final = msgspec.json.Decoder(list[msgspec.Raw] | None)


@dataclass(slots=True)
class Page(Generic[T]):
    """Members of a list. `index` is `UNKNOWN` if `faults` of them could not be read."""

    members: list[T]
    index: int
    next_token: str = ""
    faults: int = 0


Ask = Callable[[dict[str, str], Callable[[Answer], Outcome[Page[T]]]], Awaitable[Outcome[Page[T]]]]


async def read_pages(ask: Ask[T], kind: type[T]) -> Outcome[Page[T]]:
    """Asks for page after page and puts them together; the first failure is that of the whole."""
    decoder = msgspec.json.Decoder(kind)
    whole: Page[T] | None = None
    for _ in range(_MAX_PAGES):
        params = {"per_page": str(PER_PAGE)}
        if whole is not None:
            params["next_token"] = whole.next_token
        outcome = await ask(params, lambda answer: _read_page(answer, decoder))
        if not isinstance(outcome, Ok):
            return outcome
        page = outcome.value
        if whole is None:
            whole = page
        elif page.next_token == whole.next_token:
            return Unknown(f"the list does not go on after {page.next_token!r}")
        else:
            _append(whole, page)
        if not whole.next_token:
            return Ok(whole, whole.index)
    return Unknown(f"the list does not end after {_MAX_PAGES} pages")


def _append(whole: Page[T], page: Page[T]) -> None:
    whole.members += page.members
    whole.index = min(whole.index, page.index)
    whole.next_token = page.next_token
    whole.faults += page.faults


def _read_page(answer: Answer, decoder: msgspec.json.Decoder[T]) -> Outcome[Page[T]]:
    """Decodes member by member, so that the interpreter can serve the event loop in between."""
    stale = staleness_of(answer)
    if stale is not None:
        return stale
    try:
        raws = _raws.decode(answer.body) or []
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Unknown(f"{answer.status} with an unreadable list: {error}")
    page: Page[T] = Page([], answer.index, answer.headers.get("X-Nomad-NextToken", ""))
    for raw in raws:
        try:
            page.members.append(decoder.decode(raw))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            page.faults += 1
            page.index = UNKNOWN
    return Ok(page, answer.index)
