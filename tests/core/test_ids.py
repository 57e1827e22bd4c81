"""Whose a job is, by its id alone, and the names of those that we make."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poseidon_reconciler.core.ids import JobName, parse_job_id, refill_id, replacement_id, template_id

environment_ids = st.integers(0, 10**19 - 1).map(str)


@pytest.mark.parametrize(
    ("job_id", "kind", "environment_id"),
    [
        ("template-1", "environment", "1"),
        ("template-10", "environment", "10"),
        ("template-0", "environment", "0"),
        ("1-abc", "runner", "1"),
        ("11-abc", "runner", "11"),
        ("10-11111111-1111-11f1-8000-000000000001", "runner", "10"),
        ("0-x", "runner", "0"),
        ("10-", None, None),
        ("10", None, None),
        ("-10", None, None),
        ("--", None, None),
        ("", None, None),
        ("template", None, None),
        ("template-", None, None),
        ("template-x", None, None),
        ("template-10-x", None, None),
        ("template-10/periodic-5", None, None),
        ("template-010", None, None),
        ("template-+1", None, None),
        ("template-1\n", None, None),
        ("Template-1", None, None),
        (" template-1", None, None),
        ("010-x", None, None),
        ("1e3-x", None, None),
        ("-1-x", None, None),
        ("1_0-x", None, None),
        ("٣-x", None, None),
        ("template-٣", None, None),
        ("99999999999999999999-x", None, None),
        ("template-99999999999999999999", None, None),
        ("tests-1-x", None, None),
        ("10-\n", "runner", "10"),
    ],
)
def test_a_job_is_ours_by_its_whole_id(job_id: str, kind: str | None, environment_id: str | None) -> None:
    assert parse_job_id(job_id) == (None if kind is None else (kind, environment_id))


@given(environment_id=environment_ids)
def test_a_template_is_found_again_under_its_id(environment_id: str) -> None:
    assert parse_job_id(template_id(environment_id)) == JobName("environment", environment_id)


@given(environment_id=environment_ids, replaces=st.text(min_size=1), index=st.integers(0, 2**63))
def test_what_we_make_is_a_runner_of_its_environment(environment_id: str, replaces: str, index: int) -> None:
    for job_id in (replacement_id(environment_id, replaces, index), refill_id(environment_id, index, 3)):
        assert parse_job_id(job_id) == JobName("runner", environment_id)


def test_whoever_sees_the_same_loss_makes_the_same_name() -> None:
    """Pinned, because a new version of this program must find what the old one had asked for."""
    assert replacement_id("10", "10-lost", 7) == "10-e9e485ea-541f-5f5c-b140-d3fc9ae399a1"
    assert refill_id("10", 7, 0) == "10-404cfb38-c0be-5e08-a123-2e025f3b7e5a"


def test_another_loss_has_another_name() -> None:
    names = [
        replacement_id("10", "10-lost", 7),
        replacement_id("10", "10-lost", 8),
        replacement_id("10", "10-other", 7),
        refill_id("10", 7, 0),
        refill_id("10", 7, 1),
        refill_id("10", 8, 0),
        refill_id("1", 7, 0),
    ]

    assert len(set(names)) == len(names)
