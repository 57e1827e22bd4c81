"""Every answer that Nomad, or something in its place, is known to give means one thing."""

from __future__ import annotations

import pytest
from requests.structures import CaseInsensitiveDict

from poseidon_reconciler.core.events import UNKNOWN
from poseidon_reconciler.nomad.outcomes import Answer, NotFound, failure_of, staleness_of

META = {"X-Nomad-Index": "57", "X-Nomad-Knownleader": "true", "X-Nomad-Lastcontact": "0"}


def answer(status: int = 200, text: str = "", headers: dict[str, str] | None = None) -> Answer:
    return Answer(status, CaseInsensitiveDict(META if headers is None else headers), text.encode())


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (404, "job not found", "not-found"),
        (403, "Permission denied", "denied"),
        (500, "rpc error: Permission denied", "denied"),
        (403, "ACL token not found", "denied"),
        (500, "ACL token expired", "denied"),
        (401, "who are you", "denied"),
        (403, "Job registration, dispatch, and scale are disabled by the scheduler configuration", "held"),
        (500, "job registration, dispatch, and scale are disabled by the scheduler configuration", "held"),
        (500, "Enforcing job modify index 0: job already exists", "conflict"),
        (500, "Enforcing job modify index 16: job exists with conflicting job modify index: 26", "conflict"),
        (500, "Enforcing job modify index 999: job does not exist", "conflict"),
        (500, "No cluster leader", "unavailable"),
        (500, "rpc error: No cluster leader", "unavailable"),
        (500, "Not ready to serve consistent reads", "unavailable"),
        (429, "Your IP is issuing too many concurrent connections", "unavailable"),
        (400, "Job must be specified", "rejected"),
        (405, "Invalid method", "rejected"),
        (413, "", "rejected"),
        (301, "", "rejected"),
        (500, "rpc error: leadership lost while committing log", "unknown"),
        (500, "", "unknown"),
        (502, "Bad Gateway", "unknown"),
        (504, "Gateway Timeout", "unknown"),
    ],
)
def test_the_status_and_the_text_of_an_answer_tell_what_it_means(status: int, text: str, kind: str) -> None:
    failure = failure_of(answer(status, text))

    assert failure is not None
    assert failure.kind == kind
    assert str(status) in failure.detail


@pytest.mark.parametrize("status", [200, 201, 204])
def test_success_is_no_failure(status: int) -> None:
    assert failure_of(answer(status)) is None


@pytest.mark.parametrize(
    ("text", "headers"),
    [
        ("<h1>Not Found</h1>", {}),
        ("job not found", {}),
        ("", META),
        ("Invalid path", META),
        ("job not found", {**META, "X-Nomad-KnownLeader": "false", "X-Nomad-Knownleader": "false"}),
        ("job not found", {**META, "X-Nomad-Lastcontact": "60000"}),
    ],
)
def test_a_404_that_nomad_does_not_vouch_for_is_not_gone(text: str, headers: dict[str, str]) -> None:
    failure = failure_of(answer(404, text, headers))

    assert failure is not None
    assert failure.kind == "unknown"


def test_what_is_gone_is_gone_as_of_an_index() -> None:
    assert failure_of(answer(404, "job not found")) == NotFound("404 job not found", 57)


@pytest.mark.parametrize(
    ("headers", "stale"),
    [
        (META, False),
        ({"X-Nomad-Index": "57"}, False),
        ({**META, "X-Nomad-Lastcontact": "5000"}, False),
        ({**META, "X-Nomad-Lastcontact": "5001"}, True),
        ({**META, "X-Nomad-Lastcontact": "9" * 400}, True),
        ({**META, "X-Nomad-Lastcontact": "²"}, True),
        ({**META, "X-Nomad-Lastcontact": "-1"}, True),
        ({**META, "X-Nomad-Knownleader": "false"}, True),
        ({**META, "X-Nomad-Index": ""}, True),
        ({**META, "X-Nomad-Index": "²"}, True),
        ({}, True),
    ],
)
def test_an_answer_that_may_be_old_is_stale(headers: dict[str, str], stale: bool) -> None:
    assert (staleness_of(answer(headers=headers)) is not None) == stale


@pytest.mark.parametrize(("text", "index"), [("0", 0), ("57", 57), ("9" * 30, UNKNOWN), ("-3", UNKNOWN), ("", UNKNOWN)])
def test_the_index_is_a_number_or_unknown(text: str, index: int) -> None:
    assert answer(headers={"X-Nomad-Index": text}).index == index


def test_a_long_text_is_shown_as_one_short_line() -> None:
    shown = answer(500, "<html>\n" + "x" * 10_000).text

    assert len(shown) == 200
    assert shown.startswith("<html> xxx")
