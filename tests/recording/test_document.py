"""The JSON document of a replay: the names of the contract, no more and no less, and times that machines can read."""

from __future__ import annotations

import pytest

from poseidon_reconciler.core.documents import action_document, hold_document, iso
from poseidon_reconciler.recording.document import story_document
from poseidon_reconciler.recording.story import Story
from tests.recording.stories import RUNNER, START, job, loss, pool_story

ENVIRONMENT_KEYS = {
    "state", "cause", "rule", "target", "idle", "used", "starting", "recovering", "blocked", "disconnected", "leaving",
    "lost", "deficit", "surplus",
}  # fmt: skip
JOB_KEYS = {
    "kind", "environment_id", "state", "cause", "at_risk", "rule", "since", "due_at", "node", "evidence",
}  # fmt: skip


def test_the_document_has_the_keys_of_the_contract() -> None:
    story = pool_story()
    story.jobs = {RUNNER: job(evidence=loss().evidence)}
    document = story_document(story)
    assert set(document) == {
        "frames", "events", "heartbeats", "last_index", "malformed", "started_at", "ended_at", "environments", "jobs",
        "actions", "holds", "blame",
    }  # fmt: skip
    assert set(document["environments"]["10"]) == ENVIRONMENT_KEYS
    assert set(document["jobs"][RUNNER]) == JOB_KEYS
    assert set(document["jobs"][RUNNER]["evidence"][0]) == {"index", "topic", "type", "key", "text"}
    assert {key for action in document["actions"] for key in action} == {
        "at", "kind", "environment_id", "job_id", "replaces", "reason",
    }  # fmt: skip
    assert {key for hold in document["holds"] for key in hold} == {
        "environment_id", "rule", "reason", "since", "until", "ends",
    }  # fmt: skip


def test_the_document_tells_what_the_story_tells() -> None:
    story = pool_story()
    story.malformed = 3
    story.jobs = {RUNNER: job(state="lost", cause="exhausted", since=START + 20, due_at=START + 30)}
    document = story_document(story)
    assert {key: document[key] for key in ("frames", "events", "heartbeats", "last_index", "malformed")} == {
        "frames": 12, "events": 34, "heartbeats": 2, "last_index": 124, "malformed": 3,
    }  # fmt: skip
    assert (document["started_at"], document["ended_at"]) == ("2026-11-30T18:00:00.000Z", "2026-11-30T18:00:40.000Z")
    assert document["environments"]["10"] | {"idle": 3, "lost": 2, "target": 5} == document["environments"]["10"]
    told = document["jobs"][RUNNER]
    assert (told["state"], told["cause"]) == ("lost", "exhausted")
    assert (told["since"], told["due_at"]) == ("2026-11-30T18:00:20.000Z", "2026-11-30T18:00:30.000Z")


def test_an_action_is_told_with_what_it_replaces() -> None:
    protect, create = (action_document(action) for action in pool_story().actions)
    assert create == {
        "at": "2026-11-30T18:01:00.000Z",
        "kind": "create-runner",
        "environment_id": "10",
        "job_id": "10-new",
        "replaces": RUNNER,
        "reason": "replaces a runner that is lost",
    }
    assert protect["replaces"] is None


def test_a_hold_is_told_with_its_end() -> None:
    assert hold_document(pool_story().holds[0]) == {
        "environment_id": "10",
        "rule": "enough-starting",
        "reason": "1 runner short, enough are starting",
        "since": "2026-11-30T18:00:00.000Z",
        "until": "2026-11-30T18:01:30.000Z",
        "ends": "one runs",
    }


def test_losses_are_told_by_their_node() -> None:
    assert story_document(pool_story())["blame"] == [
        {
            "node": "agent-1",
            "node_id": "4161f44b-0000",
            "at": "2026-11-30T18:00:10.000Z",
            "what": "went down",
            "losses": 2,
            "causes": {"stuck-complete": 2},
            "job_ids": [RUNNER, "10-b"],
        }
    ]


def test_what_is_not_known_is_null() -> None:
    document = story_document(Story())
    assert (document["last_index"], document["started_at"], document["ended_at"]) == (None, None, None)
    assert (document["environments"], document["jobs"], document["actions"], document["holds"]) == ({}, {}, [], [])


@pytest.mark.parametrize(
    ("at", "written"),
    [
        (None, None),
        (0.0, "1970-01-01T00:00:00.000Z"),
        (START, "2026-11-30T18:00:00.000Z"),
        (START + 1.25, "2026-11-30T18:00:01.250Z"),
        (2.0**33, "2242-03-16T12:56:32.000Z"),
    ],
)
def test_times_are_in_utc_to_the_millisecond(at: float | None, written: str | None) -> None:
    assert iso(at) == written
