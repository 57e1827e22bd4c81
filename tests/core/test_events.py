"""One line's bytes as typed values: what is taken from them, what is missing, and what a bad value costs."""

from __future__ import annotations

from typing import Any

import msgspec
import orjson
import pytest

from poseidon_reconciler.core.events import UNKNOWN, Payload, parse_time, server_time_s
from poseidon_reconciler.core.lines import Line, MalformedLineError, is_heartbeat, read_block, read_line, read_texts
from tests.core.builders import RUNNER, START, Wire, allocation, evaluation, event, frame_of, job, line_of, node

BAD_ALLOCATION = allocation("bad", index=9, DesiredDescription=5)


def payload_of(wire: Wire) -> Payload:
    events = line_of({"Index": 9, "Events": [event(wire)]}).events
    assert events is not None
    assert events[0].payload is not None
    return events[0].payload


# --- what is taken ------------------------------------------------------------------------------------------------


def test_the_fields_of_a_job_are_found_under_nomads_names() -> None:
    group = {
        "StopAfterClientDisconnect": 60_000_000_000,
        "MaxClientDisconnect": 5,
        "Disconnect": {"StopOnClientAfter": 7, "LostAfter": 8},
        "Tasks": [{"Name": "default-task", "KillTimeout": 3, "Env": {"A": "b"}}],
    }
    data = payload_of(job(index=9, created=4, registered=5, version=2, target=3, group=group, SubmitTime=11)).job

    assert data is not None
    assert (data.id, data.type, data.status, data.stop, data.version) == (RUNNER, "batch", "running", False, 2)
    assert (data.create_index, data.modify_index, data.job_modify_index, data.submit_time) == (4, 9, 5, 11)
    assert data.task_groups is not None
    default, config = data.task_groups
    assert (default.name, default.count, default.stop_after_client_disconnect) == ("default-group", 1, 60_000_000_000)
    assert default.disconnect is not None
    assert (default.disconnect.stop_on_client_after, default.disconnect.lost_after) == (7, 8)
    assert [task.kill_timeout for task in default.tasks or ()] == [3]
    assert config.meta == {"used": "false", "prewarmingPoolSize": "3"}


def test_the_fields_of_an_allocation_are_found_under_nomads_names() -> None:
    more: Wire = {
        "NextAllocation": "b", "PreviousAllocation": "z", "FollowupEvalID": "e", "JobVersion": 3, "NodeName": "agent",
        "DesiredDescription": "why", "DesiredTransition": {"Migrate": True, "MigrateDisablePlacement": True},
        "ModifyTime": 12,
    }  # fmt: skip
    data = payload_of(allocation("a", RUNNER, "lost", "stop", index=9, created=4, restarts=2, **more)).allocation

    assert data is not None
    assert (data.id, data.job_id, data.client_status, data.desired_status) == ("a", RUNNER, "lost", "stop")
    assert (data.next_allocation, data.previous_allocation, data.followup_eval_id) == ("b", "z", "e")
    assert (data.job_version, data.create_index, data.modify_index, data.alloc_modify_index) == (3, 4, 9, 4)
    assert (data.node_name, data.desired_description, data.modify_time) == ("agent", "why", 12)
    assert data.desired_transition is not None
    assert (data.desired_transition.migrate, data.desired_transition.migrate_disable_placement) == (True, True)
    assert {name: (task.state, task.restarts) for name, task in (data.task_states or {}).items()} == {
        "default-task": ("dead", 2)
    }


def test_the_fields_of_an_evaluation_are_found_under_nomads_names() -> None:
    failure = {"NodesEvaluated": 3, "NodesExhausted": 2, "DimensionExhausted": {"memory": 2}, "ClassFiltered": None}
    data = payload_of(
        evaluation("e", status="blocked", index=9, WaitUntil="2027-01-15T08:00:00Z", FailedTGAllocs={"g": failure})
    ).evaluation

    assert data is not None
    assert (data.id, data.job_id, data.status, data.wait_until) == ("e", RUNNER, "blocked", "2027-01-15T08:00:00Z")
    found = (data.failed_tg_allocs or {})["g"]
    assert (found.nodes_evaluated, found.nodes_exhausted, found.dimension_exhausted) == (3, 2, {"memory": 2})


@pytest.mark.parametrize(
    ("more", "draining"),
    [
        ({}, False),
        ({"Drain": True}, True),
        ({"Drain": False, "DrainStrategy": None}, False),
        ({"DrainStrategy": {"Deadline": -1}}, True),
    ],
)
def test_a_node_drains_by_a_flag_or_by_a_strategy(more: Wire, draining: bool) -> None:
    data = payload_of(node(index=9, **more)).node

    assert data is not None
    assert data.draining == draining


def test_what_the_sender_leaves_out_is_unknown() -> None:
    line = line_of(
        {
            "Index": 9,
            "Events": [
                {"Topic": "Job", "Type": "T", "Payload": {"Job": {"ID": "j", "Status": "dead"}}},
                {
                    "Topic": "Allocation",
                    "Type": "T",
                    "Payload": {
                        "Allocation": {"ID": "a", "JobID": "j", "ClientStatus": "lost", "DesiredStatus": "stop"}
                    },
                },
                {"Topic": "Node", "Type": "T"},
                {"Topic": "Node", "Type": "T", "Payload": None},
            ],
        }
    )

    assert line.events is not None
    first, second, third, fourth = line.events
    assert first.payload is not None
    assert first.payload.job is not None
    assert second.payload is not None
    assert second.payload.allocation is not None
    assert (first.payload.job.version, first.payload.job.modify_index, first.payload.job.task_groups) == (-1, -1, None)
    assert second.payload.allocation.task_states is None
    assert second.payload.allocation.create_index == UNKNOWN
    assert (third.payload, fourth.payload, first.namespace) == (None, None, "")


# --- kinds of lines -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "heartbeat"),
    [
        (b"{}", True),
        (b'{"ReceivedAt": 1, "Frame": {}}', True),
        (b'{"Index": 3, "Events": []}', False),
        (b'{"Index": 3}', False),
        (b'{"ReceivedAt": 1, "Frame": {"Index": 3, "Events": null}}', False),
        (b'{"ReceivedAt": 1, "Connection": "opened"}', False),
        (b'{"ReceivedAt": 1, "Malformed": "EOF"}', False),
        (b'{"ReceivedAt": 1, "Snapshot": {"Indexes": {}}}', False),
    ],
)
def test_only_an_empty_object_is_a_heartbeat(text: bytes, heartbeat: bool) -> None:
    assert is_heartbeat(read_line(text)) == heartbeat


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"1",
        b'"{}"',
        b"{}{}",
        b"\xff",
        b'{"Index": -1, "Events": []}',
        b'{"Index": 1.5}',
        b'{"Index": "1"}',
        b'{"Events": []}',
        b'{"jobs": 3}',
        b'{"ReceivedAt": 5}',
        b'{"ReceivedAt": -5, "Frame": {}}',
        b'{"ReceivedAt": 1e99, "Frame": {}}',
        b'{"Frame": {"Events": []}}',
        b'{"Frame": 5}',
        b'{"Snapshot": []}',
        b'{"Connection": 5}',
        b'{"Index": 18446744073709551616, "Events": []}',
        b"[" * 100_000 + b"]" * 100_000,
        b'{"Index": 1, "Events": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
    ids=lambda text: text[:40],
)
def test_what_is_no_line_says_so_in_one_line(text: bytes) -> None:
    with pytest.raises(MalformedLineError) as refused:
        read_line(text)

    assert len(str(refused.value).splitlines()) == 1


def test_a_block_gives_its_lines_whatever_is_between_them() -> None:
    block = b'{"Index": 1}\n\n \nEOF\n{}\r\n{"other": 1}\n{"Index": 2}\n'

    lines = read_block(block)

    assert [(line.index, line.malformed) for line in lines] == [
        (1, None), (-1, "EOF"), (-1, None), (-1, '{"other": 1}'), (2, None),
    ]  # fmt: skip
    assert is_heartbeat(lines[2])
    assert all(line.reason for line in lines if line.malformed is not None)


def test_of_a_malformed_line_its_beginning_is_kept() -> None:
    (line,) = read_block(b"x" * 5000 + b"\n")

    assert line.malformed == "x" * 200


@pytest.mark.parametrize("values", [[], [{"Index": 1}, {"Index": 2, "Events": []}, {}], [{"Frame": {"Index": 5}}]])
def test_a_block_is_read_like_its_lines_one_by_one(values: list[Wire]) -> None:
    texts = [orjson.dumps(value) for value in values]

    assert read_block(b"".join(text + b"\n" for text in texts)) == list(map(read_line, texts))


# --- what a bad value costs -------------------------------------------------------------------------------------------


def test_an_event_that_cannot_be_read_costs_itself_alone() -> None:
    line = frame_of(9, [allocation("a", index=9), BAD_ALLOCATION, node(index=9)])

    assert isinstance(line, Line)
    assert line.faults == 1
    assert [each.topic for each in line.events or ()] == ["Allocation", "Node"]


def test_the_same_goes_for_a_line_in_an_envelope() -> None:
    events = [event(allocation("a", index=9)), event(BAD_ALLOCATION)]

    line = line_of({"ReceivedAt": START, "Frame": {"Index": 9, "Events": events}})

    assert (line.faults, line.received_at) == (1, START)
    assert line.frame is not None
    assert (line.frame.index, len(line.frame.events or ())) == (9, 1)


@pytest.mark.parametrize(
    ("strange", "faults"),
    [
        ({"Topic": "Service", "Type": [], "Payload": 3}, 0),
        ({"Topic": "Job", "Type": [], "Payload": 3}, 1),
        ({"Topic": 3}, 1),
        ({}, 1),
        ("no object", 1),
        (None, 1),
    ],
)
def test_only_what_may_have_been_of_our_topics_is_a_fault(strange: Any, faults: int) -> None:
    line = line_of({"Index": 9, "Events": [strange, event(node(index=9))]})

    assert line.faults == faults
    assert len(line.events or ()) == 1


def test_a_member_that_cannot_be_read_makes_its_list_incomplete_and_no_other() -> None:
    lists = {
        "Jobs": [job(index=9), 5, {"ID": "no status"}],
        "Nodes": [node(index=9)],
        "Evaluations": [],
        "Indexes": {"Jobs": 9, "Nodes": 9, "Evaluations": 9},
    }

    line = line_of({"Snapshot": lists})

    snapshot = line.snapshot
    assert snapshot is not None
    assert line.faults == 2
    assert snapshot.indexes == {"Nodes": 9, "Evaluations": 9}
    assert [each.id for each in snapshot.jobs or ()] == [RUNNER]
    assert (snapshot.allocations, snapshot.evaluations) == (None, [])


@pytest.mark.parametrize("indexes", [{"Jobs": -1}, {"Jobs": 2**63}, {"Jobs": "9"}, 5])
def test_lists_without_usable_indexes_are_no_lists(indexes: Any) -> None:
    with pytest.raises(MalformedLineError):
        line_of({"Snapshot": {"Jobs": [], "Indexes": indexes}})


@pytest.mark.parametrize("field", ["CreateIndex", "ModifyIndex", "JobModifyIndex", "Version"])
@pytest.mark.parametrize(("value", "faults"), [(0, 0), (2**63 - 1, 0), (2**63, 1), (2**64 - 1, 1), (-1, 1)])
def test_an_index_has_63_bits(field: str, value: int, faults: int) -> None:
    line = line_of(
        {"Index": 9, "Events": [{**event(job(index=9)), "Payload": {"Job": {**job(index=9), field: value}}}]}
    )

    assert line.faults == faults


# --- times --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2027-01-15T08:00:00Z", START),
        ("2027-01-15T09:00:00+01:00", START),
        ("2027-01-15T08:00:00.25Z", START + 0.25),
        ("2027-01-15T08:00:00.123456789Z", START + 0.123456),
        ("2027-01-15T08:00:00", START),
        ("0001-01-01T00:00:00Z", None),
        ("", None),
        (None, None),
        ("soon", None),
        ("2027-13-45T99:00:00Z", None),
    ],
)
def test_a_time_is_read_as_nomad_writes_it(text: str | None, seconds: float | None) -> None:
    assert parse_time(text) == (None if seconds is None else pytest.approx(seconds, abs=1e-6))


def test_the_clock_of_a_line_is_the_newest_time_in_it() -> None:
    nanoseconds = int(START * 1e9)
    older = allocation("a", index=9, ModifyTime=nanoseconds - 10**9)
    newer = evaluation("e", index=9, ModifyTime=nanoseconds)

    assert server_time_s(frame_of(9, [older, newer, node(index=9, StatusUpdatedAt=int(START) - 60)])) == START


@pytest.mark.parametrize(
    ("wire", "type_", "seconds"),
    [
        (job(index=9, SubmitTime=int(START * 1e9)), "JobRegistered", START),
        # A job's other events carry the time of its registration, which may be long ago.
        (job(index=9, SubmitTime=int(START * 1e9)), "EvaluationUpdated", None),
        (node(index=9, StatusUpdatedAt=int(START)), "NodeEvent", START),
        (node(index=9, StatusUpdatedAt=2**62), "NodeEvent", None),
        (allocation("a", index=9, ModifyTime=-5), "AllocationUpdated", None),
        (allocation("a", index=9), "AllocationUpdated", None),
    ],
)
def test_where_the_clock_of_a_line_comes_from(wire: Wire, type_: str, seconds: float | None) -> None:
    assert server_time_s(frame_of(9, [event(wire, type_)])) == seconds


@pytest.mark.parametrize(
    ("block", "indexes"),
    [
        (b'{"Index":1,"Events":[]}\n \n\n{"Index":2,"Events":[]}\r\n', [1, 2]),
        (b'{"Index":1,"Events":[]}\nnone\n', [1, -1]),
        (b'{"Index":1,\n"Events":[]}\n', [-1, -1]),
        (b'{"Index":1,"Events":[]}{"Index":2,"Events":[]}\n', [-1]),
        (b"", []),
    ],
)
def test_each_line_can_be_had_with_its_bytes(block: bytes, indexes: list[int]) -> None:
    lines = read_texts(block)
    assert [line.index for line, _ in lines] == indexes
    assert [text for _, text in lines] == [text for text in block.split(b"\n") if text.strip()]


def test_what_was_read_can_be_written_and_read_again() -> None:
    """A snapshot in a flight recording is what the core was fed, and nothing that it was not."""
    stub = {"ID": "10-a", "Status": "dead"}
    allocated = {"ID": "a", "JobID": "10-a", "ClientStatus": "complete", "DesiredStatus": "run"}
    snapshot = read_line(orjson.dumps({"Snapshot": {"Jobs": [stub], "Allocations": [allocated]}})).snapshot
    assert msgspec.json.decode(msgspec.json.encode(snapshot)) == {"Jobs": [stub], "Allocations": [allocated]}
