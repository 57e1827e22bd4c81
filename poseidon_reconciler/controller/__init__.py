"""The loop of a running reconciler, and what it takes in."""

from __future__ import annotations

from poseidon_reconciler.controller.inputs import (
    ActionEnded,
    Fed,
    Input,
    Ping,
    PolicyChanged,
    ProtectionChanged,
    Resumed,
    StreamClosed,
    StreamDoubt,
    StreamFrame,
    StreamOpened,
    Tape,
)
from poseidon_reconciler.controller.listing import Lists
from poseidon_reconciler.controller.loop import Controller, Observer
from poseidon_reconciler.controller.work import Actions

__all__ = [
    "ActionEnded",
    "Actions",
    "Controller",
    "Fed",
    "Input",
    "Lists",
    "Observer",
    "Ping",
    "PolicyChanged",
    "ProtectionChanged",
    "Resumed",
    "StreamClosed",
    "StreamDoubt",
    "StreamFrame",
    "StreamOpened",
    "Tape",
]
