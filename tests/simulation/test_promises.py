"""Writes of reconcilers: which of them break a promise, and which rest on what nobody could know."""

from __future__ import annotations

import pytest

from poseidon_reconciler.app.simulation.broken import BrokenError
from poseidon_reconciler.app.simulation.life import Deed
from poseidon_reconciler.app.simulation.promises import Promises
from poseidon_reconciler.app.simulation.truth import NAMESPACE, Truth
from poseidon_reconciler.core.ledger import Action
from poseidon_reconciler.nomad.transport import Request
from poseidon_reconciler.policy import Policy
from poseidon_reconciler.twin.listening import listen
from poseidon_reconciler.twin.poseidon_jobs import with_config
from tests.twin.labs import lab, with_runner

RUNNER = "10-a"
PURGE = Request("delete", "job", (RUNNER,), params={"purge": "true"})


class _Place:
    name = "R1"


class _Life:
    name = "R1.1"
    place = _Place()
    stream_ended_at = 0.0


class Watched:
    """A cluster with a runner that runs, and somebody who has read it and wants it gone."""

    def __init__(self) -> None:
        self.cluster = lab()
        truth = Truth(self.cluster)
        listen(self.cluster, truth.take)
        self.promises = Promises(self.cluster, truth)
        self.life = _Life()
        with_runner(self.cluster, name=RUNNER)
        now = self.cluster.now
        action = Action(now, "stop-surplus", "10", RUNNER, "")
        self._deed = Deed(action, self.life, now, self.cluster.state.index, 0, Policy())  # type: ignore[arg-type]
        self._deed.reads = {f"job/{RUNNER}": now}
        self.cluster.run_for(1)

    def change(self, *, stop: bool = False, used: str = "false") -> None:
        spec = dict(self.cluster.state.jobs[NAMESPACE, RUNNER].spec)
        self.cluster.jobs.register(with_config({**spec, "Stop": stop}, used=used))

    def purge(self) -> None:
        self.promises.before(PURGE, self._deed, 0)


@pytest.mark.parametrize(("used", "complaint"), [("true", "while it was in use"), ("false", "although it ran")])
def test_what_runs_must_not_be_deregistered(used: str, complaint: str) -> None:
    watched = Watched()
    watched.change(used=used)
    with pytest.raises(BrokenError, match=f"{RUNNER} was deregistered {complaint}"):
        watched.purge()


def test_a_mark_on_what_was_stopped_before_comes_too_late() -> None:
    watched = Watched()
    watched.change(stop=True)
    watched.change(stop=True, used="true")
    watched.purge()


def test_whoever_has_read_it_before_the_servers_were_restored_knows_only_once_the_stream_has_ended() -> None:
    watched = Watched()
    watched.promises.restored(watched.cluster.state.index)
    watched.purge()

    watched.life.stream_ended_at = watched.cluster.now
    with pytest.raises(BrokenError, match="although it ran"):
        watched.purge()
