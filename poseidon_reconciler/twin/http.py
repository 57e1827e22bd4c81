"""Turns HTTP requests into what the cluster understands, its answers into HTTP: faults, tokens, waiting, headers."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import orjson
from aiohttp import web

from poseidon_reconciler.twin.acl import MANAGEMENT, READ_AGENT, READ_JOB, READ_NODE, Acl
from poseidon_reconciler.twin.asking import Answer, Ask, Read
from poseidon_reconciler.twin.driver import Driver
from poseidon_reconciler.twin.faults import Fault, Faults, Stale
from poseidon_reconciler.twin.jobs import Refused
from poseidon_reconciler.twin.pipes import Chunks, Hijacked
from poseidon_reconciler.twin.quorum import Server
from poseidon_reconciler.twin.reads import READS
from poseidon_reconciler.twin.state import State
from poseidon_reconciler.twin.streaming import Stream, Topics
from poseidon_reconciler.twin.writes import WRITES, Write

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

_FAULT: web.RequestKey[Fault | None] = web.RequestKey("fault", object)  # type: ignore[arg-type]
_PERMISSION_DENIED = "Permission denied"


class Endpoint:
    """One server's HTTP API."""

    def __init__(
        self,
        driver: Driver,
        server: Server,
        faults: Faults,
        acl: Callable[[], Acl | None],
        addresses: dict[str, str],
    ) -> None:
        self._driver = driver
        self._cluster = driver.cluster
        self._server = server
        self._faults = faults
        self._acl = acl
        self._addresses = addresses

    def application(self) -> web.Application:
        """The API as an aiohttp application."""
        application = web.Application(middlewares=[self._guard], client_max_size=64 << 20)
        routes = application.router
        for path, read, capability in READS:
            routes.add_get(path, self._reading(read, capability))
        for method, path, write, capability in WRITES:
            handler = self._writing(write, capability)
            for verb in ("PUT", "POST") if method == "PUT" else (method,):
                routes.add_route(verb, path, handler)
        routes.add_get("/v1/event/stream", self._stream)
        routes.add_get("/v1/agent/self", self._self)
        routes.add_get("/v1/agent/members", self._members)
        routes.add_get("/v1/agent/health", self._health)
        routes.add_get("/v1/status/leader", self._leader)
        routes.add_get("/v1/status/peers", self._peers)
        return application

    # -- around every request ----------------------------------------------------------------------------------------

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Faults first, then the request; whatever the cluster refuses becomes Nomad's plain text."""
        fault = self._faults.take(request.method, request.path)
        request[_FAULT] = fault
        if fault is not None and fault.delay_s > 0:
            await self._driver.clock.sleep(fault.delay_s)
        if not self._server.up or (fault is not None and fault.lose == "before"):
            return _lost(request)
        if fault is not None and fault.status:
            return _text(fault.status, fault.text)
        try:
            response = await handler(request)
        except Refused as refused:
            response = _text(refused.status, str(refused), refused.index)
        except web.HTTPMethodNotAllowed:
            response = _text(405, "Invalid method")
        except web.HTTPNotFound:
            response = _text(404, "")
        if fault is not None and fault.lose == "after":
            return _lost(request)
        return response

    def _demand(self, request: web.Request, capability: str) -> None:
        acl = self._acl()
        if acl is None:
            return
        if not acl.may(_token(request), capability):
            raise Refused(403, _PERMISSION_DENIED)

    def _ask(self, request: web.Request, state: State, body: Any = None) -> Ask:
        return Ask(state, self._cluster.traits, request.match_info, request.query, body)

    # -- reads and writes --------------------------------------------------------------------------------------------

    def _reading(self, read: Read, capability: str) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            self._demand(request, capability)
            fault = request[_FAULT]
            stale = fault.stale if fault is not None else None
            if stale is not None:
                return _json(read(self._ask(request, self._tables(stale))), _staleness(stale))
            stale_allowed = "stale" in request.query
            if not self._knows_leader() and not stale_allowed:
                raise Refused(500, "No cluster leader")
            answer = await self._fresh(read, self._ask(request, self._cluster.state))
            return _json(answer, {} if self._knows_leader() else _staleness(None))

        return handle

    async def _fresh(self, read: Read, ask: Ask) -> Answer:
        """The answer, once it is newer than asked for, or what there is when the time is up."""
        wanted, until = ask.wanted_index, self._driver.clock.now() + ask.wait_s
        while True:
            self._driver.catch_up()
            answer = read(ask)
            left_s = until - self._driver.clock.now()
            if not wanted or not answer.index or answer.index > wanted or left_s <= 0:
                return answer
            await self._driver.change(left_s)

    def _writing(self, write: Write, capability: str) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            self._demand(request, capability)
            body = await _decoded(request)
            if not self._knows_leader():
                raise Refused(500, "No cluster leader")
            self._driver.catch_up()
            answer = write(self._cluster, self._ask(request, self._cluster.state, body))
            self._driver.touched()
            return _json(answer, {}) if answer.document is not None else web.Response()

        return handle

    def _knows_leader(self) -> bool:
        return self._cluster.has_leader and not self._server.cut_off

    def _tables(self, stale: Stale) -> State:
        tables = State(self._cluster.kernel, lambda _: None)
        tables.restore(stale.tables)
        return tables

    # -- the stream --------------------------------------------------------------------------------------------------

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        text = request.query.get("index") or "0"
        if not text.lstrip("+-").isdecimal():
            raise Refused(400, f'Unable to parse index: strconv.Atoi: parsing "{text}": invalid syntax')
        namespace = request.query.get("namespace") or "default"
        topics = Topics.of(request.query.getall("topic", []), namespace)
        traits = self._cluster.traits
        allowed = self._may_read(request, topics)
        if not allowed() and traits.denied_stream != "silence":
            return _text(int(traits.denied_stream), _PERMISSION_DENIED)
        pipe = (
            Chunks(request)
            if traits.stream_over == "chunks"
            else Hijacked(request, traits.stream_over, self._driver.clock)
        )
        if not allowed():
            await pipe.open(200)
            await pipe.end("")
            return pipe.response
        if namespace == "*" and not traits.namespace_wildcard_streams:
            topics = Topics((("nothing", "*"),), namespace)
        self._driver.catch_up()
        fault = request[_FAULT]
        stream = Stream(self._driver, self._server, topics, allowed, fault.stream if fault is not None else None)
        await stream.serve(pipe, max(0, int(text)), status=400 if int(text) < 0 else 200)
        return pipe.response

    def _may_read(self, request: web.Request, topics: Topics) -> Callable[[], bool]:
        """Whether a reader may read what it asks for, now and later."""
        needed = {_NEEDED.get(topic, MANAGEMENT) for topic, _ in topics.wanted}
        secret = _token(request)

        def allowed() -> bool:
            acl = self._acl()
            return acl is None or all(acl.may(secret, capability) for capability in needed)

        return allowed

    # -- the servers about themselves --------------------------------------------------------------------------------

    async def _self(self, request: web.Request) -> web.StreamResponse:
        self._demand(request, READ_AGENT)
        version = {
            "Revision": "",
            "Version": self._cluster.traits.version,
            "VersionMetadata": "",
            "VersionPrerelease": "",
        }
        config = {
            "Client": {"Enabled": False}, "Datacenter": "dc1", "Region": "global",
            "Server": {"Enabled": True}, "Version": version, "ACL": {"Enabled": self._acl() is not None},
        }  # fmt: skip
        member = self._member(self._server)
        return _json(Answer({"config": config, "member": member, "stats": {"nomad": {"server": "true"}}}), None)

    def _member(self, server: Server) -> dict[str, Any]:
        host, _, port = self._addresses.get(server.name, "").rpartition("//")[2].partition(":")
        return {
            "Addr": host, "DelegateCur": 4, "DelegateMax": 5, "DelegateMin": 2, "Name": f"{server.name}.global",
            "Port": int(port or 0), "ProtocolCur": 2, "ProtocolMax": 5, "ProtocolMin": 1,
            "Status": "alive" if server.up else "failed",
            "Tags": {
                "build": self._cluster.traits.version, "dc": "dc1", "port": port, "region": "global", "role": "nomad",
            },
        }  # fmt: skip

    async def _members(self, request: web.Request) -> web.StreamResponse:
        self._demand(request, READ_NODE)
        members = [self._member(server) for server in self._cluster.quorum.servers.values()]
        document = {
            "Members": members, "ServerDC": "dc1", "ServerName": f"{self._server.name}.global",
            "ServerRegion": "global",
        }  # fmt: skip
        return _json(Answer(document), None)

    async def _health(self, _: web.Request) -> web.StreamResponse:
        ok = self._knows_leader()
        document = {"server": {"message": "ok" if ok else "No cluster leader", "ok": ok}}
        return web.Response(status=200 if ok else 500, body=orjson.dumps(document), content_type="application/json")

    async def _leader(self, _: web.Request) -> web.StreamResponse:
        leader = self._cluster.quorum.leader
        if leader is None or self._server.cut_off:
            raise Refused(500, "No cluster leader")
        return _json(Answer(_host(self._addresses[leader.name])), None)

    async def _peers(self, _: web.Request) -> web.StreamResponse:
        return _json(Answer([_host(address) for address in self._addresses.values()]), None)


_NEEDED = {"Job": READ_JOB, "Allocation": READ_JOB, "Evaluation": READ_JOB, "Deployment": READ_JOB, "Node": READ_NODE}


def _host(address: str) -> str:
    return address.rpartition("//")[2]


def _token(request: web.Request) -> str:
    secret = request.headers.get("X-Nomad-Token", "")
    return secret or request.headers.get("Authorization", "").removeprefix("Bearer ").strip()


async def _decoded(request: web.Request) -> Any:
    raw = await request.read()
    if not raw:
        return None
    try:
        return json.loads(raw)
    except ValueError as error:
        raise Refused(400, f"invalid character in request body: {error}") from error


def _json(answer: Answer, staleness: dict[str, str] | None) -> web.Response:
    """An answer with the headers that tell how old it is; `None`: Nomad sends none with this one."""
    headers = {}
    if staleness is not None:
        headers = {"X-Nomad-Knownleader": "true", "X-Nomad-Lastcontact": "0", **staleness}
        if answer.index:
            headers["X-Nomad-Index"] = str(answer.index)
        if answer.next_token:
            headers["X-Nomad-Nexttoken"] = answer.next_token
    body = orjson.dumps(answer.document, option=orjson.OPT_NON_STR_KEYS)
    return web.Response(body=body, headers=headers, content_type="application/json")


def _staleness(stale: Stale | None) -> dict[str, str]:
    if stale is not None and not stale.admitted:
        return {}
    last_contact_ms = stale.last_contact_ms if stale is not None else 60_000
    return {"X-Nomad-Knownleader": "false", "X-Nomad-Lastcontact": str(last_contact_ms)}


def _text(status: int, text: str, index: int = 0) -> web.Response:
    """A plain answer; one that says how old it is, like that of a read which found nothing, has `index`."""
    headers = _freshness(index) if index else {}
    return web.Response(status=status, headers=headers, body=text.encode(), content_type="text/plain", charset="utf-8")


def _freshness(index: int) -> dict[str, str]:
    return {"X-Nomad-Knownleader": "true", "X-Nomad-Lastcontact": "0", "X-Nomad-Index": str(index)}


def _lost(request: web.Request) -> web.Response:
    """Breaks the connection instead of answering."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
