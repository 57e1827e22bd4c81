"""`run` on a real cluster: all agents go away and come back, and every pool is whole."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from poseidon_reconciler.app.running import Running
from poseidon_reconciler.config import load
from poseidon_reconciler.core.ledger import Action, ActionOutcome
from poseidon_reconciler.core.reconciler import Step
from tests.real_nomad.jobs import pool, with_config
from tests.real_nomad.lab import Lab
from tests.real_nomad.test_trap import (
    _QUIET_S,
    _RUNNERS,
    _WITHOUT_STREAM,
    _WITHOUT_TRAP,
    _bring_all_agents_back,
    _start_pool,
    _take_all_agents_away,
)

pytestmark = pytest.mark.real_nomad

_WAIT_S = 40.0


class Recorder:
    """Remembers what was done."""

    def __init__(self) -> None:
        self.outcomes: list[tuple[str, str]] = []
        self.notes: list[str] = []

    def stepped(self, step: Step) -> None:
        pass

    def acted(self, action: Action, outcome: ActionOutcome) -> None:
        self.outcomes.append((action.kind, outcome.result))

    def noted(self, event: str, detail: str) -> None:
        self.notes.append(f"{event}: {detail}")

    def done(self) -> Counter[str]:
        return Counter(kind for kind, result in self.outcomes if result == "done")


@contextmanager
def reconciling(lab: Lab, **variables: str) -> Iterator[tuple[Running, Recorder]]:
    """A reconciler that follows the lab from a thread of its own, as the lab's own calls block. It reads the lists
    every few seconds, and they must never look like those of another history.
    """
    recorder = Recorder()
    settings = load(None, {"NOMAD_ADDR": lab.address, "RECONCILER_NOMAD__RESYNC_INTERVAL": "2s", **variables})
    started = threading.Event()
    holder: list[tuple[asyncio.AbstractEventLoop, Running]] = []

    async def main() -> None:
        running = Running(settings, recorder)
        holder.append((asyncio.get_running_loop(), running))
        started.set()
        await running.run()

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    started.wait(10)
    loop, running = holder[0]
    try:
        lab.wait_for("the lists to be read", lambda: running.controller.synced, _WAIT_S)
        yield running, recorder
        assert running.core.snapshots.epoch == 0
    finally:
        loop.call_soon_threadsafe(running.stop)
        thread.join(15)
        assert not thread.is_alive()


@pytest.fixture(autouse=True)
def _needs_the_stream(lab: Lab) -> None:
    if lab.version == _WITHOUT_STREAM:
        pytest.skip("this version answers the event stream with HTTP/0.0, which no HTTP library accepts")


def test_nothing_dies_where_jobs_are_protected_in_time(lab: Lab) -> None:
    job_ids = _start_pool(lab)
    protected = len(job_ids) if lab.version < _WITHOUT_TRAP else 0
    with reconciling(lab) as (_, recorder):
        _take_all_agents_away(lab)
        lab.wait_for("every job to be protected", lambda: recorder.done()["protect-job"] == protected, _WAIT_S)
        _bring_all_agents_back(lab)
        lab.evaluate(job_ids)
        lab.wait_until_quiet(_QUIET_S)

        assert lab.statuses() == dict.fromkeys(job_ids, "running")
        assert +recorder.done() == +Counter({"protect-job": protected}), recorder.outcomes


def test_nodes_that_drain_and_are_opened_again_are_no_other_history(lab: Lab) -> None:
    _start_pool(lab)
    (node, *_) = lab.get("/v1/nodes")
    drain = {"Deadline": 3_000_000_000, "IgnoreSystemJobs": False}
    with reconciling(lab) as (running, _):
        for spec in (drain, None):
            body = {"DrainSpec": spec, "MarkEligible": spec is None}
            lab.request("POST", f"/v1/node/{node['ID']}/drain", body).raise_for_status()
            lab.wait_until_quiet(_QUIET_S)

        assert running.core.model.nodes[node["ID"]].status == "ready"


def test_surplus_is_stopped_and_what_is_used_is_not(lab: Lab) -> None:
    template, *runners = pool(10, 6)
    used = with_config(runners[-1], used="true")
    job_ids = [job["ID"] for job in (template, *runners)]
    for job in (with_config(template, prewarmingPoolSize="2"), *runners[:-1], used):
        lab.register(job).raise_for_status()
    lab.wait_for_status("running", job_ids)

    trims = {"RECONCILER_POOL__SURPLUS": "trim", "RECONCILER_POOL__SETTLE": "1s"}
    with reconciling(lab, **trims) as (running, recorder):
        lab.wait_for("three to be stopped", lambda: recorder.done()["stop-surplus"] == 3, _WAIT_S)
        lab.wait_until_quiet(_QUIET_S)

        assert +recorder.done() == {"stop-surplus": 3}, recorder.outcomes
        left = set(lab.statuses())
        assert {template["ID"], used["ID"]} < left
        # The youngest go first.
        assert left == {template["ID"], used["ID"], *(job["ID"] for job in runners[:2])}
        assert running.core.diagnosis.pools["10"].count("idle") == 2


def test_what_died_unprotected_is_replaced_removed_and_revived(lab: Lab) -> None:
    if lab.version >= _WITHOUT_TRAP:
        pytest.skip("nothing dies on this version")
    job_ids = _start_pool(lab)
    _take_all_agents_away(lab)
    _bring_all_agents_back(lab)
    lab.evaluate(job_ids)
    lab.wait_until_quiet(_QUIET_S)
    assert set(lab.statuses().values()) == {"dead"}

    with reconciling(
        lab,
        RECONCILER_POOL__LOST_GRACE="1s",
        RECONCILER_POOL__SETTLE="1s",
        RECONCILER_PACE__STORM_SETTLE="2s",
    ) as (running, recorder):
        lab.wait_for("a whole pool", lambda: list(lab.statuses().values()) == ["running"] * (_RUNNERS + 1), _WAIT_S)
        lab.wait_until_quiet(_QUIET_S)

        assert recorder.done() == {
            "revive-environment": 1,
            "create-runner": _RUNNERS,
            "remove-job": _RUNNERS,
        }, recorder.outcomes
        assert running.core.diagnosis.pools["10"].count("idle") == _RUNNERS
        assert set(lab.statuses()) & set(job_ids) == {"template-10"}
