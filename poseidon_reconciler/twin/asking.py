"""One request to the embedded cluster's API, and the answer to it, without anything of HTTP around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct

from poseidon_reconciler.twin.jobs import Refused
from poseidon_reconciler.twin.records import JobKey
from poseidon_reconciler.twin.state import State
from poseidon_reconciler.twin.traits import Traits

_DEFAULT_WAIT_S = 300.0
_MAX_WAIT_S = 600.0
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

Item = TypeVar("Item")


class Answer(Struct, frozen=True):
    """What is answered; `index` is the age of it, 0 where Nomad tells none."""

    document: Any
    index: int = 0
    next_token: str = ""


class Ask(Struct, frozen=True):
    """What is asked: the variables of the path, the query, the decoded body, and the tables to read from."""

    state: State
    traits: Traits
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Any = None

    @property
    def namespace(self) -> str:
        """The namespace asked for; `*` means all."""
        return self.query.get("namespace") or "default"

    @property
    def job_key(self) -> JobKey:
        """The job that the path names."""
        return self.namespace, self.path["id"]

    @property
    def wanted_index(self) -> int:
        """The index that an answer has to be newer than; 0 if any will do. Raises `Refused`."""
        return self.number("index")

    @property
    def wait_s(self) -> float:
        """How long to wait for a newer answer, in seconds. Raises `Refused`."""
        text = self.query.get("wait", "")
        if not text:
            return _DEFAULT_WAIT_S
        unit = next((unit for unit in _UNITS if text.endswith(unit)), None)
        digits = text.removesuffix(unit) if unit is not None else ""
        if unit is None or not digits.replace(".", "", 1).isdigit():
            raise Refused(400, "Invalid wait time")
        return min(float(digits) * _UNITS[unit], _MAX_WAIT_S)

    def number(self, name: str) -> int:
        """A whole number from the query, 0 if it is not there. Raises `Refused`."""
        text = self.query.get(name) or "0"
        if not text.isdecimal():
            raise Refused(400, f"Invalid {name}")
        return int(text)

    def flag(self, name: str) -> bool:
        """Whether a switch is set in the query."""
        return name in self.query and self.query[name].lower() not in {"false", "0"}

    def in_namespace(self, namespace: str) -> bool:
        """Whether something in a namespace is asked for."""
        return self.namespace in {"*", namespace}


Read: TypeAlias = Callable[[Ask], Answer]


def page(
    ask: Ask, table: str, items: Sequence[Item], token: Callable[[Item], str], render: Callable[[Item], Any]
) -> Answer:
    """A page of a list: the items whose token is not before the one asked for, as many as asked for."""
    if ask.query.get("filter"):
        raise Refused(400, "filter expressions are not understood by this server")
    index = ask.state.table_index[table]
    per_page = ask.number("per_page") if ask.traits.pages_lists else 0
    if per_page <= 0:
        return Answer([render(item) for item in items], index)
    start = ask.query.get("next_token", "")
    ordered = [item for item in sorted(items, key=token) if token(item) >= start]
    following = token(ordered[per_page]) if len(ordered) > per_page else ""
    return Answer([render(item) for item in ordered[:per_page]], index, following)
