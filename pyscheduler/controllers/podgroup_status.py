"""Computation of a PodGroup's status: one pure function.

Phases are those of scheduling.x-k8s.io/v1alpha1 (Coscheduling), plus the number of scheduled members and a condition
Scheduled to wait for. Unlike in Coscheduling, Failed and Finished are not final: a Job that replaces failed pods or has
more completions than minMember changes the phase back. The status of a finished group is kept when its pods are
deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pyscheduler.api.counts import counted
from pyscheduler.clock import rfc3339
from pyscheduler.kube.conditions import merge_condition

Json = dict[str, Any]

POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
"""Label with the name of the PodGroup in the pod's namespace."""

PENDING, SCHEDULING, RUNNING, FINISHED, FAILED = "Pending", "Scheduling", "Running", "Finished", "Failed"
SCHEDULED = "Scheduled"
MIN_MEMBER_SCHEDULED, MEMBERS_MISSING, WAITING_FOR_NODES = "MinMemberScheduled", "MembersMissing", "WaitingForNodes"
_REASONS = (MIN_MEMBER_SCHEDULED, MEMBERS_MISSING, WAITING_FOR_NODES)


class Member(NamedTuple):
    """Fields of a pod on which the status of its group depends."""

    phase: str
    bound: bool
    deleting: bool = False


class _Counts(NamedTuple):
    present: int
    """Members that are neither failed nor terminating."""
    scheduled: int
    running: int
    succeeded: int
    failed: int


def member_of(pod: Mapping[str, Any]) -> Member:
    """Return the relevant fields of a core/v1 Pod."""
    phase = str(pod.get("status", {}).get("phase", ""))
    return Member(phase, bool(pod["spec"].get("nodeName")), bool(pod["metadata"].get("deletionTimestamp")))


def podgroup_status(group: Mapping[str, Any], members: Iterable[Member], now: float) -> Json:
    """Return the status of a PodGroup at `now` (seconds since 1970), given its pods.

    Pending: fewer than minMember pods exist. Scheduling: minMember exist, fewer are running or succeeded. Running:
    minMember are running or succeeded. Finished: minMember have succeeded and no other member is left. Failed: pods
    have failed and fewer than minMember are left.
    """
    minimum = max(1, int(group.get("spec", {}).get("minMember") or 1))
    before: Mapping[str, Any] = group.get("status") or {}
    counts = _count(members)
    is_over = before.get("phase") == FINISHED and counts.present == counts.succeeded
    phase = FINISHED if is_over else _phase(counts, minimum)
    status: Json = {
        "phase": phase,
        "scheduled": counts.scheduled,
        "running": counts.running,
        "succeeded": counts.succeeded,
        "failed": counts.failed,
        "conditions": _conditions(group, counts, minimum, now, is_over=is_over),
    }
    started = before.get("scheduleStartTime") or (rfc3339(now) if phase != PENDING else None)
    return status | ({"scheduleStartTime": started} if started else {})


def _count(members: Iterable[Member]) -> _Counts:
    members = list(members)
    alive = [m for m in members if m.phase != "Failed" and not (m.deleting and m.phase != "Succeeded")]
    return _Counts(
        present=len(alive),
        scheduled=sum(m.bound for m in alive),
        running=sum(m.phase == "Running" for m in alive),
        succeeded=sum(m.phase == "Succeeded" for m in alive),
        failed=sum(m.phase == "Failed" for m in members),
    )


def _phase(counts: _Counts, minimum: int) -> str:
    if counts.succeeded >= minimum and counts.present == counts.succeeded:
        return FINISHED
    if counts.running + counts.succeeded >= minimum:
        return RUNNING
    if counts.present >= minimum:
        return SCHEDULING
    return FAILED if counts.failed else PENDING


def _conditions(group: Mapping[str, Any], counts: _Counts, minimum: int, now: float, *, is_over: bool) -> list[Json]:
    """Return the conditions with Scheduled updated."""
    conditions: list[Json] = [dict(c) for c in (group.get("status") or {}).get("conditions") or ()]
    present = next((c for c in conditions if c.get("type") == SCHEDULED), {})
    if is_over and present:
        return conditions  # the pods of a finished group may be deleted
    status, reason, message = _scheduled(counts, minimum)
    if _is_of_scheduler(present, status, reason):
        return conditions
    scheduled = {
        "type": SCHEDULED,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": int(group["metadata"].get("generation") or 0),
    }
    return merge_condition(conditions, scheduled, rfc3339(now))


def _is_of_scheduler(present: Json, status: str, reason: str) -> bool:
    """Return True if the condition was written by the scheduler and is up to date.

    The scheduler writes which pod lacks which resource, and does not write it again. It writes True before the pods are
    bound, since their bindings have only started.
    """
    if not present or present.get("reason") in _REASONS:
        return False
    return reason == WAITING_FOR_NODES or present.get("status") == status == "True"


def _scheduled(counts: _Counts, minimum: int) -> tuple[str, str, str]:
    if counts.scheduled >= minimum:
        return "True", MIN_MEMBER_SCHEDULED, f"{counted(counts.scheduled, 'member')} bound, {minimum} needed"
    if counts.present < minimum:
        return "False", MEMBERS_MISSING, f"{counted(counts.present, 'member')} present, {minimum} needed"
    return "False", WAITING_FOR_NODES, f"{counted(counts.scheduled, 'member')} bound, {minimum} needed"
