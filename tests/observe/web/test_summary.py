"""The one sentence that says how it stands."""

from __future__ import annotations

from typing import Any

import pytest

from poseidon_reconciler.observe.web.summary import summary


def status(*rows: dict[str, Any], **more: Any) -> dict[str, Any]:
    usual = {"state": "active", "target": 4, "idle": 4, "on_their_way": {}, "deficit": 0, "at_risk": 0}
    rows_by_id = {str(number): usual | row for number, row in enumerate(rows)}
    return {"synced": True, "storm": None, "pauses": [], "environments": rows_by_id} | more


@pytest.mark.parametrize(
    ("given", "level", "text"),
    [
        (status({}, {}), "good", "All is well: 2 pools at the target."),
        (status(), "good", "All is well: 0 pools at the target."),
        (status({"target": None, "idle": 0, "state": "gone"}), "good", "All is well: 1 pool at the target."),
        (status({"idle": 3}, {}), "busy", "1 idle runner missing in 1 pool."),
        (status({"idle": 0}), "bad", "4 idle runners missing in 1 pool."),
        (
            status({"idle": 0, "on_their_way": {"blocked": 3}, "deficit": 1}, {"idle": 1, "deficit": 3}),
            "bad",
            "7 idle runners missing in 2 pools (3 on their way and a deficit of 4).",
        ),
        (
            status({"idle": 2, "on_their_way": {"starting": 5}}),
            "busy",
            "2 idle runners missing in 1 pool (2 on their way).",
        ),
        (status({"target": 0, "idle": 0, "at_risk": 2}), "busy", "2 jobs at risk."),
        (status({"state": "missing", "target": None}), "bad", "1 environment lost or missing."),
        (status({}, storm={"since": "", "until": ""}), "busy", "A storm holds new runners back."),
        (status({}, pauses=[{}]), "busy", "1 pause in force."),
        (status({}, synced=False), "bad", "Not in step with Nomad, nothing is decided (stream-closed: EOF\\n)."),
    ],
)
def test_it_says_what_is_so(given: dict[str, Any], level: str, text: str) -> None:
    assert summary(given, "stream-closed: EOF\n") == {"level": level, "text": text}
