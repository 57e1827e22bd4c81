"""Several servers, each with its own memory of one log."""

from __future__ import annotations

from poseidon_reconciler.twin.events import Batch
from poseidon_reconciler.twin.quorum import LOGGED_BATCHES, Quorum, Server


def indexes(server: Server) -> list[int]:
    return [batch.index for batch in server.buffer.batches]


def test_a_majority_is_needed() -> None:
    quorum = Quorum(3)
    assert quorum.leader is quorum.servers["server-1"]
    quorum.stop("server-1")
    assert quorum.leader is quorum.servers["server-2"]
    quorum.cut_off("server-2")
    assert not quorum.has_leader
    assert quorum.leader is None


def test_a_server_that_comes_back_has_replayed_the_log() -> None:
    quorum = Quorum(3)
    quorum.publish(Batch(1, ()))
    quorum.stop("server-3")
    quorum.publish(Batch(2, ()))
    assert indexes(quorum.servers["server-3"]) == []
    quorum.start("server-3")
    assert indexes(quorum.servers["server-3"]) == [1, 2]


def test_a_server_that_was_cut_off_hears_nothing_and_catches_up() -> None:
    quorum = Quorum(3)
    quorum.publish(Batch(1, ()))
    quorum.cut_off("server-2")
    quorum.publish(Batch(2, ()))
    quorum.publish(Batch(2, ()))
    reader = quorum.servers["server-2"].buffer.subscribe()
    assert [batch.index for batch in reader.read()] == [1]
    quorum.rejoin("server-2")
    assert [batch.index for batch in reader.read()] == [2, 2]


def test_the_log_is_bounded_and_begins_anew_with_a_snapshot() -> None:
    quorum = Quorum(1)
    for index in range(LOGGED_BATCHES + 5):
        quorum.publish(Batch(index, ()))
    assert len(quorum.log) == LOGGED_BATCHES
    quorum.forget_log()
    quorum.publish(Batch(9, ()))
    quorum.stop("server-1")
    quorum.start("server-1")
    assert indexes(quorum.servers["server-1"]) == [9]
