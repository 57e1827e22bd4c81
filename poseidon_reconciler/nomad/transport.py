"""One request and its answer through python-nomad, off the event loop, with a bound on everything.

python-nomad is synchronous, and its sessions must not be shared between threads: so there is a small pool of threads,
and each has endpoints and a session of its own. They are built one by one, because `nomad.Nomad` takes what it is not
given from the process's environment; and they verify the server always, which python-nomad by default does not.

What an exception means is said here once: a request that never left (`Unavailable`) did nothing, after any other
(`Unknown`) nobody can tell. No exception of python-nomad or requests gets out.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar

import requests
from nomad.api.agent import Agent
from nomad.api.allocation import Allocation
from nomad.api.allocations import Allocations
from nomad.api.evaluations import Evaluations
from nomad.api.exceptions import BaseNomadException, TimeoutNomadException
from nomad.api.job import Job
from nomad.api.jobs import Jobs
from nomad.api.node import Node
from nomad.api.nodes import Nodes
from urllib3.exceptions import HTTPError, MaxRetryError, NewConnectionError

from poseidon_reconciler.nomad.connection import USER_AGENT, Connection
from poseidon_reconciler.nomad.outcomes import Answer, Outcome, Rejected, Unavailable, Unknown, failure_of

T = TypeVar("T")

Endpoint = Literal["job", "jobs", "allocation", "allocations", "evaluations", "node", "nodes", "agent"]

MAX_ANSWER_BYTES: Final = 512 * 1024 * 1024
# Endpoints that are asked about one object, by its id.
_BY_ID: Final[frozenset[Endpoint]] = frozenset({"job", "allocation", "node"})
_CHUNK_BYTES: Final = 256 * 1024
_ENDPOINTS: Final[dict[Endpoint, Any]] = {
    "job": Job,
    "jobs": Jobs,
    "allocation": Allocation,
    "allocations": Allocations,
    "evaluations": Evaluations,
    "node": Node,
    "nodes": Nodes,
    "agent": Agent,
}


@dataclass(frozen=True, slots=True)
class Request:
    """What to ask. `path` follows the endpoint; its parts are quoted already."""

    method: Literal["get", "post", "delete"]
    endpoint: Endpoint
    path: tuple[str, ...] = ()
    params: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None

    @property
    def route(self) -> str:
        """The path without what tells one object from another: `/v1/job/:id/allocations`."""
        path = (":id", *self.path[1:]) if self.endpoint in _BY_ID and self.path else self.path
        return "/".join(("/v1", self.endpoint, *path))

    @property
    def writes(self) -> bool:
        """Whether it is to change anything."""
        return self.method != "get" and self.path[-1:] != ("plan",)


@dataclass(frozen=True, slots=True)
class RequestReport:
    """What became of a request: `status` None where no answer came, `outcome` its kind, `duration_s` on the wire."""

    request: Request
    status: int | None
    outcome: str
    duration_s: float


def _tell_nobody(report: RequestReport) -> None:
    """Where nobody wants to know."""


class Transport:
    """Sends requests from a pool of threads.

    Args:
        threads: how many requests may be under way at once.
        timeout_s: how long to wait for the next bytes; half of it for a connection.
        deadline_s: how long a whole answer may take.
        max_answer_bytes: how long an answer may be, unpacked.

    Attributes:
        on_answer: is told what became of each request, in the task that sent it; must not block and not raise.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        threads: int = 8,
        timeout_s: float = 5.0,
        deadline_s: float = 60.0,
        max_answer_bytes: int = MAX_ANSWER_BYTES,
    ) -> None:
        self.threads = threads
        self.on_answer: Callable[[RequestReport], None] = _tell_nobody
        self._connection = connection
        self._timeout_s = timeout_s
        self._deadline_s = deadline_s
        self._max_answer_bytes = max_answer_bytes
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="nomad-api")
        self._local = threading.local()
        self._sessions: list[requests.Session] = []
        self._closing = threading.Event()

    async def send(self, request: Request, read: Callable[[Answer], Outcome[T]]) -> Outcome[T]:
        """Sends a request, and reads its answer with `read` on the same thread if its status is one of success."""
        outcome, report = await asyncio.get_running_loop().run_in_executor(self._pool, self._send, request, read)
        # Here and not on the thread: an executor does not take over the context, in which stands who asks.
        self.on_answer(report)
        return outcome

    async def close(self) -> None:
        """Drops what has not begun, waits for what has (at most the timeouts), and closes all connections."""
        self._closing.set()
        await asyncio.to_thread(self._pool.shutdown, wait=True, cancel_futures=True)
        for session in self._sessions:
            session.close()

    # --- on a thread of the pool ---------------------------------------------------------------------------------

    def _send(self, request: Request, read: Callable[[Answer], Outcome[T]]) -> tuple[Outcome[T], RequestReport]:
        began = time.monotonic()
        answer = self._answer(request, began + self._deadline_s)
        took_s = time.monotonic() - began
        if not isinstance(answer, Answer):
            return answer, RequestReport(request, None, answer.kind, took_s)
        outcome = failure_of(answer) or read(answer)
        return outcome, RequestReport(request, answer.status, outcome.kind, took_s)

    def _answer(self, request: Request, deadline: float) -> Answer | Rejected | Unavailable | Unknown:
        try:
            token = self._connection.token()
        except (OSError, ValueError) as error:
            return Unavailable(f"the token cannot be read: {error}")
        try:
            response = self._respond(request, token)
            with response:
                return Answer(response.status_code, response.headers, self._read_body(response, deadline))
        except (BaseNomadException, TimeoutNomadException, HTTPError, OSError) as error:
            return _meaning_of(_cause_of(error))

    def _respond(self, request: Request, token: str | None) -> requests.Response:
        """The answer of any status, its body not read yet."""
        endpoint = self._endpoints()[request.endpoint]
        endpoint.token = token
        headers = {"Content-Type": "application/json"} if request.body is not None else {}
        params = {**self._connection.scope(), **request.params}
        try:
            response = endpoint.request(
                *request.path,
                method=request.method,
                params=params,
                data=request.body,
                headers=headers,
                timeout=(self._timeout_s / 2, self._timeout_s),
                stream=True,  # or python-nomad would say False
            )
        except BaseNomadException as error:
            if not isinstance(error.nomad_resp, requests.Response):
                raise
            response = error.nomad_resp
        assert isinstance(response, requests.Response)
        return response

    def _endpoints(self) -> dict[Endpoint, Any]:
        endpoints: dict[Endpoint, Any] | None = getattr(self._local, "endpoints", None)
        if endpoints is None:
            session = requests.Session()
            # Neither a proxy, nor a certificate authority, nor a password for the host out of the environment.
            session.trust_env = False
            # python-nomad follows redirects of a DELETE: to wherever they lead, with the token.
            session.max_redirects = 0
            # python-nomad can ask for this in a GET only; without it a body is read to its end, however long it is.
            session.stream = True
            session.headers["User-Agent"] = USER_AGENT
            self._sessions.append(session)
            settings = {
                "address": self._connection.base_url,
                "verify": self._connection.trusted,
                "cert": self._connection.client_certificate,
                "session": session,
            }
            endpoints = {name: kind(**settings) for name, kind in _ENDPOINTS.items()}
            self._local.endpoints = endpoints
        return endpoints

    def _read_body(self, response: requests.Response, deadline: float) -> bytes:
        pieces, size = [], 0
        # Not `iter_content`: it waits until a piece is whole, however slowly its bytes come in.
        while piece := response.raw.read1(_CHUNK_BYTES, decode_content=True):
            pieces.append(piece)
            size += len(piece)
            if self._closing.is_set():
                raise OSError("closed while the answer was read")
            if size > self._max_answer_bytes:
                raise OSError(f"the answer is longer than {self._max_answer_bytes} bytes")
            if time.monotonic() > deadline:
                raise OSError(f"the answer took longer than {self._deadline_s:g} s")
        return b"".join(pieces)


def _cause_of(error: BaseException) -> BaseException:
    """The exception that python-nomad has wrapped."""
    inner = getattr(error, "nomad_resp", None) or (error.args[0] if error.args else None)
    return inner if isinstance(inner, BaseException) and not isinstance(error, requests.ConnectionError) else error


def _meaning_of(error: BaseException) -> Rejected | Unavailable | Unknown:
    detail = _in_one_line(error)
    if isinstance(error, requests.TooManyRedirects):
        return Rejected("redirected: this is no answer of Nomad")
    if _never_left(error):
        return Unavailable(detail)
    return Unknown(detail)


def _never_left(error: BaseException) -> bool:
    """Whether a request surely did not reach the server."""
    if isinstance(error, requests.ConnectTimeout | requests.exceptions.InvalidHeader | requests.exceptions.InvalidURL):
        return True
    if isinstance(error, requests.exceptions.SSLError):
        return "CERTIFICATE_VERIFY_FAILED" in str(error) or "WRONG_VERSION_NUMBER" in str(error)
    reason = error.args[0] if isinstance(error, requests.ConnectionError) and error.args else None
    if isinstance(reason, MaxRetryError):
        return isinstance(reason.reason, NewConnectionError)
    return type(error) is OSError and str(error).startswith("Could not find")  # a certificate's file


def _in_one_line(error: BaseException) -> str:
    reason = error.args[0] if error.args else error
    if isinstance(reason, MaxRetryError) and reason.reason is not None:
        reason = reason.reason
    text = " ".join(str(reason).split())
    # urllib3 puts the object that failed, with its address in memory, before what happened to it.
    text = text.split(" object at 0x")[-1].split(">: ")[-1] if " object at 0x" in text else text
    return text[:300] or type(error).__name__
