"""A recording played as if it happened now: what is counted, which clock it has, and how time runs out afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from poseidon_reconciler.core.reconciler import Step
from poseidon_reconciler.policy import Policy, PoolPolicy
from poseidon_reconciler.recording.reader import RecordingReader
from poseidon_reconciler.recording.replay import Replay
from poseidon_reconciler.recording.story import Story
from tests.core.builders import (
    RUNNER,
    START,
    TEMPLATE,
    Wire,
    allocation,
    evaluation,
    event,
    job,
    node,
    node_id,
    runner,
)


def frame(index: int, *objects: Wire, at: float | None = None) -> Wire:
    """A line of the stream, in an envelope if it has a time."""
    told = {"Index": index, "Events": [each if "Topic" in each else event(each) for each in objects]}
    return told if at is None else {"ReceivedAt": at, "Frame": told}


def snapshot(index: int, at: float, **lists: list[Wire]) -> Wire:
    return {"ReceivedAt": at, "Snapshot": {**lists, "Indexes": dict.fromkeys(lists, index)}}


def write(path: Path, *lines: Wire) -> Path:
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return path


def played(tmp_path: Path, *lines: Wire, settle_s: float = 3600.0) -> tuple[Story, Replay]:
    replay = Replay(Policy())
    return replay.run(RecordingReader([write(tmp_path / "lines.ndjson", *lines)]), settle_s), replay


def ending(at: float | None = START) -> list[Wire]:
    """A runner that runs, and then ends with 0."""
    ended = allocation("a", client="complete", index=21, created=11)
    return [
        frame(20, job(index=10), allocation("a", index=11), at=at),
        frame(21, ended, job(status="dead", index=21, created=10), at=None if at is None else at + 5),
    ]


def states(story: Story) -> dict[str, str]:
    return {job_id: row.state for job_id, row in story.jobs.items()}


def test_whatever_is_played_is_counted(tmp_path: Path) -> None:
    stranger = {"Topic": "Deployment", "Type": "DeploymentStatusUpdate", "Index": 22, "Payload": {"Deployment": {}}}
    story, _ = played(
        tmp_path,
        {"ReceivedAt": START, "Connection": "opened"},
        {"ReceivedAt": START + 1, "Frame": {}},
        snapshot(5, START + 2, Jobs=[], Allocations=[], Evaluations=[], Nodes=[]),
        frame(20, job(index=10), allocation("a", index=11), at=START + 3),
        frame(22, stranger, at=START + 4),
        {},
        {"ReceivedAt": START + 9, "Malformed": "EOF"},
        {"ReceivedAt": START + 10, "Connection": "closed", "Reason": "EOF"},
    )

    assert (story.frames, story.events, story.heartbeats, story.snapshots) == (2, 3, 2, 1)
    assert (story.malformed, story.last_index) == (1, 22)
    assert (story.started_at, story.ended_at) == (START, START + 10)
    assert [entry.text for entry in story.timeline if entry.kind == "connection"] == ["opened", "closed: EOF"]


def test_time_goes_on_after_the_last_line_until_nothing_is_due(tmp_path: Path) -> None:
    story, replay = played(tmp_path, *ending())

    assert states(story) == {RUNNER: "lost"}
    assert [loss.at for loss in story.losses] == [START + 15]
    assert [(action.kind, action.at) for action in story.actions] == [("remove-job", START + 15)]
    assert story.settled_at == START + 15
    assert replay.core.next_due() is None


def test_time_goes_on_no_longer_than_it_may(tmp_path: Path) -> None:
    story, replay = played(tmp_path, *ending(), settle_s=9.0)

    assert states(story) == {RUNNER: "recovering"}
    assert story.actions == []
    assert replay.core.next_due() == START + 15


def test_what_is_due_between_two_lines_happens_in_its_own_time_and_before_the_later_line(tmp_path: Path) -> None:
    back = job(status="pending", index=40, created=10, registered=40, version=1)

    story, _ = played(tmp_path, *ending(), frame(40, back, at=START + 100))

    assert [(entry.at - START, entry.text) for entry in story.timeline if entry.kind == "action"] == [
        (15, "remove-job: lost for good: stuck-complete")
    ]
    verdicts = [(entry.at - START, entry.text) for entry in story.timeline if entry.kind == "verdict"]
    assert verdicts[2] == (15.0, "lost, stuck-complete")
    assert verdicts[3][0] == 100


def test_what_is_due_with_a_line_is_judged_with_what_the_line_says(tmp_path: Path) -> None:
    back = [allocation("b", index=30), job(index=30, created=10)]

    story, _ = played(tmp_path, *ending(), frame(30, *back, at=START + 15))

    assert states(story) == {RUNNER: "idle"}
    assert (story.losses, story.actions) == ([], [])


def test_the_clock_of_a_bare_stream_is_that_of_its_payloads(tmp_path: Path) -> None:
    first, second = ending(at=None)
    for line, at in ((first, START), (second, START + 7)):
        line["Events"][0 if line is second else 1]["Payload"]["Allocation"]["ModifyTime"] = int(at * 1e9)

    story, _ = played(tmp_path, {}, first, second)

    assert (story.started_at, story.ended_at) == (START, START + 7)
    assert [loss.at for loss in story.losses] == [START + 17]


def test_a_clock_that_goes_back_stands_still(tmp_path: Path) -> None:
    first, second = ending()
    second["ReceivedAt"] = START - 50

    story, _ = played(tmp_path, first, second)

    assert (story.started_at, story.ended_at) == (START, START)
    assert [loss.at for loss in story.losses] == [START + 10]


def test_a_recording_without_any_time_has_no_beginning_and_still_an_end(tmp_path: Path) -> None:
    story, _ = played(tmp_path, *ending(at=None))

    assert (story.started_at, story.ended_at) == (None, None)
    assert states(story) == {RUNNER: "lost"}


def test_recordings_are_played_one_after_the_other_as_one(tmp_path: Path) -> None:
    first, second = ending()
    replay = Replay(Policy())
    paths = [write(tmp_path / "one.ndjson", first), write(tmp_path / "two.ndjson", second)]

    story = replay.run(RecordingReader(paths))
    whole, _ = played(tmp_path, first, second)

    assert story == whole


def test_each_step_is_told_in_order(tmp_path: Path) -> None:
    steps: list[Step] = []
    replay = Replay(Policy(), steps.append)

    story = replay.run(RecordingReader([write(tmp_path / "lines.ndjson", *ending())]))

    assert [step.at - START for step in steps] == sorted(step.at - START for step in steps)
    assert [action for step in steps for action in step.actions] == story.actions
    assert [step.at - START for step in steps if step.changes] == [0, 5, 15]


def test_a_job_that_was_gone_long_before_the_end_stays_listed(tmp_path: Path) -> None:
    purged = event(evaluation("e", RUNNER, "pending", index=30), "JobDeregistered")

    story, _ = played(tmp_path, *ending(), frame(30, purged, at=START + 6), frame(40, node(index=40), at=START + 9e4))

    assert (story.jobs[RUNNER].state, story.jobs[RUNNER].cause) == ("gone", "purged")


def test_lists_older_than_what_the_stream_had_told_before_it_opened_again_begin_a_new_epoch(tmp_path: Path) -> None:
    story, replay = played(
        tmp_path,
        *ending(),
        {"ReceivedAt": START + 6, "Connection": "opened"},
        snapshot(
            9,
            START + 7,
            Jobs=[job(runner(5), index=8)],
            Allocations=[allocation("b", runner(5), index=9)],
            Evaluations=[],
        ),
    )

    assert replay.core.snapshots.epoch == 1
    assert states(story) == {runner(5): "idle"}
    assert story.actions == []


def test_the_rows_of_an_environment_are_its_pools_numbers(tmp_path: Path) -> None:
    jobs = [job(TEMPLATE, index=10, target=2), *(job(runner(n), index=20 + n, used=n == 0) for n in range(5))]
    allocations = [allocation("t", TEMPLATE, index=30, node=node_id(1))]
    allocations += [allocation(f"a{n}", runner(n), index=31 + n, node=node_id(1)) for n in range(4)]

    story, _ = played(tmp_path, frame(50, node(node_id(1), index=1), *jobs, *allocations, at=START), settle_s=0.0)

    row = story.environments["10"]
    assert (row.state, row.target, row.idle, row.used, row.starting) == ("active", 2, 3, 1, 1)
    assert (row.deficit, row.surplus) == (0, 2)


def test_a_change_of_the_target_alone_is_in_the_samples(tmp_path: Path) -> None:
    def template(target: int, index: int) -> Wire:
        return job(TEMPLATE, index=index, created=10, registered=index, target=target)

    first = frame(20, template(0, 10), allocation("t", TEMPLATE, index=20), at=START)

    story, _ = played(tmp_path, first, frame(30, template(3, 30), at=START + 60), settle_s=0.0)

    assert [(sample.at - START, sample.target) for sample in story.samples["10"]] == [(0, 0), (60, 3)]


@pytest.mark.parametrize("extra", [{"Frame": {"Index": 1, "Events": None}}, {"Frame": {"Index": 1}}])
def test_a_frame_without_events_is_one(tmp_path: Path, extra: dict[str, Any]) -> None:
    story, _ = played(tmp_path, {"ReceivedAt": START, **extra})

    assert (story.frames, story.events, story.malformed) == (1, 0, 0)


def test_each_loss_is_told_by_its_node() -> None:
    recording = Path(__file__).parent.parent / "fixtures" / "event_dumps" / "restart-together-20s.ndjson.gz"
    story = Replay(Policy()).run(RecordingReader([recording]))
    assert sum(losses.losses for losses in story.blame) == len(story.losses) == 3
    assert all(losses.what.startswith("went down") for losses in story.blame)
    known = {change.node_id: change.name for change in story.node_changes}
    assert {losses.node_id: losses.node for losses in story.blame}.items() <= known.items()


def test_while_the_connection_was_closed_nothing_is_decided(tmp_path: Path) -> None:
    began, ended = ending()
    ready = frame(22, node(node_id(1), index=22), at=START + 300)
    steps: list[Step] = []
    lines = [began, ended, {"ReceivedAt": START + 6, "Connection": "closed"}]
    lines += [{"ReceivedAt": START + 299, "Connection": "opened"}, ready]

    Replay(Policy(), steps.append).run(RecordingReader([write(tmp_path / "a", *lines)]))

    lost = [step.at for step in steps for change in step.changes if change.verdict.state == "lost"]
    assert lost == [START + 300]


def told(at: float, line: Wire | None = None, **what: Wire | bool) -> Wire:
    """A line of a flight recorder."""
    return {"ReceivedAt": at, "Told": what, **(line or {})}


def test_a_flight_says_when_the_core_was_told_the_time(tmp_path: Path) -> None:
    began, ended = (told(line["ReceivedAt"], {"Frame": line["Frame"]}) for line in ending())
    looks = [told(START + 7), told(START + 40.25), told(START + 50)]
    steps: list[Step] = []

    replay = Replay(Policy(), steps.append)
    story = replay.run(RecordingReader([write(tmp_path / "a", began, ended, *looks)]), settle_s=0.0)

    lost = [step.at for step in steps for change in step.changes if change.verdict.state == "lost"]
    assert lost == [START + 40.25]
    assert (story.frames, story.heartbeats, story.malformed) == (2, 0, 0)


@pytest.mark.parametrize("until", [1e18, -1.0])
def test_a_pause_until_a_time_that_nobody_can_write_is_no_line_of_a_flight(tmp_path: Path, until: float) -> None:
    lines = [told(START, Pause={"Reason": "x", "Since": START, "Until": until}), *ending()]

    story = Replay(Policy()).run(RecordingReader([write(tmp_path / "a", *lines)]), settle_s=0.0)

    assert story.malformed == 1
    assert "paused" not in [hold.rule for hold in story.holds]


@pytest.mark.parametrize("followed", [True, False])
def test_a_flight_tells_by_which_policy_was_judged(tmp_path: Path, followed: bool) -> None:
    patient = Policy(pool=PoolPolicy(lost_grace_s=30.0))
    began, ended = (told(line["ReceivedAt"], {"Frame": line["Frame"]}) for line in ending())
    lines = [began, told(START + 1, Policy=patient.model_dump(mode="json")), ended]
    lines += [told(START + second) for second in range(2, 100)]
    steps: list[Step] = []

    replay = Replay(Policy(), steps.append, other_policies=followed)
    story = replay.run(RecordingReader([write(tmp_path / "a", *lines)]), settle_s=0.0)

    (lost,) = [step.at for step in steps for change in step.changes if change.verdict.state == "lost"]
    assert lost - ended["ReceivedAt"] == pytest.approx(30 if followed else 10, abs=1)
    assert replay.core.policy == (patient if followed else Policy())
    assert story.malformed == 0


def test_a_policy_that_is_none_is_no_line_of_a_flight(tmp_path: Path) -> None:
    lines = [told(START, Policy={"pool": {"lost_grace": "soon"}}), *ending()]

    replay = Replay(Policy())
    story = replay.run(RecordingReader([write(tmp_path / "a", *lines)]), settle_s=0.0)

    assert story.malformed == 1
    assert replay.core.policy == Policy()


def test_a_flight_tells_what_the_core_was_told_besides(tmp_path: Path) -> None:
    replay = Replay(Policy())
    outcome = {"At": START, "Kind": "remove-job", "EnvironmentID": "10", "JobID": RUNNER, "Result": "not-done"}
    pause = {"EnvironmentID": "10", "Reason": "maintenance", "Since": START}
    lines = [
        told(START, {"Connection": "opened"}),
        told(START, Imagines=True),
        told(START, Protects=False),
        told(START, Pause=pause),
        told(START + 1, Pause={"Since": START, "Reason": "all"}),
        told(START + 1, Pause={"Lifted": True}),
        told(START + 2, Outcome=outcome),
        told(START + 3, {"Malformed": "what cannot be read is no word of the time"}),
        told(START + 1, {"Frame": frame(20, job(index=10))}),
    ]

    replay.run(RecordingReader([write(tmp_path / "a", *lines)]), settle_s=0.0)

    planner = replay.core.planner
    assert not planner.protection.wanted
    assert planner.desk.imagines
    assert [each.reason for each in planner.pauses.current(START + 2)] == ["maintenance"]
    (waiting,) = planner.retries.waiting()
    assert (waiting.action.kind, waiting.action.job_id, waiting.until) == ("remove-job", RUNNER, START + 4)
    assert replay.core.now == START + 1
