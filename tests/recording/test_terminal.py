"""What a person sees at a terminal: the whole story in order, and no text that could steer the terminal."""

from __future__ import annotations

import re

import pytest

from poseidon_reconciler.core.blame import NodeLosses
from poseidon_reconciler.core.decisions import Decision, Ending
from poseidon_reconciler.core.diagnosis import Verdict
from poseidon_reconciler.core.evidence import Evidence
from poseidon_reconciler.core.explanation import EnvironmentExplanation, JobExplanation, OrderExplanation, Unmatched
from poseidon_reconciler.core.holds import Hold
from poseidon_reconciler.recording.story import Entry, Story
from poseidon_reconciler.recording.terminal import print_explanation, print_story
from tests.recording.stories import RUNNER, START, environment, loss, pool_story

HOSTILE = "\x1b[2J\x1b]0;title\x07\r\nlost\u202e\x9b31m"
STEERING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


@pytest.fixture(autouse=True)
def _not_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


def timeline() -> list[Entry]:
    return [
        Entry(START + 3, "verdict", "10", RUNNER, "idle (running)"),
        Entry(START + 1, "node", None, "agent-1", "ready"),
        Entry(START + 2, "verdict", "11", "11-other", "idle (running)"),
        Entry(START + 4, "action", "10", RUNNER, "protect-job: it is at risk"),
    ]


def plain(text: str) -> str:
    return re.sub("\x1b\\[[0-9;]*m", "", text)


def shown(capsys: pytest.CaptureFixture[str], story: Story) -> list[str]:
    print_story(story)
    return capsys.readouterr().out.splitlines()


def test_each_environment_has_its_timeline_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    story = pool_story()
    story.timeline = timeline()
    assert shown(capsys, story)[:5] == [
        "Environment 10   target 5",
        "  2026-11-30 18:00:01.000  node agent-1  ready",
        f"  2026-11-30 18:00:03.000  {RUNNER}  idle (running)",
        f"  2026-11-30 18:00:04.000  → {RUNNER}  protect-job: it is at risk",
        "",
    ]


def test_the_pools_end_in_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    story = pool_story()
    story.environments["11"] = environment(state="lost", cause="exhausted", target=None)
    created = sum(action.kind == "create-runner" for action in story.actions)
    rows = [re.split(r"\s*[│┃]\s*", line)[1:-1] for line in shown(capsys, story) if line[:1] in ("│", "┃")]
    assert rows == [
        ["environment", "state", "target", "idle", "lost", "planned", "deficit"],
        ["10", "active", "5", "3", "2", str(created), "1"],
        ["11", "lost, exhausted", "unknown", "0", "0", "0", "0"],
    ]


def test_the_heads_of_the_table_are_whole_on_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    story = pool_story()
    story.environments = {"10": environment(state="lost", cause="stuck-complete", idle=3, recovering=1, lost=2)}

    text = plain("\n".join(shown(capsys, story)))

    assert "…" not in text
    assert all(f" {name} " in text for name in ("environment", "target", "idle", "recovering", "lost", "planned"))


def test_where_nothing_is_there_is_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, Story())[0] == "nothing was recorded"
    assert shown(capsys, Story(frames=1))[0] == "no environment was recorded"


def test_where_the_recording_ends_is_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    story = pool_story()
    story.timeline = timeline()
    story.ended_at, story.settle_s = START + 3, 3600.0

    lines = shown(capsys, story)

    assert lines[3] == "  ── the recording ends here; from now on only time passes (up to 1h) ──"
    assert lines[4].startswith("  2026-11-30 18:00:04.000")


def test_at_a_terminal_the_time_alone_is_dim(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    story = pool_story()
    story.timeline = [
        Entry(START, "verdict", "10", RUNNER, "lost, exhausted (attempts-used-up)"),
        Entry(START + 1, "node", None, "agent-1", "down"),
    ]

    lost, node = shown(capsys, story)[1:3]

    assert (
        lost
        == f"  \x1b[2m2026-11-30 18:00:00.000\x1b[0m  {RUNNER}  \x1b[1;31mlost, exhausted (attempts-used-up)\x1b[0m"
    )
    assert node == "  \x1b[2m2026-11-30 18:00:01.000\x1b[0m  node agent-1  down"


@pytest.mark.parametrize(
    ("hold", "line"),
    [
        (
            Hold("10", "rate", "2 runners short", None, START + 90, "it may"),
            "held, environment 10: 2 runners short, until 2026-11-30 18:01:30.000",
        ),
        (Hold(None, "storm", "storm", None, None, "it is over"), "held, everywhere: storm"),
    ],
)
def test_what_is_held_back_is_said(capsys: pytest.CaptureFixture[str], hold: Hold, line: str) -> None:
    story = pool_story()
    story.holds = [hold]
    assert line in shown(capsys, story)


LOST_WITH = NodeLosses("agent-1", "4161", START + 10, "went down", 3, {"node-lost": 1, "exhausted": 2}, [RUNNER])


def test_losses_are_told_by_their_node(capsys: pytest.CaptureFixture[str]) -> None:
    story = pool_story()
    story.blame = [LOST_WITH]
    lines = shown(capsys, story)
    assert lines[lines.index("Losses by the node to which they are traced") + 1] == (
        "  agent-1  2026-11-30 18:00:10.000  went down: 3 lost (2 exhausted, 1 node-lost)"
    )

    story.blame *= 30
    lines = shown(capsys, story)
    assert "  and 10 more" in lines
    assert not any("Losses by" in line for line in shown(capsys, Story()))


def test_the_last_line_counts(capsys: pytest.CaptureFixture[str]) -> None:
    story = pool_story()
    story.malformed = 3
    story.actions *= 2
    assert shown(capsys, story)[-1] == (
        "12 frames, 34 events in 40s, 3 malformed; 2 found lost; planned: 2 create-runner, 2 protect-job"
    )


def test_the_last_line_says_that_there_was_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, Story())[-1] == "0 frames, 0 events; 0 found lost; planned: nothing to do"


@pytest.mark.parametrize(
    ("ended_at", "breaks_off", "told"),
    [
        (20, False, "; 2 found lost; "),
        (10, False, "; 2 found lost, all of them after its end; "),
        (20, True, ", breaks off; 2 found lost; "),
        (
            10,
            True,
            ", breaks off; 2 found lost, all of them after its end (a mere supposition: the recording breaks off)",
        ),
        (None, False, "; 2 found lost; "),
    ],
)
def test_the_last_line_says_what_was_found_only_after_the_end(
    capsys: pytest.CaptureFixture[str], ended_at: float | None, breaks_off: bool, told: str
) -> None:
    story = pool_story()
    story.ended_at, story.breaks_off = None if ended_at is None else START + ended_at, breaks_off

    assert told in shown(capsys, story)[-1]


@pytest.mark.parametrize(
    ("lost_after_s", "told"),
    [
        ((1,), "1 found lost"),
        ((3,), "1 found lost, after its end"),
        ((1, 3, 3), "3 found lost, 2 of them after its end"),
    ],
)
def test_losses_are_told_apart_by_the_end(lost_after_s: tuple[int, ...], told: str) -> None:
    assert Story(ended_at=START + 2, losses=[loss(seconds) for seconds in lost_after_s]).losses_in_words() == told


@pytest.mark.parametrize("kind", ["verdict", "action", "node", "connection"])
def test_text_of_a_recording_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str], kind: str) -> None:
    story = pool_story()
    story.timeline = [Entry(START, kind, "10", HOSTILE, HOSTILE)]  # type: ignore[arg-type]
    print_story(story)
    output = capsys.readouterr().out
    assert output.count(r"\x1b[2J\x1b]0;title\x07\r\nlost\u202e\x9b31m") == 2
    assert not STEERING.search(output)


def explanation(**fields: object) -> JobExplanation:
    verdict = Verdict("recovering", "looks-dead", None, START, START + 10, at_risk=False, counts=True)
    given = {
        "job_id": RUNNER,
        "kind": "runner",
        "environment_id": "10",
        "verdict": verdict,
        "conditions": ["no allocation runs", "it has not been quiet for long"],
        "unmatched": [Unmatched("claimed", "used", "it is marked used")],
        "evidence": [
            Evidence(104, "Allocation", "AllocationUpdated", "a", "allocation 4161f44b is complete"),
            Evidence(113, "Job", "EvaluationUpdated", RUNNER, "the job is dead"),
        ],
        "next_state": "lost",
        "next_rule": "stuck-complete",
    }
    return JobExplanation(**{**given, **fields})  # type: ignore[arg-type]


def test_a_job_is_explained_from_its_verdict_to_what_comes_next(capsys: pytest.CaptureFixture[str]) -> None:
    print_explanation(explanation())
    assert [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()] == [
        f"{RUNNER} (runner of environment 10) is recovering since 2026-11-30 18:00:00.000",
        "Rule looks-dead: no allocation runs; it has not been quiet for long.",
        "Evidence, in order:",
        "104 Allocation/AllocationUpdated allocation 4161f44b is complete",
        "113 Job/EvaluationUpdated the job is dead",
        "Next, if nothing else happens: lost (stuck-complete) at 2026-11-30 18:00:10.000",
        "Rules above it that did not match, and what each would have needed:",
        "claimed used it is marked used",
    ]


def test_a_job_at_risk_of_which_nothing_is_due_is_said_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    verdict = Verdict("idle", "running", None, START, None, at_risk=True, counts=True)
    print_explanation(explanation(verdict=verdict, unmatched=[], next_state=None, next_rule=None))
    output = capsys.readouterr().out
    assert "At risk: the next evaluation of the job can end it although it lives." in output
    assert "Next: the verdict does not change by time alone." in output
    assert "Rules above it" not in output


def test_a_lost_job_is_explained_with_its_node(capsys: pytest.CaptureFixture[str]) -> None:
    lost = Verdict("lost", "node-is-gone", "node-lost", START, None, at_risk=False, counts=False)
    print_explanation(explanation(verdict=lost, node="agent-3", blame=LOST_WITH))
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("Last on agent-3.")
    assert lines[at + 1] == (
        "Its loss is traced to agent-1: 2026-11-30 18:00:10.000 went down; 3 lost (2 exhausted, 1 node-lost)."
    )
    print_explanation(explanation(node="agent-3"))
    assert "\nOn agent-3.\n" in capsys.readouterr().out


NEW = "10-115c55d8-f4ca-5ed4-94a9-413c664f5f7f"
DECISIONS = [
    Decision(START + 1, "create-runner", "10", NEW, "replaces a runner that is lost", RUNNER),
    Decision(
        START + 1, "remove-job", "10", RUNNER, "lost for good: exhausted", None, 2, Ending(START + 2, "not-done", "403")
    ),
]


def test_a_job_is_explained_with_what_is_done_about_it(capsys: pytest.CaptureFixture[str]) -> None:
    hold = Hold(None, "storm", "storm: runners were lost", START, START + 40, "it is quiet")
    print_explanation(explanation(decisions=DECISIONS, holds=[hold], replaced_by=NEW, replaces="10-older"))
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("It replaces 10-older.")
    assert lines[at + 1 : at + 7] == [
        f"Replaced by {NEW}.",
        "Decided about it:",
        f"  2026-11-30 18:00:01.000  create-runner {NEW} in its place (replaces a runner that is lost): under way",
        "  2026-11-30 18:00:01.000  remove-job, 2 times (lost for good: exhausted): not-done (403)",
        "Held back since 2026-11-30 18:00:00.000: storm: runners were lost, until 2026-11-30 18:00:40.000",
        "  Rule storm; ends when it is quiet.",
    ]


def test_a_runner_that_was_only_planned_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    print_explanation(OrderExplanation(NEW, "10", RUNNER, DECISIONS[:1], []), meanwhile="only planned")
    assert capsys.readouterr().out.splitlines() == [
        f"{NEW} was decided on for environment 10; no such job is known.",
        f"It is to replace {RUNNER}.",
        "Decided about it:",
        "  2026-11-30 18:00:01.000  create-runner (replaces a runner that is lost): only planned",
    ]


def test_an_explanation_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    fact = Evidence(1, HOSTILE, HOSTILE, HOSTILE, HOSTILE)
    decision = Decision(START, "remove-job", "10", HOSTILE, HOSTILE, None, 1, Ending(START, "not-done", HOSTILE))
    print_explanation(
        explanation(
            job_id=HOSTILE, evidence=[fact], node=HOSTILE, decisions=[decision], replaced_by=HOSTILE, replaces=HOSTILE
        )
    )
    print_explanation(OrderExplanation(HOSTILE, "10", HOSTILE, [decision], []))
    output = capsys.readouterr().out
    assert r"\x1b[2J" in output
    assert not STEERING.search(output)


def test_an_environment_is_explained_with_what_keeps_it_from_its_target(capsys: pytest.CaptureFixture[str]) -> None:
    print_explanation(
        EnvironmentExplanation(
            environment_id="10",
            state="lost",
            rule="stuck-complete",
            cause="stuck-complete",
            target=5,
            states={"idle": 3, "lost": 2},
            deficit=1,
            surplus=0,
            surplus_story="",
            expected=1,
            causes={"stuck-complete": 2},
            holds=[Hold("10", "settling", "1 runner short", START, None, "it lasts")],
            template=explanation(job_id="template-10", kind="environment"),
            blame=[LOST_WITH],
        )
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[:8] == [
        "Environment 10 is lost, stuck-complete",
        "Runners: 3 idle, 2 lost; target 5, deficit 1",
        "1 more asked for and not seen yet.",
        "Lost: 2 stuck-complete",
        "Losses by the node to which they are traced, those that were dealt with too:",
        "  agent-1  2026-11-30 18:00:10.000  went down: 3 lost (2 exhausted, 1 node-lost)",
        "Held back since 2026-11-30 18:00:00.000: 1 runner short",
        "  Rule settling; ends when it lasts.",
    ]
    assert lines[9].startswith("template-10 (environment of environment 10) is recovering")
