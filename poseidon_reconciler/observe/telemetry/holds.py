"""The short names under which holds are counted: a reason has numbers and ids in it, a label must not."""

from __future__ import annotations

from typing import Final

from poseidon_reconciler.core.plan import Hold

ALL: Final = "all"
OTHER: Final = "other"
# What the reasons say, in the order in which they are looked through.
_SIGNS: Final = (
    ("paused: ", "paused"),
    ("storm: ", "storm"),
    ("poison", "poison"),
    ("-runner ", "failed"),
    ("-job ", "failed"),
    ("-environment ", "failed"),
    ("was stopped by somebody", "stopped"),
    ("no job of the environment is known", "missing"),
    ("died again and again", "revival"),
    ("prewarmingPoolSize is unknown", "target"),
    ("Poseidon goes first", "settle"),
    ("enough are starting", "room"),
    ("within the rate", "rate"),
    ("used runners may still run", "used"),
)
KINDS: Final = tuple(dict.fromkeys([*(kind for _, kind in _SIGNS), OTHER]))


def kind_of(hold: Hold) -> str:
    """Which of `KINDS` a hold is."""
    return next((kind for sign, kind in _SIGNS if sign in hold.reason), OTHER)


def environment_of(hold: Hold) -> str:
    """The environment of a hold, as a label."""
    return hold.environment_id if hold.environment_id is not None else ALL
