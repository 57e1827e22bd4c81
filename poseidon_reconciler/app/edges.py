"""The controller's edges, made of the room that talks to Nomad."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Final, Literal

from poseidon_reconciler.app.templates import TemplateStore
from poseidon_reconciler.app.tracing import Tracing, Untraced
from poseidon_reconciler.config import Settings
from poseidon_reconciler.controller import Input, StreamClosed, StreamDoubt, StreamFrame, StreamOpened
from poseidon_reconciler.core.events import Snapshot
from poseidon_reconciler.core.ids import template_id
from poseidon_reconciler.core.ledger import Action, ActionOutcome
from poseidon_reconciler.core.records import Job
from poseidon_reconciler.core.wording import counted
from poseidon_reconciler.nomad.confirm import AsOf
from poseidon_reconciler.nomad.connection import Connection
from poseidon_reconciler.nomad.documents import Stamp
from poseidon_reconciler.nomad.executor import Executor
from poseidon_reconciler.nomad.items import Closed, FrameReceived, Gap, Heartbeat, Item, MalformedLine, Opened
from poseidon_reconciler.nomad.lists import ListReader

_RESULTS: Final[dict[str, Literal["not-done", "not-wanted", "unknown"]]] = {
    "skipped": "not-wanted",
    "failed": "not-done",
    "unknown": "unknown",
}


def connection_of(settings: Settings) -> Connection:
    """Where Nomad is, by the settings; the token's file is read again whenever the token is needed."""
    nomad = settings.nomad

    def token() -> str | None:
        secret = nomad.read_token()
        return secret.get_secret_value() if secret is not None else None

    return Connection(
        address=nomad.address,
        namespace=nomad.namespace,
        region=nomad.region,
        token=token,
        ca_file=nomad.ca_file,
        cert_file=nomad.cert_file,
        key_file=nomad.key_file,
    )


def input_of(item: Item) -> Input | None:
    """What an item of the stream means to the controller; None for one that tells nothing new."""
    match item:
        case FrameReceived():
            if item.line.faults:
                return StreamDoubt(
                    f"{counted(item.line.faults, 'event')} of a line could not be read", item.received_at
                )
            return StreamFrame(item.line, item.received_at, item.data)
        case Opened():
            return StreamOpened(item.at)
        case Closed():
            return StreamClosed(f"{item.kind}: {item.reason}; next attempt in {item.retry_in_s:.1f} s", item.at)
        case Gap():
            return StreamDoubt(f"the stream went on at index {item.first}, not at {item.expected}", item.at)
        case MalformedLine():
            return StreamDoubt("a line of the stream could not be read", item.received_at)
        case Heartbeat():
            return None


class NomadLists:
    """The lists of the API, as the controller asks for them."""

    def __init__(self, reader: ListReader, templates: TemplateStore) -> None:
        self.tracing: Tracing = Untraced()
        self._reader = reader
        self._templates = templates

    async def read(self) -> tuple[Snapshot, str]:
        """What could be read, and what could not."""
        with self.tracing.listing():
            lists = await self._reader.read()
        problems = [f"{table}: {failure.detail}" for table, failure in lists.failures.items()]
        if lists.faults:
            problems.append(f"{lists.faults} members of lists could not be read")
        if self._templates.problem is not None:
            problems.append(f"templates are not kept: {self._templates.problem}")
        return lists.snapshot, "; ".join(problems)


def _subject_of(action: Action) -> str:
    """The job on which an action rests: a refill, which replaces nothing, on its environment's own."""
    if action.kind == "create-runner":
        return action.replaces or template_id(action.environment_id)
    return action.job_id


class NomadActions:
    """The actions on the API, as the controller orders them."""

    def __init__(self, executor: Executor, find: Callable[[str], Job | None], run_id: str) -> None:
        """`find` looks up what the model knows of a job; `run_id` tells the decisions of this process from others."""
        self.tracing: Tracing = Untraced()
        self._executor = executor
        self._find = find
        self._run_id = run_id
        self._numbers = itertools.count(1)

    async def execute(self, action: Action, may_write: Callable[[], bool]) -> ActionOutcome:
        """Confirms an action and carries it out."""
        with self.tracing.acting(action) as acting:
            outcome = await self._execute(action, may_write, acting.trace_id)
            acting.ended(outcome)
        return outcome

    async def _execute(self, action: Action, may_write: Callable[[], bool], trace_id: str | None) -> ActionOutcome:
        subject = self._find(_subject_of(action))
        as_of = AsOf.of(subject) if subject is not None else AsOf()
        stamp = Stamp(f"{self._run_id}/{next(self._numbers)}", trace_id)
        executed = await self._executor.execute(action, stamp, as_of, may_write)
        if executed.outcome in ("done", "already", "would"):
            return ActionOutcome("done", executed.detail, executed.index, executed.trouble)
        return ActionOutcome(_RESULTS[executed.outcome], executed.detail, trouble=executed.trouble)
