"""An allocation on its agent: its tasks start, run, end, are restarted in place, and are killed.

What the agent knows of a task and whether its process lives are two things: a process outlives its agent, and dies
with its machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from poseidon_reconciler.twin.jobspec import RestartPolicy
from poseidon_reconciler.twin.kernel import Timer
from poseidon_reconciler.twin.records import Allocation, TaskEvent, TaskState
from poseidon_reconciler.twin.reports import Report

_KEPT_EVENTS = 10


class LocalTask:
    """One task; `ended` is the exit code of a process whose end its agent has not noticed yet."""

    def __init__(self, document: dict[str, Any], policy: RestartPolicy) -> None:
        self.document = document
        self.policy = policy
        self.state = TaskState()
        self.process = False
        self.ended: int | None = None
        self.timer: Timer | None = None
        self.starting = False
        self.killing = False
        self.lost_handle = False
        self._window_from = 0.0
        self._window_used = 0

    @property
    def name(self) -> str:
        return str(self.document["Name"])

    @property
    def dead(self) -> bool:
        return self.state.state == "dead"

    @property
    def waits(self) -> bool:
        """Whether a restart or a start is under way."""
        return self.timer is not None

    def refusal(self) -> str:
        """Why the task is not restarted."""
        policy = self.policy
        if policy.attempts == 0:
            return "Policy allows no restarts"
        hours, rest = divmod(int(policy.interval_s), 3600)
        minutes, seconds = divmod(rest, 60)
        interval = (f"{hours}h" if hours else "") + (f"{minutes}m" if hours or minutes else "") + f"{seconds}s"
        return f'Exceeded allowed attempts {policy.attempts} in interval {interval} and mode is "{policy.mode}"'

    def note(self, kind: str, at: float, message: str = "", **fields: object) -> None:
        """Adds a line to the task's history."""
        event = TaskEvent(kind, at, message, fields)
        self.state = replace(self.state, events=(*self.state.events, event)[-_KEPT_EVENTS:])

    def started(self, at: float) -> None:
        """The process runs."""
        self.process, self.starting, self.lost_handle, self.ended = True, False, False, None
        self.note("Started", at, "Task started by client")
        self.state = replace(self.state, state="running", started_at=at)

    def died(self, at: float, *, failed: bool) -> None:
        """The task is over for good."""
        self.process, self.starting, self.killing = False, False, False
        self.state = replace(self.state, state="dead", failed=failed, finished_at=at)

    def restart_delay_s(self, now: float, jitter: float) -> float | None:
        """How long to wait before a restart in place; `None` if the policy allows none."""
        policy = self.policy
        if now - self._window_from > policy.interval_s:
            self._window_from, self._window_used = now, 0
        if self._window_used >= policy.attempts:
            if policy.mode != "delay":
                return None
            return max(0.0, self._window_from + policy.interval_s - now)
        self._window_used += 1
        return policy.delay_s * (1 + 0.25 * jitter)

    def restarting(self, at: float, delay_s: float) -> None:
        """The task waits for its restart."""
        text = f"Task restarting in {delay_s:.9g}s"
        self.note("Restarting", at, text, StartDelay=round(delay_s * 1e9), RestartReason="Restart within policy")
        self.state = replace(self.state, state="pending", restarts=self.state.restarts + 1, last_restart_at=at)

    def cancel(self) -> None:
        """Whatever was to happen to the task next does not."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class LocalAllocation:
    """The tasks of one allocation on its agent."""

    def __init__(self, allocation: Allocation) -> None:
        group = allocation.job.group(allocation.group_name)
        assert group is not None
        self.allocation = allocation
        self.tasks = [LocalTask(document, group.restart) for document in group.raw["Tasks"]]
        self.stopping = False
        self.reattached = False

    @property
    def id(self) -> str:
        return self.allocation.id

    @property
    def dead(self) -> bool:
        return all(task.dead for task in self.tasks)

    @property
    def stop_after_s(self) -> float | None:
        group = self.allocation.job.group(self.allocation.group_name)
        return group.stop_after_s if group is not None else None

    def report(self) -> Report:
        """What the agent tells the servers."""
        states = [task.state for task in self.tasks]
        if any(state.failed for state in states):
            status, text = "failed", "Failed tasks"
        elif any(state.state == "running" for state in states):
            status, text = "running", "Tasks are running"
        elif any(state.state == "pending" for state in states):
            status, text = "pending", "No tasks have started"
        else:
            status, text = "complete", "All tasks have completed"
        return Report(self.id, status, text, {task.name: task.state for task in self.tasks})


class StartQueue:
    """Starts at most so many tasks at a time, in the order in which they were asked for."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._busy: set[LocalTask] = set()
        self._waiting: dict[LocalTask, Callable[[], None]] = {}

    @property
    def busy(self) -> int:
        """How many starts are in work."""
        return len(self._busy)

    def ask(self, task: LocalTask, start: Callable[[], None]) -> None:
        """Calls `start` when there is a slot for the task; it is taken until the task withdraws."""
        self._waiting[task] = start
        self._next()

    def withdraw(self, task: LocalTask) -> None:
        """The task no longer waits or starts."""
        self._waiting.pop(task, None)
        self._busy.discard(task)
        self._next()

    def clear(self) -> None:
        """Forgets all that waits or is in work."""
        self._waiting.clear()
        self._busy.clear()

    def _next(self) -> None:
        while self._waiting and len(self._busy) < self.slots:
            task = next(iter(self._waiting))
            start = self._waiting.pop(task)
            self._busy.add(task)
            start()
