"""What the demo breaks, and how: the embedded cluster's failures, with pools of a size that a screen can show."""

from __future__ import annotations

import difflib
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from poseidon_reconciler.app.errors import UsageError
from poseidon_reconciler.policy import quoted
from poseidon_reconciler.twin.poseidon_jobs import Work
from poseidon_reconciler.twin.runner import AgentPace
from poseidon_reconciler.twin.scenarios import LAB, SCENARIOS, Scenario, Step

DisconnectPolicy = Literal["at-least", "exactly", "leave-alone"]

DEFAULT: Final = "restart-together"
MAX_RUNNERS: Final = 500
_FIRST_ENVIRONMENT: Final = 10
# Containers take about a second to start: long enough to be seen.
_PACE: Final = AgentPace(start_s=1.0)
# Recorded, and new enough to know what a disconnected client is.
_KNOWS_DISCONNECTS: Final = replace(LAB, version="1.10.5")
_SECOND: Final = 1_000_000_000


class DemoScenario(Struct, frozen=True):
    """A failure to show.

    Attributes:
        about: one sentence.
        played: what is set up and done, on the first environment.
        runners: its pool's target, unless the user wants another.
        fixed: whether it needs that many, because what is done names runners by number.
        second: whether there is another environment, with a pool half as large.
        full: whether the machines have no room to spare.
        disconnect: the block of that name in every job, if there is one.
        disconnect_policy, surplus: the policies that it is about, if it is about one.
    """

    name: str
    about: str
    played: Scenario
    runners: int = 24
    fixed: bool = False
    second: bool = True
    full: bool = False
    disconnect: dict[str, Any] | None = None
    disconnect_policy: DisconnectPolicy | None = None
    surplus: Literal["report", "trim"] | None = None

    @property
    def policies(self) -> dict[str, str]:
        """What it wants of every pool, by the names of the settings."""
        wanted = {"disconnect_policy": self.disconnect_policy, "surplus": self.surplus}
        return {name: value for name, value in wanted.items() if value is not None}

    def scenes(self, runners: int | None) -> list[Scenario]:
        """What is played on each environment, on machines that have room for all; `runners`: the first one's target."""
        first = self.runners if runners is None or self.fixed else runners
        targets = [first, max(1, first // 2)] if self.second else [first]
        jobs = sum(targets) + len(targets)
        cpu_mhz = self.played.work.cpu_mhz
        room = cpu_mhz * -(-jobs // self.played.agents) + cpu_mhz // 2 if self.full else cpu_mhz * jobs
        settings = replace(self.played.settings, agents=_PACE)
        played = replace(
            self.played, agent_cpu_mhz=room if self.full else max(self.played.agent_cpu_mhz, room), settings=settings
        )
        return [
            replace(
                played, environment=_FIRST_ENVIRONMENT + number, runners=target, steps=() if number else played.steps
            )
            for number, target in enumerate(targets)
        ]


def _away(verb: str, back: str, away_s: float, target: str) -> tuple[Step, ...]:
    return (Step(5.0, verb, target), Step(5.0 + away_s, back, target))


def _made(name: str, *steps: Step) -> Scenario:
    return Scenario(name, "", steps, settings=_KNOWS_DISCONNECTS)


_ALL: Final = (
    DemoScenario(
        DEFAULT,
        "All agents restart together and are away for 20 s: left alone, most runners end dead, and Nomad lets them be.",
        SCENARIOS["restart-together-20s"],
    ),
    DemoScenario(
        "restart-together-2s",
        "All agents restart together within their heartbeat: nothing is lost, and nothing is to be done.",
        SCENARIOS["restart-together-2s"],
    ),
    DemoScenario(
        "reboot-together",
        "All machines reboot together and are away for 20 s: every container is gone.",
        SCENARIOS["reboot-together-20s"],
    ),
    DemoScenario(
        "restart-one-after-another",
        "The agents restart one after another, first for 2 s, then for 15 s: Nomad moves their runners.",
        SCENARIOS["restart-one-after-another"],
    ),
    DemoScenario(
        "servers-restart",
        "Nomad's own server is away for 15 s: the event stream breaks off, the runners run on.",
        _made("servers-restart", Step(5.0, "restart-servers", "all", "15")),
    ),
    DemoScenario(
        "frozen-agent",
        "One agent hangs for 20 s and goes on; its containers run all the time.",
        SCENARIOS["frozen-agent"],
    ),
    DemoScenario(
        "frozen-agent-stop-after",
        "One agent hangs for 30 s, and Nomad waits with its replacements until the old containers should have stopped.",
        SCENARIOS["frozen-agent-stop-after"],
    ),
    DemoScenario(
        "all-frozen",
        "All agents hang together for 20 s; their containers run all the time.",
        SCENARIOS["all-frozen-15"],
    ),
    DemoScenario(
        "node-lost",
        "One machine is gone for good, and the others have room for its runners.",
        SCENARIOS["node-lost"],
    ),
    DemoScenario(
        "node-lost-no-capacity",
        "One machine is gone for 20 s, and the others are full: its runners wait until it is back.",
        SCENARIOS["node-lost-no-capacity"],
        full=True,
    ),
    DemoScenario(
        "disks-lost",
        "All machines lose their disks and come back 20 s later as strangers: Nomad knows none of them.",
        _made("disks-lost", *_away("lose-disk", "start", 20.0, "all")),
    ),
    DemoScenario(
        "drain",
        "One agent is closed and opened again, one is drained with a deadline, and one at once.",
        SCENARIOS["drain"],
    ),
    DemoScenario(
        "exhausted",
        "The containers of an environment fail until no attempt is left; then somebody mends it.",
        SCENARIOS["exhausted"],
        runners=4,
        second=False,
    ),
    DemoScenario(
        "task-exits-zero",
        "The containers of an environment end by themselves, which Nomad takes for success; then somebody mends it.",
        SCENARIOS["task-exits-zero"],
        runners=2,
        fixed=True,
        second=False,
    ),
    DemoScenario(
        "image-broken",
        "An image cannot be pulled for a minute: what is created fails at once, and is tried less and less often.",
        Scenario(
            "image-broken",
            "",
            (
                Step(5.0, "break-image", "environment", "openhpi/java:21"),
                *(Step(8.0, "purge", str(number)) for number in range(1, 4)),
                Step(70.0, "mend-image", "environment"),
            ),
            work=Work(restarts=0, reschedules=0),
        ),
        runners=12,
        fixed=True,
    ),
    DemoScenario(
        "gc",
        "Dead runners are collected, which hardly leaves a trace in the event stream; then a machine is lost.",
        SCENARIOS["gc"],
        runners=4,
        fixed=True,
    ),
    DemoScenario(
        "used-and-deregistered",
        "What people do: runners are used, purged, stopped and moved, the pool is resized, the environment changed.",
        SCENARIOS["used-and-deregistered"],
        runners=5,
        fixed=True,
    ),
    DemoScenario(
        "at-least",
        "A client is cut off for 75 s, and Nomad does not replace its runners: the reconciler does, at once.",
        _made("at-least", *_away("cut", "heal", 75.0, "1")),
        disconnect={"LostAfter": 3600 * _SECOND, "Replace": False},
        disconnect_policy="at-least",
    ),
    DemoScenario(
        "surplus-trimmed",
        "A client is cut off for 75 s and comes back with runners that were replaced meanwhile: what is too much goes.",
        _made("surplus-trimmed", *_away("cut", "heal", 75.0, "1")),
        disconnect={"LostAfter": 3600 * _SECOND, "Replace": False},
        disconnect_policy="at-least",
        surplus="trim",
    ),
    DemoScenario(
        "exactly",
        "A client is cut off for 45 s and stops its containers after 10 s: never is one replaced while it still runs.",
        _made("exactly", *_away("cut", "heal", 45.0, "1")),
        disconnect={"StopOnClientAfter": 10 * _SECOND},
        disconnect_policy="exactly",
    ),
    DemoScenario(
        "leave-alone",
        "All clients are cut off from Nomad's servers for 60 s: what still works is neither replaced nor stopped.",
        _made("leave-alone", *_away("cut", "heal", 60.0, "all")),
        disconnect={"LostAfter": 3600 * _SECOND, "Replace": False},
        disconnect_policy="leave-alone",
    ),
)

DEMO_SCENARIOS: Final[dict[str, DemoScenario]] = {scenario.name: scenario for scenario in _ALL}


def scenario_named(name: str) -> DemoScenario:
    """The scenario of that name.

    Raises:
        UsageError: there is none.
    """
    scenario = DEMO_SCENARIOS.get(name)
    if scenario is not None:
        return scenario
    close = difflib.get_close_matches(name, DEMO_SCENARIOS, n=1)
    hint = f"did you mean {close[0]}?" if close else "see demo --list"
    raise UsageError(f"--scenario: no scenario is called {quoted(name)}; {hint}")
