"""The embedded cluster's API without HTTP around it: a request of ours in, the answer of a server out.

The answers are made by the cluster's own reads and writes, and encoded: what decodes them is the reconciler's own code.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import unquote

import orjson

from poseidon_reconciler.nomad.outcomes import Answer
from poseidon_reconciler.nomad.transport import Request
from poseidon_reconciler.twin import asking, reads, writes
from poseidon_reconciler.twin.asking import Ask
from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.jobs import Refused
from poseidon_reconciler.twin.quorum import Server
from poseidon_reconciler.twin.state import State

_READS: Final = {
    "jobs": reads.jobs,
    "job": reads.job,
    "job/allocations": reads.job_allocations,
    "job/evaluations": reads.job_evaluations,
    "allocations": reads.allocations,
    "evaluations": reads.evaluations,
    "nodes": reads.nodes,
    "node": reads.node,
}
_WRITES: Final = {
    ("post", "jobs"): writes.register_job,
    ("post", "job/plan"): writes.plan_job,
    ("delete", "job"): writes.deregister_job,
    ("post", "allocation/stop"): writes.stop_allocation,
}
_STALE_MS: Final = 60_000


class Tables:
    """Tables of an earlier time. `admitted`: whether answers from them say so."""

    def __init__(self, cluster: Cluster, *, admitted: bool) -> None:
        self.state = State(cluster.kernel, lambda _: None)
        self.state.restore(cluster.state.snapshot())
        self.admitted = admitted


class Endpoint:
    """The API of all servers of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        # Several readers ask for the same, and most of what is asked for has not changed since.
        self._answers: dict[tuple[object, ...], Answer] = {}
        self._revision = -1

    def answer(self, request: Request, server: Server, stale: Tables | None = None) -> Answer:
        """What a server that is up answers now."""
        try:
            if request.endpoint == "agent":
                return _json(asking.Answer(self._members()), {})
            if not self._cluster.has_leader or server.cut_off:
                raise Refused(500, "No cluster leader")
            name = "/".join((request.endpoint, *request.path[1:]))
            if request.method == "get":
                return self._read(name, request, stale)
            write = _WRITES[request.method, name]
            body = orjson.loads(request.body) if request.body is not None else None
            return _json(write(self._cluster, self._ask(request, self._cluster.state, body)), {})
        except Refused as refused:
            return _text(refused)

    def _read(self, name: str, request: Request, stale: Tables | None) -> Answer:
        if stale is not None:
            admission = {"X-Nomad-KnownLeader": "false", "X-Nomad-LastContact": str(_STALE_MS)}
            return _json(_READS[name](self._ask(request, stale.state)), admission if stale.admitted else {})
        if self._revision != self._cluster.revision:
            self._revision = self._cluster.revision
            self._answers.clear()
        key = (name, request.path, *request.params.values())
        known = self._answers.get(key)
        if known is None:
            known = self._answers[key] = _json(_READS[name](self._ask(request, self._cluster.state)), {})
        return known

    def _ask(self, request: Request, state: State, body: Any = None) -> Ask:
        path = {"id": unquote(request.path[0])} if request.path else {}
        return Ask(state, self._cluster.traits, path, {"namespace": "default", **request.params}, body)

    def _members(self) -> dict[str, Any]:
        tags = {"build": self._cluster.traits.version}
        return {"Members": [{"Name": name, "Tags": tags} for name in self._cluster.quorum.servers]}


def _json(answer: asking.Answer, staleness: dict[str, str]) -> Answer:
    headers = {"X-Nomad-KnownLeader": "true", "X-Nomad-LastContact": "0", **staleness}
    if answer.index:
        headers["X-Nomad-Index"] = str(answer.index)
    if answer.next_token:
        headers["X-Nomad-NextToken"] = answer.next_token
    return Answer(200, headers, orjson.dumps(answer.document, option=orjson.OPT_NON_STR_KEYS))


def _text(refused: Refused) -> Answer:
    headers = {"X-Nomad-KnownLeader": "true", "X-Nomad-LastContact": "0", "X-Nomad-Index": str(refused.index)}
    return Answer(refused.status, headers if refused.index else {}, str(refused).encode())
