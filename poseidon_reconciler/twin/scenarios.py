"""The failures that were recorded from a real cluster, as data: what is set up, and what is done to it when.

Each can be played on an embedded cluster by hand of a `Player`, which needs nothing but the cluster's own time.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from poseidon_reconciler.twin.cluster import Settings
from poseidon_reconciler.twin.evaluations import Pace
from poseidon_reconciler.twin.nodes import Heartbeats
from poseidon_reconciler.twin.poseidon_jobs import Work

# The recorded cluster gave agents up after a few seconds.
LAB = Settings(heartbeats=Heartbeats(min_ttl_s=3.0, grace_s=1.0), pace=Pace(workers=1, evaluation_s=0.006))

FAILING = Work(
    ("sh", "-c", "sleep 1; exit 1"), restarts=1, restart_delay_s=2.0, reschedules=1, reschedule_delay_s=5.0,
    delay_function="constant", max_delay_s=5.0,
)  # fmt: skip


class Step(Struct, frozen=True):
    """Something that is done, `at_s` seconds after the set-up runs.

    `verb` is a name from `player.VERBS`; `target` says to what: agents by `all`, their number from 1 or `of:<job>`;
    jobs by `environment` (also its image), `runners`, `odd`, `survivors`, or the number of the runner from 1.
    """

    at_s: float
    verb: str
    target: str = "all"
    value: str = ""


class Scenario(Struct, frozen=True):
    """A named failure. `work_of` gives runners (by number from 1) other work than the environment's."""

    name: str
    about: str
    steps: tuple[Step, ...] = ()
    runners: int = 5
    agents: int = 3
    agent_cpu_mhz: int = 4000
    work: Work = Work()
    work_of: tuple[tuple[int, Work], ...] = ()
    with_environment: bool = True
    environment: int = 10
    settings: Settings = LAB
    duration_s: float = 40.0

    def scaled(self, runners: int) -> Scenario:
        """The same with another number of runners, on machines that have room for them."""
        room = (
            max(self.agent_cpu_mhz, self.work.cpu_mhz * (runners + 1))
            if self.agent_cpu_mhz > 1000
            else self.agent_cpu_mhz
        )
        return replace(self, runners=runners, agent_cpu_mhz=room)

    def beginning_after(self, after_s: float) -> Scenario:
        """The same with its first step so many seconds after the set-up runs, and the others as long after it."""
        later_s = after_s - min((step.at_s for step in self.steps), default=after_s)
        steps = tuple(replace(step, at_s=step.at_s + later_s) for step in self.steps)
        return replace(self, steps=steps, duration_s=self.duration_s + later_s)


def _away(verb_away: str, verb_back: str, away_s: float, target: str = "all") -> tuple[Step, ...]:
    return (Step(5.0, verb_away, target), Step(5.0 + away_s, verb_back, target))


def _one_after_another() -> tuple[Step, ...]:
    short = [
        step
        for i in range(3)
        for step in (Step(5.0 + 12 * i, "stop", str(i + 1)), Step(7.0 + 12 * i, "start", str(i + 1)))
    ]
    long = [
        step
        for i in range(3)
        for step in (Step(45.0 + 24 * i, "stop", str(i + 1)), Step(60.0 + 24 * i, "start", str(i + 1)))
    ]
    return (*short, *long)


_ALL = (
    Scenario("startup", "An environment and its runners start.", duration_s=10.0),
    Scenario(
        "restart-together-2s", "All agents restart together within their heartbeat.",
        _away("stop", "start", 2.0), settings=replace(LAB, heartbeats=Heartbeats(min_ttl_s=3.0, grace_s=10.0)),
    ),
    Scenario(
        "restart-together-20s",
        "All agents stop together and are back after 20 s: some runners, and often the environment, end dead for good.",
        _away("stop", "start", 20.0), duration_s=60.0,
    ),
    Scenario(
        "restart-together-100-15s", "A hundred runners, all agents away for 15 s.",
        _away("stop", "start", 15.0), runners=100, duration_s=60.0,
    ),
    Scenario(
        "restart-one-after-another",
        "The agents restart one after another, first shortly, then beyond their heartbeat.",
        _one_after_another(), duration_s=140.0,
    ),
    Scenario(
        "reboot-together-20s", "All machines reboot together: agents and tasks are killed, and are back after 20 s.",
        _away("reboot", "start", 20.0), duration_s=60.0,
    ),
    Scenario(
        "frozen-agent", "One agent hangs for 20 s and goes on; its tasks run all the time.",
        _away("freeze", "thaw", 20.0, "of:environment"),
    ),
    Scenario(
        "frozen-agent-stop-after",
        "The same with stop_after_client_disconnect of 10 s: replacements come late, unlinked.",
        _away("freeze", "thaw", 30.0, "of:1"), work=Work(stop_after_s=10.0), duration_s=60.0,
    ),
    Scenario(
        "all-frozen-15", "All agents hang together, fifteen runners.",
        _away("freeze", "thaw", 20.0), runners=15, duration_s=60.0,
    ),
    Scenario("node-lost", "One machine is gone for good.", (Step(5.0, "reboot", "of:environment"),), duration_s=30.0),
    Scenario(
        "node-lost-no-capacity", "One machine is gone, and the others are full; it is back after 20 s.",
        _away("reboot", "start", 20.0, "of:environment"), agent_cpu_mhz=50,
    ),
    Scenario(
        "drain", "An agent is closed and opened, one is drained with a deadline, one at once.",
        (
            Step(10.0, "close", "2"), Step(13.0, "add-runner"), Step(17.0, "open", "2"), Step(20.0, "drain", "1", "8"),
            Step(38.0, "open", "1"), Step(42.0, "drain", "3", "-1"),
        ),
        duration_s=52.0,
    ),
    Scenario(
        "exhausted", "Tasks fail until no attempt is left; the environment is registered with other work.",
        (Step(40.0, "reregister", "environment", "sleep infinity"), Step(46.0, "evaluate", "1")),
        runners=1, work=FAILING, duration_s=60.0,
    ),
    Scenario(
        "task-exits-zero",
        "Tasks end by themselves: the jobs are complete, and nothing but a change makes them run again.",
        (
            Step(12.0, "reregister", "environment"), Step(18.0, "force-evaluate", "environment"),
            Step(23.0, "resize", "environment", "2"), Step(29.0, "reregister", "environment", "sleep infinity"),
        ),
        runners=1, work=Work(("sh", "-c", "sleep 2; exit 0")), duration_s=40.0,
    ),
    Scenario(
        "gc", "A stopped, a complete and a failed runner are collected; then a machine is lost and collected as well.",
        (
            Step(14.0, "stop-job", "1"), Step(18.0, "collect"), Step(21.0, "reboot", "of:environment"),
            Step(39.0, "collect"),
        ),
        runners=4,
        work_of=(
            (3, Work(("sh", "-c", "sleep 1; exit 0"))),
            (4, replace(FAILING, command=("sh", "-c", "exit 1"))),
        ),
        duration_s=45.0,
    ),
    Scenario(
        "unplaceable", "Runners that no machine can take, and one that fails at once with no attempt allowed.",
        runners=3, with_environment=False,
        work_of=(
            (1, Work(kernel="plan9")), (2, Work(cpu_mhz=99999)),
            (3, replace(FAILING, command=("sh", "-c", "exit 1"), restarts=0, reschedules=0)),
        ),
        duration_s=25.0,
    ),
    Scenario(
        "used-and-deregistered", "What Poseidon and people do: use, purge, stop, move, resize, change, delete.",
        (
            Step(3.0, "use", "1"), Step(6.0, "evaluate", "1"), Step(9.0, "purge", "2"), Step(13.0, "stop-job", "3"),
            Step(17.0, "stop-allocation", "4"), Step(22.0, "resize", "environment", "7"),
            Step(25.0, "give-cpu", "environment", "25"), Step(29.0, "purge", "none"),
        ),
    ),
    Scenario(
        "half-protected-stop-100",
        "A hundred runners, all agents away for 18 s; half of the jobs get a new version meanwhile, and half of the"
        " untouched survivors later; then everything that lives is evaluated.",
        (
            Step(5.0, "stop"), Step(19.0, "protect", "odd"), Step(23.0, "start"),
            Step(43.0, "protect", "half-of-unprotected-survivors"), Step(47.0, "force-evaluate", "survivors"),
        ),
        runners=100, duration_s=60.0,
    ),
)  # fmt: skip

SCENARIOS: dict[str, Scenario] = {scenario.name: scenario for scenario in _ALL}
