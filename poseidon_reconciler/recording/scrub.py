"""A recording without secrets: of every object only what is known to be harmless is kept, under its own name.

Jobs carry tokens, environment variables, templates and commands, in places that grow with each release of Nomad, and a
recording is made to be handed around. So this lists what stays and not what goes: whatever says how a job, an
allocation, an evaluation or a node stands and how it came to that, and among it all that decisions are made by. Texts
that a task, its driver or an operator may have written do not stay.

A value of a wrong type stays a value of a wrong type: a line that cannot be read cannot be read afterwards either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from poseidon_reconciler.policy import Policy

Scrub = Callable[[Any], Any]

# The words of a garbled line or of an answer that are worth keeping; all others become x.
_WORDS: Final = frozenset(
    """
    a again and at bad be been body buffer by cannot certificate client closed cluster code connect connection could
    denied dropped end ended eof error event expired failed first for forbidden found from gateway handshake has
    head html http https in index internal invalid is it json leader length line long malformed no not of on or past
    permission proxy read recorder recording reconciler refused reset response resubscribe retry server service
    should ssl start status stream subscription the this time timed timeout title tls to token too unauthorized
    unavailable unknown unreachable unsupported upstream was with write written wrong
    """.split()  # noqa: SIM905 - as a text it can be read
)
_OUR_META: Final = ("used", "timeout", "prewarmingPoolSize")
_OUR_PREFIX: Final = "poseidon-reconciler."


def scrub_line(line: Any) -> Any:
    """A line of a stream or of a recording, decoded."""
    return _LINE(line)


def scrub_job(job: Any) -> Any:
    """A job, whole or as a list's stub."""
    return _JOB(job)


def scrub_text(text: str) -> str:
    """A text that may quote anything: only words that are known to be harmless can still be read."""
    return re.sub(r"\w+", lambda word: word[0] if word[0].lower() in _WORDS else "x" * min(len(word[0]), 8), text)


# --- what stays, in the small -----------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    """A number, a text, a truth or nothing; of anything else only what kind of thing it was."""
    if isinstance(value, dict):
        return {}
    return [] if isinstance(value, list) else value


def _words(value: Any) -> Any:
    return scrub_text(value) if isinstance(value, str) else _plain(value)


def _number(value: Any) -> Any:
    return 0 if isinstance(value, str) else _plain(value)


def _each(scrub: Scrub) -> Scrub:
    """A list of such things."""
    return lambda value: [scrub(each) for each in value] if isinstance(value, list) else _wrong(value)


def _by_name(scrub: Scrub) -> Scrub:
    """Such things by their names."""
    return lambda value: {k: scrub(v) for k, v in value.items()} if isinstance(value, dict) else _wrong(value)


def _wrong(value: Any) -> Any:
    """What stands where a list or an object belongs."""
    return None if value is None else 0


def _object(plain: str = "", **parts: Scrub) -> Scrub:
    """An object of which the `plain` keys stay if their values are, and the others as each is scrubbed."""
    scrubs: Mapping[str, Scrub] = {**dict.fromkeys(plain.split(), _plain), **parts}

    def scrub(value: Any) -> Any:
        if not isinstance(value, dict):
            return _wrong(value)
        return {key: scrubs[key](each) for key, each in value.items() if key in scrubs}

    return scrub


def _meta_of_config(value: Any) -> Any:
    """The marks of Poseidon and of ours; what else an operator or a learner's exercise put there is their own."""
    if not isinstance(value, dict):
        return _wrong(value)
    kept = {key: _plain(text) for key, text in value.items() if key in _OUR_META or key.startswith(_OUR_PREFIX)}
    if not all(isinstance(text, str) for text in value.values()):
        kept["x"] = 0
    return kept


# --- what stays of each object ----------------------------------------------------------------------------------------

_INDEXES: Final = "CreateIndex ModifyIndex CreateTime ModifyTime "
_PLACEMENT: Final[dict[str, Scrub]] = {
    "Constraints": _each(_object("LTarget RTarget Operand")),
    "Affinities": _each(_object("LTarget RTarget Operand Weight")),
    "Spreads": _each(_object("Attribute Weight", SpreadTarget=_each(_object("Value Percent")))),
}
_RESTARTS: Final = _object("Attempts Interval Delay Mode RenderTemplates")

_TASK: Final = _object(
    "Name Driver KillTimeout KillSignal Leader ShutdownDelay",
    **_PLACEMENT,
    Config=_object("image"),
    Lifecycle=_object("Hook Sidecar"),
    LogConfig=_object("MaxFiles MaxFileSizeMB Disabled"),
    Resources=_object("CPU Cores MemoryMB MemoryMaxMB DiskMB IOPS SecretsMB"),
    RestartPolicy=_RESTARTS,
)
_GROUP: Final = _object(
    "Name Count StopAfterClientDisconnect MaxClientDisconnect PreventRescheduleOnLost ShutdownDelay MaxRunDuration",
    **_PLACEMENT,
    Disconnect=_object("LostAfter Replace Reconcile StopOnClientAfter"),
    EphemeralDisk=_object("SizeMB Sticky Migrate"),
    Meta=_meta_of_config,
    ReschedulePolicy=_object("Attempts Interval Delay DelayFunction MaxDelay Unlimited"),
    RestartPolicy=_RESTARTS,
    Tasks=_each(_TASK),
    Volumes=_by_name(_object("Type")),
)
_JOB: Final = _object(
    "ID Name Namespace Region Type Priority AllAtOnce NodePool ParentID Status StatusDescription Stop Stable Version "
    "Dispatched SubmitTime JobModifyIndex " + _INDEXES,
    **_PLACEMENT,
    Datacenters=_each(_plain),
    JobSummary=_object(
        "JobID Namespace CreateIndex ModifyIndex", Summary=_by_name(_by_name(_number)), Children=_by_name(_number)
    ),
    TaskGroups=_each(_GROUP),
)

_METRICS: Final = _object(
    "NodesEvaluated NodesFiltered NodesExhausted NodesInPool AllocationTime CoalescedFailures",
    NodesAvailable=_by_name(_plain),
    ClassFiltered=_by_name(_plain),
    ConstraintFiltered=_by_name(_plain),
    ClassExhausted=_by_name(_plain),
    DimensionExhausted=_by_name(_plain),
    QuotaExhausted=_each(_plain),
)
_TASK_STATE: Final = _object(
    "State Failed Restarts LastRestart StartedAt FinishedAt Paused",
    # Without their texts: a driver quotes what it was given.
    Events=_each(_object("Type Time ExitCode Signal FailsTask StartDelay KillTimeout DiskLimit")),
)
_ALLOCATION: Final = _object(
    "ID EvalID Name Namespace NodeID NodeName JobID JobType JobVersion TaskGroup DesiredStatus DesiredDescription "
    "ClientStatus ClientDescription DeploymentID FollowupEvalID PreviousAllocation NextAllocation AllocModifyIndex "
    "PreemptedByAllocation " + _INDEXES,
    DesiredTransition=_object("Migrate Reschedule ForceReschedule NoShutdownDelay MigrateDisablePlacement"),
    DeploymentStatus=_object("Healthy Timestamp Canary ModifyIndex"),
    Job=_JOB,
    Metrics=_METRICS,
    PreemptedAllocations=_each(_plain),
    RescheduleTracker=_object("LastReschedule", Events=_each(_object("RescheduleTime PrevAllocID PrevNodeID Delay"))),
    TaskStates=_by_name(_TASK_STATE),
)
_EVALUATION: Final = _object(
    "ID Namespace Priority Type TriggeredBy JobID JobModifyIndex NodeID NodeModifyIndex DeploymentID Status "
    "StatusDescription Wait WaitUntil NextEval PreviousEval BlockedEval SnapshotIndex QuotaLimitReached "
    "EscapedComputedClass " + _INDEXES,
    ClassEligibility=_by_name(_plain),
    FailedTGAllocs=_by_name(_METRICS),
    QueuedAllocations=_by_name(_plain),
)
_NODE: Final = _object(
    "ID Name Datacenter NodePool NodeClass Status StatusDescription StatusUpdatedAt SchedulingEligibility Drain "
    "Version LastMissedHeartbeatIndex LastAllocUpdateIndex " + _INDEXES,
    DrainStrategy=_object("Deadline ForceDeadline StartedAt IgnoreSystemJobs"),
    Events=_each(_object("Message Subsystem Timestamp CreateIndex")),
    LastDrain=_object("Status StartedAt UpdatedAt"),
)

_EVENT: Final = _object(
    "Topic Type Key Namespace Index",
    FilterKeys=_each(_plain),
    Payload=_object("Deleted", Job=_JOB, Allocation=_ALLOCATION, Evaluation=_EVALUATION, Node=_NODE),
)
_SNAPSHOT: Final = _object(
    Jobs=_each(_JOB),
    Allocations=_each(_ALLOCATION),
    Nodes=_each(_NODE),
    Evaluations=_each(_EVALUATION),
    Indexes=_by_name(_plain),
)


def _policy(value: Any) -> Any:
    """What a policy has, and nothing else."""
    try:
        return Policy.model_validate(value).model_dump(mode="json")
    except ValueError:
        return None


_TOLD: Final = _object(
    Outcome=_object("At Kind EnvironmentID JobID Replaces Reason Result Index", Detail=_words),
    Pause=_object("EnvironmentID Reason Since Until Lifted"),
    Protects=_plain,
    Imagines=_plain,
    Policy=_policy,
)
_LINE: Final = _object(
    "ReceivedAt Connection",
    Index=_plain,
    Events=_each(_EVENT),
    Frame=_object("Index", Events=_each(_EVENT)),
    Snapshot=_SNAPSHOT,
    Reason=_words,
    Malformed=_words,
    Told=_TOLD,
)
