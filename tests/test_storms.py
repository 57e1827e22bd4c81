"""The table of `docs/storms.md`, in a small size: each way to refill a pool after a storm has the looks that it has."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(__file__).parent.parent / "docs"
RUNNERS = 20
# One in which so many are lost that the alert comes.
SEED = 0
WATCHED_S = 400.0


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("storms", FOLDER / "storms.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["storms"] = module
    spec.loader.exec_module(module)
    return module


storms: Any = _script()
PAGE = (FOLDER / "storms.md").read_text()


@pytest.fixture(scope="module")
def measured() -> dict[str, Any]:
    return {each.name: storms.measure(each, RUNNERS, SEED, watched_s=WATCHED_S) for each in storms.VARIANTS}


def test_without_anybody_the_pool_does_not_come_back(measured: dict[str, Any]) -> None:
    nothing = measured["nothing"]
    assert (nothing.full_after_s, nothing.writes, nothing.created, nothing.starting_new) == (None, 0, 0, 0)
    assert nothing.dead > 0
    assert nothing.idle < RUNNERS


def test_the_naive_refill_creates_far_too_many(measured: dict[str, Any]) -> None:
    naive = measured["naive refill every 10 s"]
    assert naive.full_after_s is not None
    assert naive.created > 2 * naive.lost
    assert naive.above > RUNNERS
    assert naive.starting_new >= max(each.starting_new for each in measured.values())
    assert naive.dead > 0


def test_the_alert_comes_late_and_orders_everything_at_once(measured: dict[str, Any]) -> None:
    alert = measured["Poseidon's alert"]
    assert alert.writes == alert.writes_peak > 0
    assert alert.dead > 0
    assert alert.full_after_s is None or alert.full_after_s > 200


def test_we_replace_what_was_lost_and_leave_nothing(measured: dict[str, Any]) -> None:
    for name in ("us, `protect: false`", "us"):
        ours = measured[name]
        assert 0 < ours.full_after_s < 200
        assert ours.created == ours.lost
        assert (ours.idle, ours.above, ours.dead, ours.environment_runs) == (RUNNERS, 0, 0, True)
    assert measured["us"].lost < measured["us, `protect: false`"].lost


def test_a_storm_is_the_same_every_time(measured: dict[str, Any]) -> None:
    variant = storms.VARIANTS[-1]
    assert storms.measure(variant, RUNNERS, SEED, watched_s=WATCHED_S) == measured[variant.name]


def test_the_page_has_the_rows_and_columns_that_are_written(measured: dict[str, Any]) -> None:
    rows = {name: [each] for name, each in measured.items()}
    written = storms.table(rows).splitlines()
    lines = PAGE.splitlines()
    shown = lines[lines.index("<!-- written by docs/storms.py -->") + 1 : lines.index("<!-- end -->")]
    assert shown[:2] == written[:2]
    assert [line.split(" | ")[0] for line in shown] == [line.split(" | ")[0] for line in written]
    assert {line.count("|") for line in shown} == {written[0].count("|")}


def test_only_the_table_is_written() -> None:
    changed = storms.with_table(PAGE, "| new |")
    assert changed != PAGE
    assert storms.with_table(changed, storms.table({})).startswith(PAGE.partition("<!--")[0])
    assert changed.rpartition("<!-- end -->")[2] == PAGE.rpartition("<!-- end -->")[2]


def test_a_cell_tells_the_middle_and_the_bounds(measured: dict[str, Any]) -> None:
    one, other = measured["us"], measured["nothing"]
    (line,) = [line for line in storms.table({"x": [one, one, other]}).splitlines() if line.startswith("| x")]
    cells = line.strip("| ").split(" | ")
    assert cells[storms.HEADINGS.index("created")] == f"{one.created} (0–{one.created})"
    assert cells[storms.HEADINGS.index("full after")].endswith(", in 2 of 3")
    assert cells[-1] in ("3 of 3", "2 of 3")


@pytest.mark.parametrize(
    "number", [f"{storms.RUNNERS} runners", f"{len(storms.SEEDS)} seeds", "15 minutes", "60 s later"]
)
def test_the_page_tells_the_set_up_that_is_measured(number: str) -> None:
    assert number in PAGE
