"""What an agent does with the tasks of its allocations: starts them, a few at a time, watches them and kills them.

Old allocations that still run are reported `running` before they are `complete`; those that the agent never ran, or
whose processes did not survive, are `complete` at once.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from poseidon_reconciler.twin.kernel import Kernel, Timer
from poseidon_reconciler.twin.local import LocalAllocation, LocalTask, StartQueue
from poseidon_reconciler.twin.records import Allocation
from poseidon_reconciler.twin.tasks import Script, TaskRun


class AgentPace(Struct, frozen=True):
    """How fast an agent is, in seconds, and how many tasks it starts at a time.

    A share of `prompt_share` of the agents send their first heartbeat at once, the others within `heartbeat_s`. The
    end of a task that its agent found running at its start is reported twice, `repeat_s` apart. A start takes longer by
    a share of `crowding` for each other one that is in work on the machine when it begins.
    """

    boot_s: float = 0.35
    heartbeat_s: float = 10.0
    prompt_share: float = 0.5
    pull_s: float = 0.01
    first_report_s: float = 0.25
    report_s: float = 0.2
    report_again_s: float = 5.0
    fingerprint_s: float = 7.0
    start_s: float = 0.1
    parallel_starts: int = 4
    crowding: float = 0.0
    kill_s: float = 0.03
    reattached_kill_s: float = 1.85
    repeat_s: float = 2.05


class Runner:
    """The allocations of one agent. `after` does things in the agent's own life; `mark` says that something changed.

    `watching`: whether the agent's process is there to notice how its tasks end.
    """

    def __init__(
        self,
        kernel: Kernel,
        pace: AgentPace,
        script: Script,
        after: Callable[[float, Callable[[], None]], Timer],
        mark: Callable[[LocalAllocation], None],
    ) -> None:
        self._kernel = kernel
        self._pace = pace
        self._script = script
        self._after = after
        self._mark = mark
        self.local: dict[str, LocalAllocation] = {}
        self._starts = StartQueue(pace.parallel_starts)
        self.watching = True

    def restore(self) -> None:
        """A new process of the agent finds what the last one left."""
        self.watching = True
        for local in self.local.values():
            for task in local.tasks:
                if task.process:
                    local.reattached = True
                elif task.lost_handle:
                    text = "failed to restore task; will not run until server is contacted"
                    task.note("Failed Restoring Task", self._kernel.now, text)
        self.notice_ends()

    def abandon(self) -> None:
        """The agent's process is gone: what it was about to do does not happen, the processes run on."""
        self.watching = False
        self._starts.clear()
        for local in self.local.values():
            local.stopping = False
            for task in local.tasks:
                task.starting = task.killing = False
                if not task.process:
                    task.cancel()

    def kill_processes(self) -> None:
        """The machine is gone, and with it every process."""
        for local in self.local.values():
            for task in local.tasks:
                if task.process or task.ended is not None:
                    task.cancel()
                    task.process, task.ended, task.lost_handle = False, None, True

    def notice_ends(self) -> None:
        """Deals with processes that ended while nobody looked."""
        for local in list(self.local.values()):
            for task in local.tasks:
                if task.ended is not None:
                    code, task.ended = task.ended, None
                    self._ended(local, task, code)

    def take(self, allocation: Allocation) -> None:
        """Does what the servers want of an allocation."""
        local = self.local.get(allocation.id)
        if local is None:
            if allocation.client_status not in {"complete", "failed"}:
                self._take_new(allocation)
            return
        local.allocation = allocation
        if allocation.client_status == "unknown":
            self._mark(local)
        if allocation.server_terminal:
            self.stop(local)
        elif not local.stopping:
            self._run(local)

    def _take_new(self, allocation: Allocation) -> None:
        local = self.local[allocation.id] = LocalAllocation(allocation)
        now = self._kernel.now
        for task in local.tasks:
            task.note("Received", now, "Task received by client")
            if allocation.server_terminal:
                task.died(now, failed=False)
            else:
                task.note("Task Setup", now, "Building Task Directory")
        self._mark(local)
        if not allocation.server_terminal:
            self._run(local)

    def forget(self, identity: str) -> None:
        """The servers do not know an allocation any more: nothing of it stays, and that is the last they hear of it."""
        local = self.local.pop(identity, None)
        if local is None or local.dead:
            return
        for task in local.tasks:
            if not task.dead:
                task.cancel()
                self._starts.withdraw(task)
                task.died(self._kernel.now, failed=False)
        self._mark(local)

    def stop(self, local: LocalAllocation) -> None:
        """Kills what still runs of an allocation."""
        if local.stopping or local.dead:
            return
        local.stopping = True
        now = self._kernel.now
        for task in local.tasks:
            if task.dead:
                continue
            timeout_s = task.document["KillTimeout"] / 1e9
            text = f"Sent interrupt. Waiting {timeout_s:g}s before force killing"
            task.note("Killing", now, text, KillTimeout=task.document["KillTimeout"])
            if task.lost_handle:
                # It may be about to start again.
                task.cancel()
                self._starts.withdraw(task)
                task.died(now, failed=False)
                continue
            kill_s = self._pace.reattached_kill_s if local.reattached else self._kernel.spread(self._pace.kill_s)
            self._after(kill_s, lambda t=task: self._killed(local, t))  # type: ignore[misc]
        self._mark(local)

    def _killed(self, local: LocalAllocation, task: LocalTask) -> None:
        if task.dead:
            return
        now, had_process = self._kernel.now, task.process
        task.cancel()
        self._starts.withdraw(task)
        if had_process:
            text = "Exit Code: 137, Signal: 9"
            task.note("Terminated", now, text, ExitCode=137, Signal=9)
        task.note("Killed", now, "Task successfully killed")
        task.died(now, failed=False)
        self._mark(local)
        if local.reattached and had_process:
            self._after(self._pace.repeat_s, lambda: self._mark(local))

    def _run(self, local: LocalAllocation) -> None:
        """Starts what is not running and not about to."""
        for task in local.tasks:
            if not (task.dead or task.process or task.starting or task.waits):
                self._ask(local, task)

    def _ask(self, local: LocalAllocation, task: LocalTask) -> None:
        task.timer = None
        task.starting = True
        self._starts.ask(task, lambda: self._start(local, task))

    def _start(self, local: LocalAllocation, task: LocalTask) -> None:
        run = self._script.run_of(local.allocation.job.id, task.document, task.state.restarts)
        if run.image == "hang":
            task.note("Driver", self._kernel.now, "Downloading image")
            self._starts.withdraw(task)
            self._mark(local)
            return
        start_s = run.start_s if run.start_s is not None else self._kernel.spread(self._pace.start_s)
        start_s *= 1 + self._pace.crowding * (self._starts.busy - 1)
        task.timer = self._after(start_s, lambda: self._started(local, task, run))

    def _started(self, local: LocalAllocation, task: LocalTask, run: TaskRun) -> None:
        now = self._kernel.now
        self._starts.withdraw(task)
        task.starting = False
        task.timer = None
        if run.image == "fail":
            task.note("Driver Failure", now, run.message, DriverError=run.message)
            self._failed(local, task)
            return
        task.started(now)
        if run.run_s is not None:
            task.timer = self._kernel.after(run.run_s, lambda: self._process_ends(local, task, run.exit_code))
        self._mark(local)

    def _process_ends(self, local: LocalAllocation, task: LocalTask, code: int) -> None:
        task.process, task.timer, task.ended = False, None, code
        if self.watching:
            task.ended = None
            self._ended(local, task, code)

    def _ended(self, local: LocalAllocation, task: LocalTask, code: int) -> None:
        task.note("Terminated", self._kernel.now, f"Exit Code: {code}", ExitCode=code)
        if code == 0 and local.allocation.job.type == "batch":
            task.died(self._kernel.now, failed=False)
            self._mark(local)
        else:
            self._failed(local, task)

    def _failed(self, local: LocalAllocation, task: LocalTask) -> None:
        now = self._kernel.now
        delay_s = task.restart_delay_s(now, self._kernel.rng.random())
        if delay_s is None or local.stopping:
            text = task.refusal()
            task.note("Not Restarting", now, text, RestartReason=text, FailsTask=True)
            task.died(now, failed=True)
        else:
            task.restarting(now, delay_s)
            task.timer = self._after(delay_s, lambda: self._ask(local, task))
        self._mark(local)
