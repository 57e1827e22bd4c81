"""The words in which an end is told."""

from __future__ import annotations

import pytest

from poseidon_reconciler.nomad.items import ending_of_status


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (403, "Permission denied", "denied"),
        (401, "", "denied"),
        (500, "Permission denied", "denied"),
        (500, "ACL token not found", "denied"),
        (500, "No cluster leader", "refused"),
        (400, "Unable to parse index", "bad-request"),
        (404, "Not found", "not-nomad"),
        (302, "", "refused"),
        (429, "slow down", "refused"),
    ],
)
def test_a_refusal_is_known_by_status_and_text(status: int, text: str, kind: str) -> None:
    assert ending_of_status(status, text) == kind
