"""What Nomad's versions lack of what matters here, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from poseidon_reconciler.app.check.report import Check, fail, ok, warn
from poseidon_reconciler.nomad.versions import WITHOUT_TRAP, parse_version
from poseidon_reconciler.nomad.versions import Version as Number

_NO_STREAM: Final[Number] = (1, 0, 0)
# Answers with a status line that no client takes, mended in the next version.
_UNREADABLE_STREAM: Final[Number] = (1, 11, 2)
# Job.Plan, Job.Register and purging can be allowed one by one since this version.
_FINE_GRAINED: Final[Number] = (1, 11, 2)
# Since then a stream that may not be read is one in which nothing is said.
_DENIES_SILENTLY: Final[Number] = (1, 11, 2)


@dataclass(frozen=True, slots=True)
class _Lack:
    """Something that a version does not do. `consequence`: what that means for an operator; `policy`: only for one with
    that disconnect policy (None: for all).
    """

    concerns: Callable[[Number], bool]
    what: str
    consequence: str
    policy: str | None = None


def _before(number: Number) -> Callable[[Number], bool]:
    return lambda version: version < number


def _since_releases(*firsts: Number) -> Callable[[Number], bool]:
    """For a change that was made in several release lines at once, and in all later lines."""

    def concerns(version: Number) -> bool:
        first = next((first for first in firsts if first[:2] == version[:2]), firsts[-1])
        return version >= first

    return concerns


_LACKS: Final = (
    _Lack(
        _before((1, 3, 0)),
        "no max_client_disconnect",
        "leave-alone cannot keep Nomad from replacing what is out of reach",
        policy="leave-alone",
    ),
    _Lack(
        _before((1, 7, 4)),
        "a purge sends no Job event",
        "stop a job before you purge it, as this program does, or Poseidon goes on with it",
    ),
    _Lack(
        _since_releases((1, 10, 14), (1, 11, 8), (2, 0, 4)),
        "batch allocations are not replaced when their node is drained",
        "a drain ends the idle runners of a node for good: drain one node after the other while `run` refills",
    ),
)


def look_at_version(text: str, disconnect_policies: Collection[str]) -> Check:
    """What is to be said of a version to one who has these disconnect policies."""
    version = parse_version(text)
    if version is None:
        advice = "see that it is 1.0 or later"
        return warn("version", f"{text!r} is not understood", advice)
    if version < _NO_STREAM:
        return fail("version", f"{text} has no event stream", "upgrade Nomad to 1.0 or later")
    if version == _UNREADABLE_STREAM:
        return fail(
            "version", f"{text} speaks HTTP/0.0 on its event stream, which no client reads", "upgrade to 1.11.3"
        )
    concerned = (None, *disconnect_policies)
    lacks = [lack for lack in _LACKS if lack.policy in concerned and lack.concerns(version)]
    if not lacks:
        return ok("version", text)
    detail = f"{text}: {'; '.join(lack.what for lack in lacks)}"
    return warn("version", detail, "; ".join(lack.consequence for lack in lacks))


def plans_are_a_right_of_their_own(version: str | None) -> bool:
    """Whether a token may be allowed to plan a job and not to register one."""
    return _may_be_since(_FINE_GRAINED, version)


def denies_silently(version: str | None) -> bool:
    """Whether silence on the event stream can mean that the token may not read it."""
    return _may_be_since(_DENIES_SILENTLY, version)


def spares_jobs(version: str | None) -> bool:
    """Whether no evaluation ends a living job for an old allocation of it that seems to have finished its work."""
    number = parse_version(version or "")
    return number is not None and number >= WITHOUT_TRAP


def _may_be_since(first: Number, version: str | None) -> bool:
    number = parse_version(version or "")
    return number is None or number >= first
