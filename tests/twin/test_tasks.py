"""What tasks do by their command, and by what is told of them."""

from __future__ import annotations

import pytest

from poseidon_reconciler.twin.tasks import Script, TaskRun, by_command


def task(*words: str) -> dict[str, object]:
    return {"Config": {"command": words[0], "args": list(words[1:])}}


@pytest.mark.parametrize(
    ("words", "run_s", "exit_code"),
    [
        (("sleep", "infinity"), None, 0),
        (("/bin/sleep", "2.5"), 2.5, 0),
        (("sh", "-c", "sleep 2; exit 0"), 2.0, 0),
        (("sh", "-c", "exit 7"), 0.0, 7),
        (("/bin/true",), 0.0, 0),
        (("false",), 0.0, 1),
        (("nginx", "-g", "daemon off;"), None, 0),
    ],
)
def test_commands(words: tuple[str, ...], run_s: float | None, exit_code: int) -> None:
    run = by_command(task(*words))
    assert (run.run_s, run.exit_code) == (run_s, exit_code)


def test_a_task_without_configuration_runs_for_ever() -> None:
    assert by_command({"Config": None}).run_s is None


def test_the_latest_told_wins_and_may_be_forgotten() -> None:
    script, idle = Script(), task("sleep", "infinity")
    slow, never = TaskRun(start_s=9.0), TaskRun(image="hang")
    script.tell("10-", slow, prefix=True)
    script.tell("10-a", never)
    assert script.run_of("10-a", idle, 0) == never
    assert script.run_of("10-b", idle, 0) == slow
    assert script.run_of("11-a", idle, 0) == TaskRun()
    script.forget("10-a")
    assert script.run_of("10-a", idle, 0) == slow


def test_a_behaviour_of_its_own_comes_first() -> None:
    script, third_time = Script(), TaskRun()
    script.behaviour = lambda job_id, task, restarts: None if restarts > 1 else TaskRun(run_s=1.0, exit_code=1)
    assert script.run_of("10-a", task("sleep", "infinity"), 1).exit_code == 1
    assert script.run_of("10-a", task("sleep", "infinity"), 2) == third_time
