"""Stories as a replay would tell them, small ones and large ones."""

from __future__ import annotations

import random
from typing import Any, Final

from poseidon_reconciler.core.blame import NodeLosses
from poseidon_reconciler.core.evidence import Evidence
from poseidon_reconciler.core.holds import Hold
from poseidon_reconciler.core.ledger import Action
from poseidon_reconciler.core.status import POOL_STATES, EnvironmentRow
from poseidon_reconciler.recording.story import JobRow, Loss, NodeChange, Sample, Story

START: Final = 1_796_061_600.0  # 2026-11-30 18:00 UTC
RUNNER: Final = "10-6cad3a50-ece9-11f1-bda2-02fc00000001"


def sample(after_s: float, target: int | None = 5, **numbers: int) -> Sample:
    """A pool's numbers `after_s` the start."""
    return Sample(START + after_s, tuple(numbers.get(state, 0) for state in POOL_STATES), target)


def environment(**fields: Any) -> EnvironmentRow:
    """An environment at the end; a healthy and empty one unless said otherwise."""
    numbers = dict.fromkeys((*POOL_STATES, "deficit", "surplus"), 0)
    healthy = {"state": "active", "cause": None, "rule": "running", "target": 0}
    return EnvironmentRow(**{**healthy, **numbers, **fields})


def job(**fields: Any) -> JobRow:
    """A runner of environment 10 at the end; an idle one unless said otherwise."""
    idle: dict[str, Any] = {
        "kind": "runner",
        "environment_id": "10",
        "state": "idle",
        "cause": None,
        "at_risk": False,
        "rule": "running",
        "since": START,
        "due_at": None,
        "node": "agent-1",
        "evidence": [],
    }
    return JobRow(**{**idle, **fields})


def loss(after_s: float = 20, job_id: str = RUNNER, text: str = "the job is dead", evidence: int = 1) -> Loss:
    """A runner of environment 10 that finished although it should run; all that is text in it can be told."""
    fact = Evidence(104, "Job", "EvaluationUpdated", job_id, text)
    return Loss(
        START + after_s, "10", job_id, "runner", "stuck-complete", "stuck-complete", "agent-1", [fact] * evidence
    )


def pool_story() -> Story:
    """A pool of five that loses two runners with their node."""
    return Story(
        frames=12,
        events=34,
        heartbeats=2,
        last_index=124,
        started_at=START,
        ended_at=START + 40,
        settled_at=START + 60,
        samples={
            "10": [sample(1, starting=5), sample(3, idle=5), sample(10, idle=3, blocked=2), sample(20, idle=3, lost=2)]
        },
        node_changes=[
            NodeChange(START, "4161f44b-0000", "agent-1", "ready", False),
            NodeChange(START + 10, "4161f44b-0000", "agent-1", "down", False),
        ],
        losses=[loss(), loss(job_id="10-b")],
        blame=[
            NodeLosses("agent-1", "4161f44b-0000", START + 10, "went down", 2, {"stuck-complete": 2}, [RUNNER, "10-b"])
        ],
        actions=[
            Action(START + 10, "protect-job", "10", RUNNER, "it is at risk"),
            Action(START + 60, "create-runner", "10", "10-new", "replaces a runner that is lost", replaces=RUNNER),
        ],
        holds=[Hold("10", "enough-starting", "1 runner short, enough are starting", START, START + 90, "one runs")],
        environments={"10": environment(target=5, idle=3, lost=2, deficit=1)},
        jobs={"10-c": job(at_risk=True)},
    )


def text_story(text: str) -> Story:
    """A story with `text` wherever a recording brings in a text of its own."""
    story = pool_story()
    fact = Evidence(104, text, text, text, text)
    story.losses = [Loss(START + 20, "10", text, text, text, text, text, [fact])]
    story.blame = [NodeLosses(text, text, START + 10, text, 1, {text: 1}, [text])]
    story.actions = [Action(START + 10, "create-runner", "10", text, text, replaces=text)]
    story.holds = [Hold("10", "settling", text, START, None, text)]
    story.node_changes = [NodeChange(START, text, text, text, False), NodeChange(START + 1, text, "", text, True)]
    story.environments = {"10": environment(state="lost", cause=text, rule=text)}
    story.jobs = {text: job(state=text, rule=text, node=text, evidence=[fact])}
    return story


def large_story(samples: int, environments: int) -> Story:
    """A story in which everything changes all the time."""
    chance = random.Random(1)
    story = Story(started_at=START, ended_at=START + samples)
    ids = [str(number) for number in range(environments)]
    story.environments = {id_: environment(target=100) for id_ in ids}
    story.samples = {id_: [] for id_ in ids}
    for second in range(samples):
        numbers = {state: chance.randrange(100) for state in POOL_STATES}
        story.samples[ids[second % environments]].append(sample(second, target=100 + chance.randrange(3), **numbers))
    text = "allocation 4161f44b is complete, ordered to stop (alloc is lost since its node is down)" * 2
    story.losses = [loss(second, f"10-{second:036}", text, evidence=3) for second in range(2_000)]
    for second in range(20_000):
        id_ = chance.choice(ids)
        story.actions.append(
            Action(START + second, "create-runner", id_, f"{id_}-{second:036}", f"reason {second % 50}")
        )
        status = chance.choice(["ready", "down", "disconnected", "initializing"])
        story.node_changes.append(NodeChange(START + second, f"{second % 100}", f"agent-{second % 100}", status, False))
    return story
