"""What became of a request, in the only words the rest of the program may decide by.

Nomad answers many things with status 500 and a text, its proxies and look-alikes answer anything, and what an exception
of a client library means for a write is not obvious. It is decided once, here: what surely did not happen, what surely
did, and what nobody knows. Nothing is ever held to be gone because somebody did not answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Generic, TypeVar

from poseidon_reconciler.core.events import UNKNOWN

T = TypeVar("T")

_ENFORCED: Final = "Enforcing job modify index"
_REGISTRATION_DISABLED: Final = "disabled by the scheduler configuration"
_DENIED: Final = ("Permission denied", "ACL token not found", "ACL token expired", "ACL token is invalid")
_NO_SERVICE: Final = ("No cluster leader", "Not ready to serve consistent reads", "No path to region")
_SHOWN_CHARACTERS: Final = 200
# By default Nomad answers from its leader, 0 ms after the last contact. More means that somebody allowed stale reads.
_MAX_LAST_CONTACT_MS: Final = 5_000


@dataclass(frozen=True, slots=True)
class Ok(Generic[T]):
    """It worked. `index` is the answer's `X-Nomad-Index`, or for a write the job's new `JobModifyIndex`."""

    value: T
    index: int = UNKNOWN
    kind: ClassVar[str] = "ok"


@dataclass(frozen=True, slots=True)
class NotFound:
    """Nomad itself says that there is no such thing, as of `index`."""

    detail: str
    index: int = UNKNOWN
    kind: ClassVar[str] = "not-found"


@dataclass(frozen=True, slots=True)
class Denied:
    """The token may not do this."""

    detail: str
    kind: ClassVar[str] = "denied"


@dataclass(frozen=True, slots=True)
class Conflict:
    """Somebody else was faster: the job is not as it was when we read it. Nothing was changed."""

    detail: str
    kind: ClassVar[str] = "conflict"


@dataclass(frozen=True, slots=True)
class Held:
    """The operators have switched off the registration of jobs. Nothing was changed."""

    detail: str
    kind: ClassVar[str] = "held"


@dataclass(frozen=True, slots=True)
class Rejected:
    """The request itself is not acceptable; it will not be later either. Nothing was changed."""

    detail: str
    kind: ClassVar[str] = "rejected"


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Nomad cannot serve this now. Nothing was changed."""

    detail: str
    kind: ClassVar[str] = "unavailable"


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nothing can be concluded: no answer, a stale one, or one that is not Nomad's. A write may have happened."""

    detail: str
    kind: ClassVar[str] = "unknown"


Failure = NotFound | Denied | Conflict | Held | Rejected | Unavailable | Unknown
Outcome = Ok[T] | Failure


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer, read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def index(self) -> int:
        """The index at which the answer was true; `UNKNOWN` if it does not say."""
        return _number(self.headers.get("X-Nomad-Index", ""))

    @property
    def text(self) -> str:
        """The beginning of the body as one line, to be shown."""
        text = " ".join(self.body[: 4 * _SHOWN_CHARACTERS].decode("utf-8", "replace").split())
        return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


def failure_of(answer: Answer) -> Failure | None:
    """What an answer's status and text mean; None if it is one to be read."""
    status, text = answer.status, answer.text
    detail = f"{status} {text}".rstrip()
    if 200 <= status < 300:
        return None
    if status == 404:
        return _not_found(answer)
    if 300 <= status < 400:
        return Rejected(f"{status}: redirected to {answer.headers.get('Location', 'nowhere')!r}")
    if _REGISTRATION_DISABLED in text:
        return Held(detail)
    if status in (401, 403) or (status == 500 and text.endswith(_DENIED)):
        return Denied(detail)
    if _ENFORCED in text:
        return Conflict(detail)
    if status == 429 or any(phrase in text for phrase in _NO_SERVICE):
        return Unavailable(detail)
    if status < 500:
        return Rejected(detail)
    return Unknown(detail)


def staleness_of(answer: Answer) -> Unknown | None:
    """Why a read answer may not be true any more; None if it is to be trusted."""
    if answer.index == UNKNOWN:
        return Unknown(f"{answer.status} without an index: this is no answer of Nomad")
    if answer.headers.get("X-Nomad-KnownLeader", "true").lower() == "false":
        return Unknown("the server knows no leader: what it says may be old")
    last_contact = answer.headers.get("X-Nomad-LastContact", "0")
    last_contact_ms = _number(last_contact)
    if last_contact_ms == UNKNOWN or last_contact_ms > _MAX_LAST_CONTACT_MS:
        return Unknown(f"the server last heard from its leader {last_contact[:20]} ms ago: what it says may be old")
    return None


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else UNKNOWN


def _not_found(answer: Answer) -> Failure:
    """404 is also what any other web server says to any of our requests."""
    if "not found" not in answer.text.lower():
        return Unknown(f"404 {answer.text}".rstrip())
    return staleness_of(answer) or NotFound(f"404 {answer.text}", answer.index)
