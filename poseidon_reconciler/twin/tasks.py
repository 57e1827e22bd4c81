"""How tasks behave: how long they take to start, how long they run, and how they end.

The embedded cluster runs no programs. What a task would do is read from its configuration, or told by whoever drives
the cluster, for one job or for many.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Struct


class TaskRun(Struct, frozen=True):
    """What one start of a task comes to.

    `start_s`: seconds from the order to the running task (`None`: the node's own time). `run_s`: seconds until it ends
    by itself (`None`: never). `image`: `ok`, `hang` (the pull never ends) or `fail` (the driver reports `message`).
    """

    run_s: float | None = None
    exit_code: int = 0
    start_s: float | None = None
    image: str = "ok"
    message: str = ""


TaskBehaviour: TypeAlias = Callable[[str, "dict[str, Any]", int], TaskRun | None]
"""Given a job's id, a task's document and how often it has been restarted: what it does; `None`: as its command says.
"""

_SLEEP = re.compile(r"sleep\s+(\d+(?:\.\d+)?|infinity|inf)")
_EXIT = re.compile(r"exit\s+(\d+)")


def by_command(task: dict[str, Any]) -> TaskRun:
    """What a task does by its command: `sleep`, `true`, `false`, `exit` in a shell; anything else runs for ever."""
    config = task["Config"] or {}
    words = [str(config.get("command") or ""), *map(str, config.get("args") or ())]
    line = " ".join(words)
    program = words[0].rsplit("/", 1)[-1]
    if program in {"true", "false"}:
        return TaskRun(run_s=0.0, exit_code=int(program == "false"))
    sleep, exit_code = _SLEEP.search(line), _EXIT.search(line)
    if sleep is not None and sleep.group(1).startswith("inf"):
        return TaskRun()
    if sleep is None and exit_code is None:
        return TaskRun()
    return TaskRun(
        run_s=float(sleep.group(1)) if sleep is not None else 0.0,
        exit_code=int(exit_code.group(1)) if exit_code is not None else 0,
    )


class Script:
    """Behaviours told by whoever drives the cluster, by job id or by the beginning of one; the latest told wins."""

    def __init__(self) -> None:
        self._told: list[tuple[str, bool, TaskRun]] = []
        self.behaviour: TaskBehaviour | None = None

    def tell(self, job: str, run: TaskRun, *, prefix: bool = False) -> None:
        """From now on the tasks of a job (or of all jobs whose id begins so) start and end that way."""
        self._told.append((job, prefix, run))

    def forget(self, job: str) -> None:
        """From now on the tasks of a job do again as their command says."""
        self._told = [told for told in self._told if told[0] != job]

    def run_of(self, job_id: str, task: dict[str, Any], restarts: int) -> TaskRun:
        """What a start of a task comes to."""
        if self.behaviour is not None and (run := self.behaviour(job_id, task, restarts)) is not None:
            return run
        for job, prefix, run in reversed(self._told):
            if job_id == job or (prefix and job_id.startswith(job)):
                return run
        return by_command(task)
