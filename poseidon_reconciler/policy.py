"""What operators may decide, as values the pure core can read.

The core must not know where a setting came from, nor how it was written. It sees these frozen models alone:
durations are seconds, every environment's policy is complete, and nothing here is invalid. In YAML and in
environment variables a field has its name without the unit (`lost_grace_s` is written `lost_grace: 10s`).
"""

from __future__ import annotations

import math
import re
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

MAX_DURATION_S = 365 * 24 * 3600.0
LATEST_INSTANT_S = 2.0**33  # 2242-03-16, which recordings know no later than either
MAX_QUOTED_CHARS = 60
MAX_DURATION_CHARS = 400  # the smallest float needs 326

_NOT_A_DURATION = "{} is not a duration such as 10s or 5m"
_UNITS_S = {"h": Decimal(3600), "m": Decimal(60), "s": Decimal(1), "ms": Decimal("0.001")}
# Largest unit first and each at most once: "5m5m" is a slip of the finger, not ten minutes.
_DURATION = re.compile("".join(rf"(?:(?P<{unit}>[0-9]+(?:\.[0-9]+)?){unit})?" for unit in _UNITS_S))
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?", re.IGNORECASE)


def quoted(value: object) -> str:
    """`value` as one short line for a message: quoted, escaped, cut to 60 characters."""
    text = str(value)
    return repr(text if len(text) <= MAX_QUOTED_CHARS else text[: MAX_QUOTED_CHARS - 1] + "…")


def os_reason(error: OSError) -> str:
    """Why a file or an address could not be used, in words that follow on its name, the same wherever it is said."""
    return error.strerror.lower() if error.strerror else str(error)


def parse_duration(value: object) -> float:
    """Seconds of a duration such as `10s`, `5m`, `1h30m`, `250ms` or `0`.

    Text needs a unit; a number can only come from Python code, where the field's name says seconds.

    Raises:
        ValueError: not a duration, negative, or longer than 365 days. The message quotes the value.
    """
    seconds = _parse_text(value.strip()) if isinstance(value, str) else value
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool):
        raise ValueError(_NOT_A_DURATION.format(quoted(value)))  # noqa: TRY004 - pydantic collects ValueErrors
    if seconds < 0:
        raise ValueError(f"{quoted(value)} is a negative duration")
    if seconds > MAX_DURATION_S:
        raise ValueError(f"{quoted(value)} is longer than 365 days")
    if math.isnan(seconds):
        raise ValueError(_NOT_A_DURATION.format(quoted(value)))
    return float(seconds)


def _parse_text(text: str) -> float:
    if len(text) > MAX_DURATION_CHARS:
        raise ValueError(_NOT_A_DURATION.format(quoted(text)))
    if text == "0":
        return 0.0
    sign = -1 if text.startswith("-") else 1
    match = _DURATION.fullmatch(text.removeprefix("-"))
    if match is not None and any(match.groups()):
        amounts = match.groupdict()
        # Decimals, because a sum of rounded parts would not read back as it was written.
        return sign * float(sum(Decimal(amounts[unit] or 0) * unit_s for unit, unit_s in _UNITS_S.items()))
    if _NUMBER.fullmatch(text):
        raise ValueError(f"{quoted(text)} has no unit: add one, as in 10s or 5m")
    raise ValueError(_NOT_A_DURATION.format(quoted(text)))


def format_duration(seconds: float) -> str:
    """The duration without parts that are zero, such as `1m30s`, `250ms` or `0s`.

    Exact: `parse_duration` gives the same float back, for whatever it accepts.

    Raises:
        ValueError: `seconds` is negative or not finite.
    """
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"{seconds} s cannot be written as a duration")
    exact = Decimal(repr(float(seconds)))
    if 0 < exact < 1:
        return f"{_plain(exact / _UNITS_S['ms'])}ms"
    minutes, rest = divmod(exact, 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "m"), (rest, "s"))
    return "".join(f"{_plain(amount)}{unit}" for amount, unit in parts if amount) or "0s"


def _plain(amount: Decimal) -> str:
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _without_unit(field_name: str) -> str:
    return field_name.removesuffix("_s")


Duration = Annotated[float, BeforeValidator(parse_duration)]
"""Seconds, read from a text such as `10s`."""


def parse_instant(value: object) -> float:
    """Seconds since the epoch of a time such as `2026-12-01T12:00:00Z`.

    Raises:
        ValueError: not a time, one without its distance from UTC, or one that is out of all bounds. The message
            quotes the value.
    """
    seconds = float(value) if isinstance(value, float | int) and not isinstance(value, bool) else _parse_moment(value)
    if not 0 <= seconds <= LATEST_INSTANT_S:
        raise ValueError(f"{quoted(value)} is beyond the years 1970 to 2242")
    return seconds


def _parse_moment(value: object) -> float:
    try:
        moment = datetime.fromisoformat(str(value).strip())
    except ValueError:
        raise ValueError(f"{quoted(value)} is not a time such as 2026-12-01T12:00:00Z") from None
    if moment.tzinfo is None:
        raise ValueError(f"{quoted(value)} does not say in which time zone: add Z, or +01:00")
    return moment.timestamp()


Instant = Annotated[float, BeforeValidator(parse_instant)]
"""Seconds since the epoch, read from a text such as `2026-12-01T12:00:00Z`."""

PositiveDuration = Annotated[Duration, Field(gt=0)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Section(BaseModel):
    """A frozen section of settings; its fields can be given under their name with or without the unit."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=_without_unit,
        validate_by_alias=True,
        validate_by_name=True,
        # A settings error ends in logs; what was given may be a secret.
        hide_input_in_errors=True,
    )


class PoolPolicy(Section):
    """How one environment's pool of idle runners is kept.

    Attributes:
        lost_grace_s: how long a runner may look dead before it is lost.
        settle_s: how long a deficit must last before it is filled, so that Poseidon refills first.
        start_deadline_s: how long a runner may be starting before it counts as never started.
        surge: how many idle and coming runners above the target our own creations may lead to.
        surplus: whether runners above the target are only reported, or idle ones of them stopped.
        protect: whether jobs at risk get a new version in place, so that Nomad does not end them.
        disconnect_policy: what a runner on an unreachable node counts as, and when it is replaced.
        clock_margin_s: added to an agent's own stop-after before its copy is believed to be stopped.
        stop_after_s: the stop-after block that new runners of an `exactly` pool get where the template
            has none; None stamps nothing.
    """

    lost_grace_s: Duration = 10.0
    settle_s: Duration = 10.0
    start_deadline_s: PositiveDuration = 300.0
    surge: int = Field(default=0, ge=0)
    surplus: Literal["report", "trim"] = "report"
    protect: bool = True
    disconnect_policy: Literal["at-least", "exactly", "leave-alone"] = "at-least"
    clock_margin_s: Duration = 10.0
    stop_after_s: PositiveDuration | None = None
    max_jobs: int | None = Field(default=None, ge=1)
    pause: str | None = None
    pause_until: Instant | None = None

    def most_jobs(self, target: int) -> int:
        """How many unused runners may exist, dead ones too, for one more to be created."""
        return self.max_jobs if self.max_jobs is not None else 3 * (target + self.surge) + 10


class PacePolicy(Section):
    """How fast the whole cluster may be worked on.

    Attributes:
        storm_share: the share of known runners or nodes, lost within `storm_window_s`, that is a storm.
        storm_window_s: how far back losses are counted.
        storm_settle_s: how long the cluster must have been quiet before a storm is over.
        storm_max_hold_s: how long a storm may hold creations at most.
        max_starting_per_node: creations in flight for each ready node.
        max_creates_per_second: runners created in a second, over all environments.
        max_protects_per_second: jobs protected in a second, over all environments.
    """

    storm_share: float = Field(default=0.2, gt=0, le=1)
    storm_window_s: PositiveDuration = 60.0
    storm_settle_s: Duration = 30.0
    storm_max_hold_s: Duration = 300.0
    max_starting_per_node: int = Field(default=4, ge=1)
    max_creates_per_second: Rate = 5.0
    max_protects_per_second: Rate = 20.0


class Policy(Section):
    """All that the core may know of the configuration.

    Attributes:
        namespace: the Nomad namespace whose jobs are looked at.
        pool: the policy of every environment that has none of its own.
        pace: the limits of the whole cluster.
        environments: complete policies by environment id, in which `pool` is already merged.
    """

    namespace: str = "default"
    pool: PoolPolicy = PoolPolicy()
    pace: PacePolicy = PacePolicy()
    environments: dict[str, PoolPolicy] = Field(default_factory=dict)

    def for_environment(self, environment_id: str) -> PoolPolicy:
        """The policy of one environment: its own, or that of every pool."""
        return self.environments.get(environment_id, self.pool)
