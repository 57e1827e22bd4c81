"""Whether an environment's own job is such that its pool can be kept, and as its disconnect policy promises.

Runners are copies of it. So what it says of restarts, reschedules and disconnects decides what Nomad itself does about
a runner, whatever is configured here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from poseidon_reconciler.app.check.report import Check, fail, ok, warn
from poseidon_reconciler.core.events import Disconnect, TaskGroup
from poseidon_reconciler.core.ids import template_id
from poseidon_reconciler.core.records import Job
from poseidon_reconciler.nomad.api import JobRead
from poseidon_reconciler.policy import PoolPolicy, format_duration, quoted

_POOL_SIZE: Final = "prewarmingPoolSize"
_RUNS: Final = "default-group"
_CONFIG: Final = "config"
_UPDATE: Final = "update the environment through Poseidon, which registers its job anew"


class _Restart(msgspec.Struct, rename="pascal"):
    attempts: int = 0
    mode: str = ""


class _Reschedule(msgspec.Struct, rename="pascal"):
    attempts: int = 0
    unlimited: bool = False


class _Disconnect(Disconnect):
    replace: bool | None = None


class _Group(TaskGroup):
    disconnect: _Disconnect | None = None
    restart_policy: _Restart | None = None
    reschedule_policy: _Reschedule | None = None


class _Template(msgspec.Struct):
    groups: list[_Group] | None = msgspec.field(name="TaskGroups", default=None)


class _Finding(msgspec.Struct, frozen=True):
    """Something about an environment. `grave`: its pool cannot be kept at all."""

    detail: str
    advice: str
    grave: bool = False


def look_at_environment(environment_id: str, job: JobRead, policy: PoolPolicy) -> list[Check]:
    """What is wrong with an environment, one line each, or one line that nothing is."""
    name = f"environment {environment_id}"
    try:
        template = msgspec.json.decode(job.body, type=_Template)
    except (msgspec.DecodeError, RecursionError) as error:
        return [fail(name, f"its job is not understood: {error}", _UPDATE)]
    groups = {group.name: group for group in template.groups or ()}
    findings = [*_layout(job, groups), *_pool_size(environment_id, groups), *_status(job)]
    if _RUNS in groups:
        findings += [*_disconnects(groups[_RUNS], policy, environment_id), *_failures(groups[_RUNS])]
    if findings:
        return [(fail if finding.grave else warn)(name, finding.detail, finding.advice) for finding in findings]
    return [ok(name, f"target {_target(environment_id, groups)}, {job.payload.status}, {policy.disconnect_policy}")]


def _layout(job: JobRead, groups: dict[str, _Group]) -> Iterator[_Finding]:
    if job.payload.type != "batch":
        yield _Finding(f"its job is of type {quoted(job.payload.type)}: it is not looked after", _UPDATE, grave=True)
    for name in (_RUNS, _CONFIG):
        if name not in groups:
            yield _Finding(f"its job has no group {name}: no runner can be made of it", _UPDATE, grave=True)


def _pool_size(environment_id: str, groups: dict[str, _Group]) -> Iterator[_Finding]:
    if _CONFIG not in groups or _target(environment_id, groups) is not None:
        return
    text = (groups[_CONFIG].meta or {}).get(_POOL_SIZE)
    said = "is missing" if text is None else f"is {quoted(text)}, not a number"
    yield _Finding(f"{_POOL_SIZE} {said}: its pool has no target, and is not kept", _UPDATE, grave=True)


def _target(environment_id: str, groups: dict[str, _Group]) -> int | None:
    """The pool's target as the core reads it."""
    job = Job(template_id(environment_id), "environment", environment_id)
    job.take_groups(list(groups.values()))
    return job.target


def _status(job: JobRead) -> Iterator[_Finding]:
    payload = job.payload
    if payload.stop:
        yield _Finding("its job was stopped: nothing is done about it or its runners", "start it again if it is needed")
    elif payload.status == "dead":
        yield _Finding("its job is dead", "nothing: `run` will revive it")
    elif payload.status == "pending":
        yield _Finding("its job is pending: it waits for its start or for capacity", "see `nomad job status`")


def _disconnects(group: _Group, policy: PoolPolicy, environment_id: str) -> Iterator[_Finding]:
    """Where the job and the disconnect policy say different things."""
    disconnect = group.disconnect or _Disconnect()
    stop_after = disconnect.stop_on_client_after or group.stop_after_client_disconnect
    lost_after = disconnect.lost_after or group.max_client_disconnect
    key = f'environments."{environment_id}"'
    match policy.disconnect_policy:
        case "exactly":
            yield from _exactly(policy, stop_after, lost_after, key)
            if group.volumes:
                names = ", ".join(sorted(map(quoted, group.volumes)))
                yield _Finding(
                    f"exactly: its runners claim a volume ({names}), which a copy out of reach may hold longer than "
                    "it runs: none is replaced before its node is back or removed",
                    "take the volume out of the environment's job, or remove nodes that will not come back",
                )
        case "leave-alone":
            yield from _leave_alone(stop_after, lost_after, replaces=disconnect.replace is not False)
        case "at-least" if stop_after:
            time = format_duration(stop_after / 1e9)
            yield _Finding(
                f"at-least: Nomad waits {time} before it replaces a runner out of reach, for its job has a stop-after",
                f"take it out of the job, or say {key}.disconnect_policy: exactly",
            )


def _exactly(policy: PoolPolicy, stop_after: int | None, lost_after: int | None, key: str) -> Iterator[_Finding]:
    if stop_after:
        return
    if lost_after:
        yield _Finding(
            "exactly: Nomad starts a second copy of a runner out of reach, for its job has max_client_disconnect "
            "(lost_after) and no stop-after",
            "put stop_after_client_disconnect (disconnect.stop_on_client_after) in its place",
        )
    elif policy.stop_after_s is None:
        yield _Finding(
            "exactly: nothing stops a runner out of reach: Nomad starts a second copy of it, and a pool whose runner "
            "is lost stays short until its node is back",
            f"set {key}.stop_after, or stop_after_client_disconnect in the environment's job",
        )


def _leave_alone(stop_after: int | None, lost_after: int | None, *, replaces: bool) -> Iterator[_Finding]:
    if stop_after:
        time = format_duration(stop_after / 1e9)
        yield _Finding(
            f"leave-alone: a runner out of reach is stopped by its own agent after {time}",
            "take the stop-after out of the environment's job",
        )
    if not lost_after:
        yield _Finding(
            "leave-alone: Nomad replaces a runner out of reach at once, for its job has no max_client_disconnect",
            "set it in the environment's job (Nomad 1.3), or disconnect { lost_after, replace = false } (1.8)",
        )
    elif replaces:
        yield _Finding(
            "leave-alone: Nomad starts another copy while a runner is out of reach, for replace is not false",
            "set replace = false in the disconnect block of the environment's job (Nomad 1.8)",
        )


def _failures(group: _Group) -> Iterator[_Finding]:
    """What no policy of ours can help."""
    restart, reschedule = group.restart_policy, group.reschedule_policy
    if reschedule is not None and not reschedule.unlimited and reschedule.attempts <= 0:
        restarts = restart.attempts if restart is not None else 0
        after = f"after {restarts} restarts" if restarts > 0 else "at once"
        yield _Finding(
            f"a runner whose task fails is lost {after}: its job allows no reschedules",
            "allow some in the environment's job, or leave all of them to `run`",
        )
    if restart is not None and restart.mode == "delay":
        yield _Finding(
            "a runner whose task always fails is restarted for ever, and counts as one that comes back",
            'set mode = "fail" in the restart block of the environment\'s job',
        )
