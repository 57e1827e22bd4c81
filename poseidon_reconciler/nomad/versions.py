"""What a server's version decides for us."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

Version = tuple[int, int, int]

# From here on the scheduler disregards allocations whose stop was ordered: a late `complete` ends no job any more.
_WITHOUT_TRAP: Final[Version] = (1, 11, 2)
_VERSION: Final = re.compile(r"v?([0-9]{1,6})\.([0-9]{1,6})\.([0-9]{1,6})(.*)", re.DOTALL)


def parse_version(text: str) -> Version | None:
    """The numbers of a version such as `1.10.5` or `1.10.5+ent`; None for another text. A release that is still to come
    (`1.11.2-beta.1`) counts as the one before.
    """
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        return None
    version = (int(match[1]), int(match[2]), int(match[3]))
    return (*version[:2], version[2] - 1) if match[4].startswith("-") else version


def needs_protection(versions: Iterable[str]) -> bool:
    """Whether servers of these versions can end a living job for an old allocation's sake; in doubt they can."""
    parsed = [parse_version(text) for text in versions]
    return not parsed or any(version is None or version < _WITHOUT_TRAP for version in parsed)
