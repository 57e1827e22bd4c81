"""Durations, bounds and defaults of what operators may decide."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from poseidon_reconciler.policy import (
    MAX_DURATION_S,
    PacePolicy,
    Policy,
    PoolPolicy,
    format_duration,
    parse_duration,
    parse_instant,
    quoted,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10s", 10),
        ("5m", 300),
        ("1h30m", 5400),
        ("250ms", 0.25),
        ("0", 0),
        ("0s", 0),
        (" 10s ", 10),
        ("1.5h", 5400),
        ("1h0m1s1ms", 3601.001),
        ("1m1ms", 60.001),
        ("0.1s", 0.1),
        ("90s", 90),
        ("8760h", MAX_DURATION_S),
        (5.5, 5.5),
        (5, 5),
    ],
)
def test_a_duration_is_read(text: object, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("ten", "'ten' is not a duration such as 10s or 5m"),
        ("", "'' is not a duration such as 10s or 5m"),
        ("10 s", "'10 s' is not a duration such as 10s or 5m"),
        ("10S", "'10S' is not a duration such as 10s or 5m"),
        ("10sec", "'10sec' is not a duration such as 10s or 5m"),
        ("1d", "'1d' is not a duration such as 10s or 5m"),
        ("5m5m", "'5m5m' is not a duration such as 10s or 5m"),
        ("5s1m", "'5s1m' is not a duration such as 10s or 5m"),
        ("٣s", "'٣s' is not a duration such as 10s or 5m"),
        ("nan", "'nan' is not a duration such as 10s or 5m"),
        ("inf", "'inf' is not a duration such as 10s or 5m"),
        ("10s\n5m", r"'10s\n5m' is not a duration such as 10s or 5m"),
        ("1" * 1_000_000 + "s", f"'{'1' * 59}…' is not a duration such as 10s or 5m"),
        (None, "'None' is not a duration such as 10s or 5m"),
        (True, "'True' is not a duration such as 10s or 5m"),
        (math.nan, "'nan' is not a duration such as 10s or 5m"),
        ("10", "'10' has no unit: add one, as in 10s or 5m"),
        ("1.5", "'1.5' has no unit: add one, as in 10s or 5m"),
        ("-1", "'-1' has no unit: add one, as in 10s or 5m"),
        ("1e3", "'1e3' has no unit: add one, as in 10s or 5m"),
        ("00", "'00' has no unit: add one, as in 10s or 5m"),
        ("-5s", "'-5s' is a negative duration"),
        (-1, "'-1' is a negative duration"),
        (-(10**400), f"'-1{'0' * 57}…' is a negative duration"),
        ("8760h1ms", "'8760h1ms' is longer than 365 days"),
        (math.inf, "'inf' is longer than 365 days"),
        (10**400, f"'1{'0' * 58}…' is longer than 365 days"),
    ],
)
def test_what_is_no_duration_is_refused(value: object, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        parse_duration(value)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (10, "10s"),
        (90, "1m30s"),
        (300, "5m"),
        (3600, "1h"),
        (5400, "1h30m"),
        (3601, "1h1s"),
        (1.5, "1.5s"),
        (0.25, "250ms"),
        (0.0005, "0.5ms"),
        (MAX_DURATION_S, "8760h"),
    ],
)
def test_a_duration_is_written(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.floats(min_value=0, max_value=MAX_DURATION_S))
def test_a_written_duration_reads_back_exactly(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


@pytest.mark.parametrize("seconds", [-1.0, math.nan, math.inf])
def test_only_a_duration_can_be_written(seconds: float) -> None:
    with pytest.raises(ValueError, match="cannot be written as a duration"):
        format_duration(seconds)


@given(st.text(max_size=200))
def test_a_quoted_value_is_one_short_line(text: str) -> None:
    line = quoted(text)
    assert len(line.splitlines()) == 1
    assert line.isprintable()
    assert len(text) <= 60 or "…" in line


def test_the_defaults_are_those_of_the_contract() -> None:
    assert Policy().model_dump() == {
        "namespace": "default",
        "pool": {
            "lost_grace_s": 10,
            "settle_s": 10,
            "start_deadline_s": 300,
            "surge": 0,
            "surplus": "report",
            "protect": True,
            "disconnect_policy": "at-least",
            "clock_margin_s": 10,
            "stop_after_s": None,
            "max_jobs": None,
            "pause": None,
            "pause_until": None,
        },
        "pace": {
            "storm_share": 0.2,
            "storm_window_s": 60,
            "storm_settle_s": 30,
            "storm_max_hold_s": 300,
            "max_starting_per_node": 4,
            "max_creates_per_second": 5,
            "max_protects_per_second": 20,
        },
        "environments": {},
    }


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("tomorrow", "is not a time such as 2026-12-01T12:00:00Z"),
        ("2026-12-01T12:00:00", "does not say in which time zone: add Z, or +01:00"),
        ("9999-12-31T23:59:59-23:59", "is beyond the years 1970 to 2242"),
        ("2243-01-01T00:00:00Z", "is beyond the years 1970 to 2242"),
        ("0001-01-01T00:00:00+23:59", "is beyond the years 1970 to 2242"),
        (1e300, "is beyond the years 1970 to 2242"),
        (math.nan, "is beyond the years 1970 to 2242"),
        (True, "is not a time such as 2026-12-01T12:00:00Z"),
    ],
)
def test_what_is_no_time_that_everybody_can_write_is_refused(value: object, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        parse_instant(value)


def test_a_time_is_read() -> None:
    assert parse_instant(" 2026-12-01T12:00:00+01:00 ") == parse_instant("2026-12-01T11:00:00Z") == 1796122800.0


@pytest.mark.parametrize("fields", [{"lost_grace": "5s"}, {"lost_grace_s": 5.0}, {"lost_grace_s": 5}])
def test_a_field_is_set_by_either_name(fields: dict[str, Any]) -> None:
    assert PoolPolicy(**fields).lost_grace_s == 5


@pytest.mark.parametrize(
    ("model", "key", "value"),
    [
        (PoolPolicy, "lost_grace", "10"),
        (PoolPolicy, "settle", -1.0),
        (PoolPolicy, "start_deadline", "0"),
        (PoolPolicy, "surge", -1),
        (PoolPolicy, "surge", 0.5),
        (PoolPolicy, "surplus", "drop"),
        (PoolPolicy, "protect", "maybe"),
        (PoolPolicy, "disconnect_policy", "exact"),
        (PoolPolicy, "clock_margin", math.nan),
        (PoolPolicy, "stop_after", 0.0),
        (PoolPolicy, "lost_gracee", "10s"),
        (PacePolicy, "storm_share", 0),
        (PacePolicy, "storm_share", 1.01),
        (PacePolicy, "storm_share", math.nan),
        (PacePolicy, "storm_window", "0s"),
        (PacePolicy, "max_starting_per_node", 0),
        (PacePolicy, "max_creates_per_second", 0),
        (PacePolicy, "max_creates_per_second", math.inf),
        (PacePolicy, "max_protects_per_second", math.nan),
    ],
)
def test_a_value_out_of_bounds_is_refused(model: type[PoolPolicy | PacePolicy], key: str, value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        model.model_validate({key: value})
    assert [error["loc"] for error in caught.value.errors()] == [(key,)]


@pytest.mark.parametrize("share", [0.001, 1])
def test_the_storm_share_may_be_all(share: float) -> None:
    assert PacePolicy(storm_share=share).storm_share == share


def test_a_policy_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        setattr(Policy(), "namespace", "other")  # noqa: B010 - the type checker refuses the plain assignment


def test_an_environment_has_its_own_policy_or_that_of_all_pools() -> None:
    exactly = PoolPolicy(disconnect_policy="exactly")
    policy = Policy(pool=PoolPolicy(surge=3), environments={"10": exactly})
    assert policy.for_environment("10") is exactly
    assert policy.for_environment("1") is policy.pool
