"""A real Nomad cluster, small enough for a test: one server and three agents on loopback.

Agents are killed without warning (their tasks stay) and started again on the same data, as when a machine's
Nomad is restarted. The heartbeats are short, so that an agent is `down` within seconds.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import requests

from tests.real_nomad.processes import free_ports, give_away, kill_all_of, spawn

AGENTS = ("agent-1", "agent-2", "agent-3")
_SERVER = "server-1"
_HEARTBEAT_TTL_S = 3
_HEARTBEAT_GRACE_S = 3
_POLL_S = 0.1
_REQUEST_TIMEOUT_S = 10.0
_START_TIMEOUT_S = 60.0
_STREAM_SILENCE_S = 1.0
_TOPICS = ("Job", "Allocation", "Evaluation", "Node")
# Cloud metadata, Consul and Vault are not there: asking for them only costs time.
_FINGERPRINTS_OFF = "env_aws,env_gce,env_azure,env_digitalocean,consul,vault"

Document = dict[str, Any]


def find_nomad() -> Path | None:
    """The binary named by `NOMAD_BIN`, else the `nomad` on PATH, else None.

    Raises `FileNotFoundError` if `NOMAD_BIN` names no program: who sets it wants these tests to run.
    """
    wanted = os.environ.get("NOMAD_BIN") or "nomad"
    found = shutil.which(wanted)
    if found is None and wanted != "nomad":
        raise FileNotFoundError(f"NOMAD_BIN names no program: {wanted}")
    return Path(found).absolute() if found else None


class Lab:
    """A running cluster; leaving the context kills all of it and removes its directory."""

    def __init__(self, nomad: Path) -> None:
        """Prepare, without starting anything, a cluster of the given binary."""
        self._nomad = nomad
        self._directory = Path(tempfile.mkdtemp(prefix="nomad-lab-"))
        give_away(self._directory)
        self._http_port, self._rpc_port, self._serf_port, *self._agent_ports = free_ports(3 + len(AGENTS))
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._session = requests.Session()
        self._session.trust_env = False

    @property
    def version(self) -> tuple[int, ...]:
        """The server's version, such as `(1, 10, 5)`."""
        named: str = self.get("/v1/agent/self")["config"]["Version"]["Version"]
        return tuple(int(part) for part in named.split("."))

    @property
    def address(self) -> str:
        """The server's HTTP address."""
        return f"http://127.0.0.1:{self._http_port}"

    def __enter__(self) -> Self:
        """Start server and agents and wait until all of them are ready."""
        try:
            self._start(_SERVER, self._server_config())
            self.wait_for("a leader", self._has_leader, _START_TIMEOUT_S)
            self.start_agents()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kill everything that was started."""
        self.close()

    def close(self) -> None:
        """Kill agents, executors and tasks, and remove their directory."""
        self._session.close()
        for process in self._processes.values():
            process.kill()
            process.wait()
        left = kill_all_of(self._directory)
        shutil.rmtree(self._directory, ignore_errors=True)
        if left:
            raise RuntimeError(f"processes of the lab would not die: {left}")

    # Agents

    def stop_agents(self) -> None:
        """Kill all agents at once; their tasks go on. Returns when the server calls all of them down."""
        for name in AGENTS:
            process = self._processes.pop(name)
            process.kill()
            process.wait()
        self.wait_for("all agents down", lambda: self._node_statuses() == ["down"] * len(AGENTS), _START_TIMEOUT_S)

    def start_agents(self) -> None:
        """Start all agents, on the data they had; returns when all of them are ready."""
        for name, port in zip(AGENTS, self._agent_ports, strict=True):
            self._start(name, self._agent_config(name, port))
        self.wait_for("all agents ready", lambda: self._node_statuses() == ["ready"] * len(AGENTS), _START_TIMEOUT_S)

    # HTTP

    def request(self, method: str, path: str, body: object = None, **query: str) -> requests.Response:
        """One request to the server; any status is an answer."""
        url = f"{self.address}{path}"
        return self._session.request(method, url, json=body, params=query, timeout=_REQUEST_TIMEOUT_S)

    def get(self, path: str, **query: str) -> Any:
        """The JSON answer of a GET; raises `requests.HTTPError` for a status other than 2xx."""
        answer = self.request("GET", path, **query)
        answer.raise_for_status()
        return answer.json()

    def register(self, job: Document, *, if_index: int | None = None) -> requests.Response:
        """Register a job; with `if_index` only if its `JobModifyIndex` is still that (0: only if absent)."""
        body: Document = {"Job": job}
        if if_index is not None:
            body |= {"EnforceIndex": True, "JobModifyIndex": if_index}
        return self.request("POST", "/v1/jobs", body)

    def job(self, job_id: str) -> Document:
        """The whole job."""
        job: Document = self.get(f"/v1/job/{job_id}")
        return job

    def statuses(self) -> dict[str, str]:
        """Each job's status by its id."""
        return {stub["ID"]: stub["Status"] for stub in self.get("/v1/jobs")}

    def evaluate(self, job_ids: list[str]) -> None:
        """Ask for an evaluation of each job: what any event about a node would bring sooner or later."""
        for job_id in job_ids:
            self.request("PUT", f"/v1/job/{job_id}/evaluate", {"JobID": job_id}).raise_for_status()

    def plan(self, job: Document) -> Document:
        """What registering the job would do to each of its groups, by the group's name."""
        answer = self.request("PUT", f"/v1/job/{job['ID']}/plan", {"Job": job})
        answer.raise_for_status()
        updates: Document = answer.json()["Annotations"]["DesiredTGUpdates"]
        return updates

    def running(self, job_id: str) -> list[tuple[str, str]]:
        """The job's running allocations, as (id, start of the task): another start is another process."""
        return [
            (stub["ID"], stub["TaskStates"]["default-task"]["StartedAt"])
            for stub in self.allocations(job_id)
            if stub["ClientStatus"] == "running" and stub["DesiredStatus"] == "run"
        ]

    def allocations(self, job_id: str) -> list[Document]:
        """The job's allocations, oldest first."""
        stubs: list[Document] = self.get(f"/v1/job/{job_id}/allocations", all="true")
        return sorted(stubs, key=lambda stub: int(stub["CreateIndex"]))

    def events_from(self, index: int) -> list[Document]:
        """The events that the server still has from the index on, in the stream's order."""
        query = [("index", str(index)), *(("topic", f"{topic}:*") for topic in _TOPICS)]
        events: list[Document] = []
        with (
            contextlib.suppress(requests.ConnectionError),  # silence: there is nothing more to come
            self._session.get(
                f"{self.address}/v1/event/stream",
                params=query,
                stream=True,
                timeout=(_REQUEST_TIMEOUT_S, _STREAM_SILENCE_S),
                headers={"Accept-Encoding": "identity"},
            ) as answer,
        ):
            for line in answer.iter_lines():
                events += json.loads(line).get("Events") or []
        return [event for event in events if event["Index"] >= index]

    # Waiting

    def wait_for(self, what: str, condition: Callable[[], bool], timeout_s: float) -> None:
        """Poll until the condition holds; raises `TimeoutError` naming what was awaited."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {timeout_s:g} s in vain for {what}")
            time.sleep(_POLL_S)

    def wait_for_status(self, status: str, job_ids: list[str], timeout_s: float = _START_TIMEOUT_S) -> None:
        """Wait until all named jobs have the status."""
        self.wait_for(
            f"{len(job_ids)} jobs {status}",
            lambda: all(self.statuses().get(job_id) == status for job_id in job_ids),
            timeout_s,
        )

    def wait_until_quiet(self, quiet_s: float, timeout_s: float = _START_TIMEOUT_S) -> None:
        """Wait until no allocation and no evaluation has changed for a while."""
        last: object = None
        since = time.monotonic()

        def quiet() -> bool:
            nonlocal last, since
            now = [
                [(each["ID"], each["ModifyIndex"]) for each in self.get(path)]
                for path in ("/v1/allocations", "/v1/evaluations")
            ]
            if now != last:
                last, since = now, time.monotonic()
            return time.monotonic() - since >= quiet_s

        self.wait_for("quiet", quiet, timeout_s)

    # Inside

    def _has_leader(self) -> bool:
        try:
            return bool(self.get("/v1/status/leader"))
        except requests.RequestException:
            return False

    def _node_statuses(self) -> list[str]:
        return [node["Status"] for node in self.get("/v1/nodes")]

    def _start(self, name: str, config: Document) -> None:
        path = self._directory / f"{name}.json"
        path.write_text(json.dumps(config))
        self._processes[name] = spawn([str(self._nomad), "agent", f"-config={path}"], self._directory, name)

    def _common_config(self, name: str) -> Document:
        return {
            "name": name,
            "data_dir": str(self._directory / name),
            "bind_addr": "127.0.0.1",
            "advertise": {"http": "127.0.0.1", "rpc": "127.0.0.1", "serf": "127.0.0.1"},
            "disable_update_check": True,
            "consul": {"auto_advertise": False, "server_auto_join": False, "client_auto_join": False},
        }

    def _server_config(self) -> Document:
        return self._common_config(_SERVER) | {
            "ports": {"http": self._http_port, "rpc": self._rpc_port, "serf": self._serf_port},
            "server": {
                "enabled": True,
                "bootstrap_expect": 1,
                "min_heartbeat_ttl": f"{_HEARTBEAT_TTL_S}s",
                "heartbeat_grace": f"{_HEARTBEAT_GRACE_S}s",
                # Bin packing would put every job on one agent.
                "default_scheduler_config": {"scheduler_algorithm": "spread"},
            },
        }

    def _agent_config(self, name: str, http_port: int) -> Document:
        return self._common_config(name) | {
            "ports": {"http": http_port},
            "client": {
                "enabled": True,
                "servers": [f"127.0.0.1:{self._rpc_port}"],
                "no_host_uuid": True,
                "network_interface": "lo",
                "cpu_total_compute": 4000,
                "memory_total_mb": 6000,
                "options": {"driver.allowlist": "raw_exec", "fingerprint.denylist": _FINGERPRINTS_OFF},
            },
            "plugin": [{"raw_exec": {"config": {"enabled": True}}}],
        }
