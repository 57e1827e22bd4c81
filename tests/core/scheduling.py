"""The small Nomad's scheduler of batch jobs: what it makes of an evaluation, told in a server's order."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from tests.core.builders import Wire
from tests.core.cluster import Cluster, is_placed, new_allocation

_RESCHEDULE_DELAY_S: Final = 5.0
_NOT_NEEDED: Final = "alloc not needed due to job update"


class _Plan(NamedTuple):
    """What is to be done: allocations to stop and why, those lost with their node, those out of sight, those to be
    replaced, and whether something else must come to run.
    """

    stop: dict[str, str]
    lost: list[Wire]
    unknown: list[Wire]
    replace: list[Wire]
    place: bool


def schedule(cluster: Cluster, evaluation: Wire) -> None:
    """Works on an evaluation until it is complete, or blocked for good."""
    job_id = evaluation["JobID"]
    plan = _plan(cluster, job_id)
    delayed = _delayed(cluster, plan, evaluation)
    room = cluster.room()
    waits = plan.place and not delayed and not room
    was_blocked = evaluation["Status"] == "blocked"
    if waits and not was_blocked and not _has_blocked(cluster, job_id):
        cluster.advance()
        cluster.evaluate(job_id, "EvaluationUpdated", "blocked", **_NO_ROOM)
    if delayed and _followup(cluster, job_id) is None:
        wait_s = cluster.stop_after_s if plan.lost and cluster.stop_after_s else _RESCHEDULE_DELAY_S
        cluster.advance()
        until = cluster.timestamp(wait_s)
        cluster.evaluate(job_id, "EvaluationUpdated", WaitUntil=until, DueAt=cluster.now + wait_s)
    _submit(cluster, evaluation, plan, room[0] if plan.place and room and not delayed else None, delayed=delayed)
    if waits and was_blocked:
        return
    cluster.advance()
    done = cluster.touch(evaluation, Status="complete")
    cluster.send("Evaluations", done, *cluster.settle_status(job_id, "EvaluationUpdated"))


def would_place(cluster: Cluster, job_id: str) -> bool:
    """Whether the next evaluation of a job makes it run again, now or when there is room."""
    return _plan(cluster, job_id).place


_NO_ROOM: Final = {"FailedTGAllocs": {"default-group": {"NodesEvaluated": 0}}}


def _has_blocked(cluster: Cluster, job_id: str) -> bool:
    return any(each["Status"] == "blocked" for each in cluster.live_evaluations(job_id))


def _followup(cluster: Cluster, job_id: str) -> Wire | None:
    """The evaluation of a job that still waits for its time."""
    live = cluster.live_evaluations(job_id)
    return next((each for each in live if each.get("DueAt", 0.0) > cluster.now), None)


def _plan(cluster: Cluster, job_id: str) -> _Plan:
    job = cluster.jobs.get(job_id)
    allocations = cluster.allocations_of(job_id)
    live = [each for each in allocations if is_placed(each)]
    lost = [each for each in allocations if _is_to_be_lost(cluster, each)]
    unknown = [each for each in live if _node_status(cluster, each) == "disconnected"]
    if job is None or job["Stop"]:
        return _Plan({each["ID"]: _NOT_NEEDED for each in live}, lost, [], [], place=False)
    # What stood before the job was purged and registered anew says nothing of this one.
    allocations = [each for each in allocations if each["CreateIndex"] >= job["CreateIndex"]]
    foreign = {each["ID"]: _NOT_NEEDED for each in live if each not in allocations}
    live = [each for each in live if each in allocations]
    staying = [each for each in live if each not in lost and each not in unknown]
    if any(_passes_for_success(cluster, each, job["Version"]) for each in allocations):
        return _Plan(foreign | {each["ID"]: _NOT_NEEDED for each in staying}, lost, unknown, [], place=False)
    moved = [each for each in staying if each.get("DesiredTransition") and "DrainStrategy" in _node(cluster, each)]
    stop = foreign | {each["ID"]: "alloc is being migrated" for each in moved}
    remaining = [each for each in staying if each not in moved]
    heard_of = [each for each in remaining if each["ClientStatus"] != "unknown"]
    for surplus in sorted(heard_of, key=lambda each: each["CreateIndex"])[1:]:
        stop[surplus["ID"]] = "not needed due to disconnected client reconnect"
    failed = [each for each in allocations if _is_worth_another_attempt(cluster, each)]
    moved = [] if cluster.evictions else moved
    lost_own = [each for each in lost if each in allocations]
    vacant = bool(moved or failed or unknown or [each for each in lost_own if each["DesiredStatus"] == "run"])
    first = all(cluster.versions[each["ID"]] != job["Version"] for each in allocations)
    orphaned = not live and not failed and _waits_to_be_replaced(allocations)
    return _Plan(
        stop, lost, unknown, [*lost_own, *unknown, *moved, *failed], not remaining and (vacant or first or orphaned)
    )


def _node(cluster: Cluster, allocation: Wire) -> Wire:
    return cluster.nodes.get(allocation["NodeID"], {"Status": "down"})


def _node_status(cluster: Cluster, allocation: Wire) -> str:
    return str(_node(cluster, allocation)["Status"])


def _is_to_be_lost(cluster: Cluster, allocation: Wire) -> bool:
    return (
        allocation["ClientStatus"] in ("pending", "running", "unknown") and _node_status(cluster, allocation) == "down"
    )


def _passes_for_success(cluster: Cluster, allocation: Wire, version: int) -> bool:
    """The trap: what is complete, unlinked and of the current version is taken for the job's success."""
    current = cluster.versions[allocation["ID"]] == version
    return current and allocation["ClientStatus"] == "complete" and not allocation.get("NextAllocation")


def _is_worth_another_attempt(cluster: Cluster, allocation: Wire) -> bool:
    failed: bool = allocation["ClientStatus"] == "failed" and allocation["DesiredStatus"] == "run"
    return failed and cluster.attempts[allocation["ID"]] > 0 and not allocation.get("NextAllocation")


def _waits_to_be_replaced(allocations: list[Wire]) -> bool:
    """Whether the newest was lost or moved away when there was no room, or when its time had not come."""
    newest = max(allocations, key=lambda each: each["CreateIndex"], default=None)
    if newest is None or newest.get("NextAllocation"):
        return False
    stopped: bool = newest["ClientStatus"] == "running" and newest["DesiredStatus"] == "stop"
    return stopped or newest["ClientStatus"] == "lost"


def _delayed(cluster: Cluster, plan: _Plan, evaluation: Wire) -> bool:
    """Whether a replacement has to wait, and this is not the evaluation for which it waits."""
    if not plan.place or "DueAt" in evaluation or evaluation["Status"] == "blocked":
        return False
    failed = [each for each in plan.replace if each["ClientStatus"] == "failed"]
    waits_for_agent = cluster.stop_after_s is not None and any(each["DesiredStatus"] == "run" for each in plan.lost)
    return bool(failed) or waits_for_agent or _followup(cluster, evaluation["JobID"]) is not None


def _submit(cluster: Cluster, evaluation: Wire, plan: _Plan, home: str | None, *, delayed: bool) -> None:
    """The line of the plan's result, if it changes anything."""
    job_id = evaluation["JobID"]
    job = cluster.jobs.get(job_id)
    cluster.advance()
    told: list[Any] = []
    new: Wire | None = None
    if home is not None and job is not None:
        previous = max(plan.replace, key=lambda each: each["CreateIndex"], default=None)
        links = {"PreviousAllocation": previous["ID"]} if previous is not None else {}
        new = new_allocation(cluster, job_id, home, **links)
        if previous is not None:
            previous["NextAllocation"] = new["ID"]
        cluster.allocations[new["ID"]] = new
        cluster.versions[new["ID"]] = job["Version"]
        attempts = cluster.attempts[previous["ID"]] if previous is not None else 1
        failed = previous is not None and previous["ClientStatus"] == "failed"
        cluster.attempts[new["ID"]] = attempts - failed
        told.append(new)
    followup = _followup(cluster, job_id) if delayed else None
    for each in cluster.allocations_of(job_id):
        change = _change(each, plan, new, followup)
        if change:
            each.update(change, AllocModifyIndex=cluster.index)
            told.append(each)
    if job is not None and not job["Stop"]:
        told += _bring_up_to_date(cluster, job, told)
    if told:
        events = [cluster.touch(each) for each in told]
        cluster.send(
            "Evaluations",
            "Allocations",
            cluster.touch(evaluation),
            *events,
            *cluster.settle_status(job_id, "PlanResult"),
        )


def _change(allocation: Wire, plan: _Plan, new: Wire | None, followup: Wire | None) -> Wire:
    if allocation in plan.lost:
        more = {"FollowupEvalID": followup["ID"]} if followup is not None else {}
        return {"ClientStatus": "lost", "DesiredStatus": "stop", **more}
    if allocation in plan.unknown and allocation["ClientStatus"] != "unknown":
        return {"ClientStatus": "unknown"}
    if allocation["ID"] in plan.stop:
        return {"DesiredStatus": "stop", "DesiredDescription": plan.stop[allocation["ID"]]}
    if allocation in plan.replace and allocation["ClientStatus"] == "failed":
        if new is not None:
            return {"DesiredStatus": "stop", "DesiredDescription": "alloc was rescheduled because it failed"}
        if followup is not None:
            return {"FollowupEvalID": followup["ID"]}
    return {}


def _bring_up_to_date(cluster: Cluster, job: Wire, told: list[Wire]) -> list[Wire]:
    """Allocations that take on the job's new version in place."""
    updated = []
    for each in cluster.placed(job["ID"]):
        if each not in told and cluster.versions[each["ID"]] != job["Version"]:
            cluster.versions[each["ID"]] = job["Version"]
            each["AllocModifyIndex"] = cluster.index
            updated.append(each)
    return updated
