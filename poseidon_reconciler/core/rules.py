"""The verdicts: one ordered table for runners, one for environments. The first rule that matches wins.

The names of the rules are public: they stand in `replay`, `explain`, logs and docs. The order is that of the states in
the contract, with one exception: `old-copy-may-run` comes late, because whatever Nomad itself still does about a
lost allocation comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Literal

from msgspec import Struct

from poseidon_reconciler.core import conditions as is_
from poseidon_reconciler.core.conditions import Condition
from poseidon_reconciler.core.facts import Facts
from poseidon_reconciler.core.ids import Kind

RunnerState = Literal["gone", "used", "idle", "leaving", "disconnected", "starting", "recovering", "blocked", "lost"]
EnvironmentState = Literal[
    "active", "starting", "recovering", "blocked", "disconnected", "lost", "stopped", "missing", "gone"
]
State = RunnerState | EnvironmentState
LostCause = Literal["stuck-complete", "exhausted", "node-lost", "drained", "never-started", "never-placed"]


class Rule(Struct, gc=False, frozen=True):
    """A row of a table: it matches when all its conditions hold.

    `due` tells when time alone would make the verdict another one; `cause` explains a loss.
    """

    name: str
    state: State
    conditions: tuple[Condition, ...]
    cause: LostCause | None = None
    due: Callable[[Facts], float | None] | None = None

    def first_false(self, facts: Facts) -> Condition | None:
        """The condition for which the rule did not match."""
        return next((condition for condition in self.conditions if not condition.holds(facts)), None)


def _start_deadline(facts: Facts) -> float:
    return facts.start_due_at


def _quiet_deadline(facts: Facts) -> float:
    return facts.job.quiet_since + facts.policy.start_deadline_s


def _grace_end(facts: Facts) -> float:
    return facts.job.quiet_since + facts.policy.lost_grace_s


def _disconnect_end(facts: Facts) -> float | None:
    return facts.old_copies_end_at


_COMING: Final = (
    Rule(
        "out-of-reach",
        "disconnected",
        (is_.placed, is_.unreachable, is_.may_still_run),
        due=_disconnect_end,
    ),
    Rule(
        "awaiting-allocation",
        "starting",
        (is_.no_allocation, is_.evaluation_pending, is_.before_start_deadline),
        due=_start_deadline,
    ),
    Rule(
        "first-allocation",
        "starting",
        (is_.waits_for_task, is_.reachable, is_.first_allocation, is_.before_start_deadline),
        due=_start_deadline,
    ),
    Rule(
        "restarting",
        "recovering",
        (is_.waits_for_task, is_.reachable, is_.ran_before, is_.before_start_deadline),
        due=_start_deadline,
    ),
    Rule(
        "replacement-pending",
        "recovering",
        (is_.waits_for_task, is_.reachable, is_.before_start_deadline),
        due=_start_deadline,
    ),
    Rule("reschedule-delayed", "recovering", (is_.not_placed, is_.evaluation_delayed)),
    Rule("being-evaluated", "recovering", (is_.not_placed, is_.evaluation_pending)),
    Rule("waits-for-capacity", "blocked", (is_.not_placed, is_.evaluation_blocked)),
    Rule("allocation-unseen", "starting", (is_.no_allocation, is_.nomad_says_running)),
    Rule(
        "registered",
        "starting",
        (is_.no_allocation, is_.not_dead, is_.quiet_within_deadline),
        due=_quiet_deadline,
    ),
    Rule(
        "replacement-unseen",
        "recovering",
        (is_.not_placed, is_.linked, is_.quiet_within_deadline),
        due=_quiet_deadline,
    ),
    Rule(
        "not-dead-yet",
        "recovering",
        (is_.not_placed, is_.not_dead, is_.quiet_within_deadline),
        due=_quiet_deadline,
    ),
    Rule("looks-dead", "recovering", (is_.not_placed, is_.quiet_within_grace), due=_grace_end),
    Rule(
        "old-copy-may-run",
        "disconnected",
        (is_.old_copy_counts, is_.may_still_run),
        due=_disconnect_end,
    ),
)

_LOST: Final = (
    Rule("start-deadline-passed", "lost", (is_.waits_for_task, is_.reachable), cause="never-started"),
    Rule("node-is-gone", "lost", (is_.placed, is_.unreachable), cause="node-lost"),
    Rule("never-placed", "lost", (is_.no_allocation,), cause="never-placed"),
    Rule("attempts-used-up", "lost", (is_.newest_failed,), cause="exhausted"),
    Rule("drained", "lost", (is_.newest_complete, is_.migrated), cause="drained"),
    Rule("stuck-complete", "lost", (is_.newest_complete,), cause="stuck-complete"),
    Rule("lost-with-its-node", "lost", (is_.newest_out_of_reach,), cause="node-lost"),
    Rule("stopped-before-it-ran", "lost", (is_.newest_pending,), cause="never-started"),
    # A status that this program does not know is no proof of anything: nothing is done about the job.
    Rule("not-understood", "recovering", ()),
)

RUNNER_RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "gone-copy-may-run",
        "disconnected",
        (is_.deregistered, is_.exactly_one, is_.may_still_run),
        due=_disconnect_end,
    ),
    Rule("deregistered", "gone", (is_.deregistered,)),
    Rule("claimed", "used", (is_.marked_used, is_.placed, is_.reachable)),
    Rule("running", "idle", (is_.running, is_.task_running, is_.reachable, is_.not_draining)),
    Rule("node-draining", "leaving", (is_.running, is_.task_running, is_.reachable)),
    Rule("stop-ordered", "leaving", (is_.stopping, is_.reachable, is_.nothing_follows)),
    *_COMING,
    *_LOST,
)

ENVIRONMENT_RULES: Final[tuple[Rule, ...]] = (
    Rule("stopped-by-operator", "stopped", (is_.stopped,)),
    Rule("template-gone", "gone", (is_.absent,)),
    Rule("running", "active", (is_.running, is_.task_running, is_.reachable)),
    Rule("stop-ordered", "recovering", (is_.stopping, is_.reachable, is_.nothing_follows)),
    *_COMING,
    *_LOST,
)

# The states of runners that count towards the target whatever the disconnect policy says.
COMING_STATES: Final = frozenset({"idle", "starting", "recovering", "blocked"})


class Judge:
    """Finds the first rule that matches.

    For each distinct key of facts it remembers the rules whose static conditions hold, each with the conditions on time
    that remain to be asked. The number of keys is that of the words that Nomad uses; it is bounded all the same.
    """

    _MAX_KEYS: Final = 10_000

    def __init__(self) -> None:
        self._candidates: dict[Hashable, tuple[tuple[Rule, tuple[Condition, ...]], ...]] = {}

    def rule(self, facts: Facts) -> Rule:
        """The first rule of the job's table that matches."""
        key = facts.key
        candidates = self._candidates.get(key)
        if candidates is None:
            candidates = self._learn(key, facts)
        for rule, timed in candidates:
            for condition in timed:
                if not condition.holds(facts):
                    break
            else:
                return rule
        raise AssertionError("the last rule of each table has no condition")

    def _learn(self, key: Hashable, facts: Facts) -> tuple[tuple[Rule, tuple[Condition, ...]], ...]:
        if len(self._candidates) >= self._MAX_KEYS:
            self._candidates.clear()
        candidates = []
        for rule in table_for(facts.job.kind):
            if all(condition.timed or condition.holds(facts) for condition in rule.conditions):
                timed = tuple(condition for condition in rule.conditions if condition.timed)
                candidates.append((rule, timed))
                if not timed:
                    break
        self._candidates[key] = found = tuple(candidates)
        return found


def table_for(kind: Kind) -> tuple[Rule, ...]:
    """The ordered rules for a kind of job."""
    return ENVIRONMENT_RULES if kind == "environment" else RUNNER_RULES
