"""What is remembered of environments ends with them: thousands come and go, and one that is new begins anew."""

from __future__ import annotations

from msgspec import Struct

from poseidon_reconciler.core.ledger import ActionOutcome
from poseidon_reconciler.core.registry import RETENTION_S
from tests.core.builders import Bench, allocation, job, node, node_id, pool_policy, purge

POLICY = pool_policy(settle="0s", lost_grace="0s", surplus="trim")


def live_and_vanish(bench: Bench, environment_id: str, *, index: int) -> None:
    """An environment is created, everything goes wrong in it, and it is purged."""
    template, claimed = f"template-{environment_id}", f"{environment_id}-1b0c5c1e-ece9-11f1-bda2-02fc00000001"
    bench.feed(
        job(template, index=index, target=1),
        allocation(f"t{index}", template, index=index, node=node_id(1)),
        job(claimed, index=index, used=True),
        allocation(f"c{index}", claimed, index=index, node=node_id(1)),
    )
    (created,) = [action for action in bench.actions if action.environment_id == environment_id]
    bench.feed(
        job(created.job_id, "dead", index=index + 1),
        allocation(f"r{index}", created.job_id, "failed", index=index + 1, node=node_id(1)),
    )
    # Its own job dies as well.
    bench.feed(
        job(template, "dead", index=index + 2, created=index, target=1),
        allocation(f"t{index}", template, "complete", index=index + 2, created=index, node=node_id(1)),
    )
    bench.wait(60)
    assert bench.core.planner.refill.poison.of(environment_id) is not None
    for number, job_id in enumerate((claimed, created.job_id, template)):
        purge(bench, job_id, index=index + 3 + number)
    for action in bench.actions:
        bench.core.planner.take_outcome(action, ActionOutcome("not-done", "403"), bench.now)
    bench.actions.clear()


def remembered(thing: object) -> int:
    """How many entries all mappings, sets and lists within have, at any depth."""
    if isinstance(thing, dict):
        return len(thing) + sum(map(remembered, thing.values()))
    if isinstance(thing, set | list):
        return len(thing)
    if isinstance(thing, Struct):
        return sum(remembered(getattr(thing, name)) for name in thing.__struct_fields__)
    if type(thing).__module__.startswith("poseidon_reconciler.core"):
        return sum(map(remembered, vars(thing).values())) if hasattr(thing, "__dict__") else 0
    return 0


def test_of_environments_that_have_vanished_nothing_is_remembered() -> None:
    bench = Bench(POLICY)
    bench.feed(node(node_id(1), index=1))
    sizes = []
    for number in range(3):
        for environment in range(10):
            live_and_vanish(bench, str(100 + 10 * number + environment), index=100 + 100 * number + 10 * environment)
        bench.wait(2 * RETENTION_S)
        bench.core.advance(bench.now)
        assert bench.core.diagnosis.pools == {}
        planner = bench.core.planner
        parts = (planner.refill, planner.surplus, planner.retries, planner.revivals, planner.ledger, planner.protection)
        sizes.append([sum(remembered(each) for name, each in vars(part).items() if name != "_desk") for part in parts])

    assert sizes[0] == sizes[1] == sizes[2]


def test_an_environment_that_is_created_anew_after_long_is_trusted_again() -> None:
    bench = Bench(POLICY)
    bench.feed(node(node_id(1), index=1))
    live_and_vanish(bench, "10", index=100)
    bench.wait(2 * RETENTION_S)
    bench.core.advance(bench.now)

    bench.feed(job("template-10", index=900, target=3), allocation("t", "template-10", index=900, node=node_id(1)))

    assert bench.kinds() == ["create-runner"] * 3
