"""A small Nomad on loopback whose answers, and whose ways of not answering, a test can script.

It keeps jobs as documents and honours EnforceIndex and purge, with the texts of a real server. It schedules nothing:
allocations, evaluations and plans are what the test puts there.
"""

from __future__ import annotations

import asyncio
import copy
import ssl
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import orjson
from aiohttp import web

JsonObject = dict[str, Any]
Script = Callable[[web.Request], Awaitable[web.StreamResponse]]


def text(status: int, body: str, headers: Mapping[str, str] | None = None) -> Script:
    """An answer in place of the right one."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text=body, headers=headers)

    return answer


async def hang_up(request: web.Request) -> web.StreamResponse:
    """Closes the connection in place of an answer; nothing was done."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def never(request: web.Request) -> web.StreamResponse:
    """Does not answer."""
    await asyncio.sleep(3600)
    return web.Response()


def stream(*pieces: bytes | float, end: str = "eof", status: int = 200) -> Script:
    """A stream of these pieces (numbers are pauses in seconds).

    `end`: `eof`, `cut` (in the middle of a chunk), `gone` (between two of them) or `open` (goes on without a word).
    """

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=status, headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        for piece in pieces:
            if isinstance(piece, bytes):
                await response.write(piece)
            else:
                await asyncio.sleep(piece)
        if end in ("cut", "gone"):
            assert request.transport is not None
            if end == "cut":
                request.transport.write(b"ffff\r\n{")
            request.transport.close()
        elif end == "open":
            await asyncio.sleep(3600)
        return response

    return answer


@dataclass
class FakeNomad:
    """The cluster's state, and the requests that were made of it."""

    index: int = 100
    jobs: dict[str, JsonObject] = field(default_factory=dict)
    allocations: dict[str, list[JsonObject]] = field(default_factory=lambda: defaultdict(list))
    evaluations: dict[str, list[JsonObject]] = field(default_factory=lambda: defaultdict(list))
    nodes: dict[str, JsonObject] = field(default_factory=dict)
    plans: dict[str, JsonObject] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    pages: bool = True
    requests: list[web.BaseRequest] = field(default_factory=list)
    bodies: list[JsonObject] = field(default_factory=list)
    on_register: Callable[[JsonObject], None] = lambda _: None
    address: str = ""

    def __post_init__(self) -> None:
        self._scripts: dict[tuple[str, str], deque[Script]] = defaultdict(deque)
        self._runner: web.AppRunner | None = None
        self.ssl_context: ssl.SSLContext | None = None

    # --- what a test does ------------------------------------------------------------------------------------------

    def script(self, method: str, path: str, *answers: Script) -> None:
        """The next requests of this path get these answers, one each."""
        self._scripts[method, path].extend(answers)

    def add_job(self, document: JsonObject, status: str = "running") -> JsonObject:
        """Registers a job as the server does, whatever was there."""
        self.index += 1
        old = self.jobs.get(document["ID"], {})
        job = {
            "Type": "batch",
            "Stop": False,
            **copy.deepcopy(document),
            "Status": status,
            "Version": old.get("Version", -1) + 1,
            "CreateIndex": old.get("CreateIndex", self.index),
            "ModifyIndex": self.index,
            "JobModifyIndex": self.index,
            "SubmitTime": self.index * 1_000_000,
        }
        self.jobs[job["ID"]] = job
        return job

    def add_allocation(self, job_id: str, allocation_id: str, **fields: Any) -> JsonObject:
        self.index += 1
        allocation = {
            "ID": allocation_id,
            "JobID": job_id,
            "TaskGroup": "default-group",
            "NodeID": "n1",
            "ClientStatus": "running",
            "DesiredStatus": "run",
            "JobVersion": 0,
            "CreateIndex": self.index,
            "ModifyIndex": self.index,
            **fields,
        }
        self.allocations[job_id].append(allocation)
        return allocation

    def add_evaluation(self, job_id: str, evaluation_id: str, status: str) -> JsonObject:
        self.index += 1
        evaluation = {
            "ID": evaluation_id,
            "JobID": job_id,
            "Status": status,
            "CreateIndex": self.index,
            "ModifyIndex": self.index,
        }
        self.evaluations[job_id].append(evaluation)
        return evaluation

    def add_node(self, node_id: str, status: str = "ready") -> None:
        self.index += 1
        self.nodes[node_id] = {"ID": node_id, "Name": node_id, "Status": status, "ModifyIndex": self.index}

    def paths(self, method: str) -> list[str]:
        """The paths that were asked for with this method."""
        return [request.path for request in self.requests if request.method == method]

    @property
    def writes(self) -> list[str]:
        """What changed the cluster, or tried to."""
        return [
            f"{request.method} {request.path_qs.split('?')[0]}"
            for request in self.requests
            if request.method != "GET" and not request.path.endswith("/plan")
        ]

    # --- as a server -----------------------------------------------------------------------------------------------

    async def __aenter__(self) -> FakeNomad:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._serve)
        # A client that has gone, or a test that has ended, waits for no handler.
        self._runner = web.AppRunner(app, shutdown_timeout=0.05, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self.ssl_context)
        await site.start()
        port = self._runner.addresses[0][1]
        self.address = f"{'https' if self.ssl_context else 'http'}://127.0.0.1:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        if request.can_read_body:
            self.bodies.append(orjson.loads(await request.read()))
        scripts = self._scripts[request.method, request.path]
        if scripts:
            return await scripts.popleft()(request)
        return self.respond(request)

    def respond(self, request: web.Request) -> web.Response:
        """The right answer, with its effect."""
        parts = request.path.removeprefix("/v1/").split("/")
        match request.method, parts:
            case "GET", [table]:
                return self._list(request, self._members(table))
            case "GET", ["node", node_id]:
                return self._found(self.nodes.get(node_id), "node not found")
            case "GET", ["job", job_id]:
                return self._found(self.jobs.get(job_id), "job not found")
            case "GET", ["job", job_id, "allocations"]:
                return self._json(self.allocations[job_id])
            case "GET", ["job", job_id, "evaluations"]:
                return self._json(self.evaluations[job_id])
            case "POST", ["job", job_id, "plan"]:
                return self._json(self.plans[job_id])
            case "POST", ["jobs"]:
                return self._register(self.bodies[-1])
            case "DELETE", ["job", job_id]:
                return self._deregister(job_id, purge=request.query.get("purge") == "true")
        return web.Response(status=404, text="Invalid path")

    def _members(self, table: str) -> list[JsonObject]:
        tables: dict[str, list[JsonObject]] = {
            "jobs": [_stub(job) for job in self.jobs.values()],
            "allocations": [a for found in self.allocations.values() for a in found],
            "evaluations": [e for found in self.evaluations.values() for e in found],
            "nodes": list(self.nodes.values()),
        }
        return tables[table]

    def _register(self, body: JsonObject) -> web.Response:
        document = body["Job"]
        old, enforced = self.jobs.get(document["ID"]), body["JobModifyIndex"]
        assert body["EnforceIndex"] is True
        if old is not None and enforced == 0:
            return web.Response(status=500, text="Enforcing job modify index 0: job already exists")
        if old is None and enforced:
            return web.Response(status=500, text=f"Enforcing job modify index {enforced}: job does not exist")
        if old is not None and old["JobModifyIndex"] != enforced:
            conflict = f"job exists with conflicting job modify index: {old['JobModifyIndex']}"
            return web.Response(status=500, text=f"Enforcing job modify index {enforced}: {conflict}")
        job = self.add_job(document, status="pending")
        self.on_register(job)
        return web.json_response({"JobModifyIndex": job["JobModifyIndex"], "Index": self.index, "KnownLeader": False})

    def _deregister(self, job_id: str, *, purge: bool) -> web.Response:
        job = self.jobs.get(job_id)
        if job is None:
            return web.json_response({"JobModifyIndex": 0, "EvalID": ""})
        self.index += 1
        job.update(Stop=True, JobModifyIndex=self.index, ModifyIndex=self.index)
        if purge:
            del self.jobs[job_id]
        return web.json_response({"JobModifyIndex": self.index, "EvalID": "e"})

    def _found(self, found: JsonObject | None, otherwise: str) -> web.Response:
        if found is None:
            return web.Response(status=404, text=otherwise, headers=self._meta())
        return self._json(found)

    def _list(self, request: web.Request, members: list[JsonObject]) -> web.Response:
        """A page of members in the order of their ids; the token is the id at which the next page begins."""
        members = sorted(members, key=lambda member: str(member["ID"]))
        size = int(request.query.get("per_page", 0)) if self.pages else 0
        start = request.query.get("next_token", "") if self.pages else ""
        members = [member for member in members if member["ID"] >= start]
        headers = {"X-Nomad-NextToken": members[size]["ID"]} if size and len(members) > size else {}
        return self._json(members[:size] if size else members, headers)

    def _json(self, value: object, headers: Mapping[str, str] | None = None) -> web.Response:
        body = orjson.dumps(value)
        return web.Response(body=body, content_type="application/json", headers={**self._meta(), **(headers or {})})

    def _meta(self) -> dict[str, str]:
        meta = {"X-Nomad-Index": str(self.index), "X-Nomad-KnownLeader": "true", "X-Nomad-LastContact": "0"}
        return {**meta, **self.headers}


def _stub(job: JsonObject) -> JsonObject:
    left_out = {"TaskGroups", "Meta", "Version"}
    return {key: value for key, value in job.items() if key not in left_out}


def after(effect: Callable[[FakeNomad, web.Request], object], nomad: FakeNomad, then: Script) -> Script:
    """An effect on the cluster, and then an answer (or none) that may not tell of it."""

    async def answer(request: web.Request) -> web.StreamResponse:
        effect(nomad, request)
        return await then(request)

    return answer
