"""What a server's version decides for us."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

Version = tuple[int, int, int]

# From here on the scheduler disregards allocations whose stop was ordered: a late `complete` ends no job any more.
WITHOUT_TRAP: Final[Version] = (1, 11, 2)
_VERSION: Final = re.compile(r"v?([0-9]{1,6})\.([0-9]{1,6})\.([0-9]{1,6})(.*)", re.DOTALL)


def parse_version(text: str) -> Version | None:
    """The numbers of a version such as `1.10.5`, `1.10.5+ent` or `1.11.2-beta.1`; None for another text."""
    match = _VERSION.fullmatch(text.strip())
    return (int(match[1]), int(match[2]), int(match[3])) if match is not None else None


def needs_protection(versions: Iterable[str]) -> bool:
    """Whether servers of these versions can end a living job for an old allocation's sake; in doubt they can."""
    known = list(versions)
    return not known or any(_may_have_trap(text) for text in known)


def _may_have_trap(text: str) -> bool:
    version = parse_version(text)
    # What is still to come in a version need not be in its first builds.
    return version is None or version < WITHOUT_TRAP or "-" in text
