"""A whole demo: what it is set up with, and how it ends when the reconciler does not behave."""

from __future__ import annotations

from itertools import pairwise

import pytest
from msgspec.structs import replace

from poseidon_reconciler.app.demo import stage as module
from poseidon_reconciler.app.demo.scenarios import DEMO_SCENARIOS
from poseidon_reconciler.app.demo.stage import Setting, Stage
from poseidon_reconciler.app.running import Running
from poseidon_reconciler.config import Settings
from poseidon_reconciler.config.observing import HttpSettings, TelemetrySettings
from poseidon_reconciler.core.reconciler import Reconciler
from poseidon_reconciler.core.status import EnvironmentRow, environment_rows
from poseidon_reconciler.policy import PoolPolicy
from tests.leaps import LeapingClock, in_leaps
from tests.observe.telemetry.receiver import receiving

PEACEFUL = Setting(DEMO_SCENARIOS["restart-together-2s"], Settings(), poseidon=False, runners=2)


def test_a_scenario_brings_its_policy_and_leaves_the_rest_as_it_was_set() -> None:
    settings = Settings(pool=PoolPolicy(surge=2), environments={"10": PoolPolicy(surge=3)})
    policy = Setting(DEMO_SCENARIOS["exactly"], settings).effective_settings().policy()
    assert {id_: (pool.disconnect_policy, pool.surge) for id_, pool in policy.environments.items()} == {
        "10": ("exactly", 3),
        "11": ("exactly", 2),
    }


def test_nothing_of_a_demo_is_kept(tmp_path: object) -> None:
    assert Setting(DEMO_SCENARIOS["drain"], Settings(state_dir=tmp_path)).effective_settings().state_dir is None


@pytest.fixture(autouse=True)
def _leaping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RealClock", lambda speed: LeapingClock())


@in_leaps
async def test_before_the_pools_are_full_nobody_knows_when_the_failure_begins() -> None:
    stage = Stage(PEACEFUL)
    assert stage.at(5.0) == float("inf")
    assert stage.elapsed_s == float("-inf")


@in_leaps
async def test_frames_are_shown_from_the_beginning_to_the_end() -> None:
    stage = Stage(PEACEFUL)
    elapsed: list[float] = []
    outcome = await stage.run(lambda: elapsed.append(stage.elapsed_s))
    assert outcome.is_good
    assert elapsed == sorted(elapsed)
    assert elapsed[-1] > 15


@in_leaps
async def test_no_collector_hears_of_a_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiving() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.address)
        settings = Settings(
            http=HttpSettings(listen="127.0.0.1:0"), telemetry=TelemetrySettings(endpoint=receiver.address)
        )
        # At its end it would send what is left.
        assert (await Stage(replace(PEACEFUL, settings=settings, page=True)).run(lambda: None)).is_good
        assert receiver.requests == 0


@in_leaps
async def test_a_reconciler_that_ends_is_a_broken_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    async def end(_: Running) -> None:
        raise RuntimeError("it fell over")

    monkeypatch.setattr(Running, "run", end)
    outcome = await Stage(PEACEFUL).run(lambda: None)
    assert outcome.promises_broken == ["the reconciler has ended: it fell over"]
    assert not outcome.is_good


@in_leaps
async def test_a_reconciler_that_believes_what_is_not_so_is_a_broken_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_too_many(core: Reconciler) -> dict[str, EnvironmentRow]:
        row = environment_rows(core)["10"]
        return {"10": replace(row, idle=3, surplus=1)}

    monkeypatch.setattr(module, "environment_rows", one_too_many)
    monkeypatch.setattr(module, "_PATIENCE_FRAMES", 20)
    outcome = await Stage(PEACEFUL).run(lambda: None)
    assert outcome.promises_broken == [
        "of environment 10 the reconciler believes idle 3, not 2, surplus 1, not 0",
        "of environment 11 the reconciler believes nothing",
    ]


@in_leaps
async def test_until_both_agree_the_cluster_goes_with_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(PEACEFUL)
    seen: list[float] = []

    def nothing_yet(core: Reconciler) -> dict[str, EnvironmentRow]:
        seen.append(stage.cluster.now)
        return environment_rows(core) if len(seen) > 8 else {}

    monkeypatch.setattr(module, "environment_rows", nothing_yet)
    outcome = await stage.run(lambda: None)
    assert outcome.promises_broken == []
    assert all(later > earlier for earlier, later in pairwise(seen[:9]))


@in_leaps
async def test_what_poseidon_believes_is_compared_while_it_runs() -> None:
    stage = Stage(replace(PEACEFUL, poseidon=True))
    await stage.run(lambda: None)
    assert stage.running is not None
    view = stage.running.poseidon()
    assert view is not None
    assert view.problem is None
    assert {id_: each.target for id_, each in view.environments.items()} == {"10": 2, "11": 1}
    assert all(each.believed is not None for each in view.environments.values())
    # It was not asked before it served.
    assert not any("poseidon-unreachable" in entry.text for entry in stage.feed.entries)


@in_leaps
async def test_without_a_poseidon_nobody_asks_it() -> None:
    stage = Stage(PEACEFUL)
    await stage.run(lambda: None)
    assert stage.running is not None
    assert stage.running.poseidon() is None
