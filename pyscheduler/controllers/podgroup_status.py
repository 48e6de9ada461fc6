"""What a PodGroup's status says of its pods: one pure function.

The phases are those of scheduling.x-k8s.io/v1alpha1 (Coscheduling). Added to it: the count of scheduled members and a
condition of type Scheduled, which a user can wait for. Unlike Coscheduling's controller, neither Failed nor Finished is
for ever: a Job that replaces its failed pods brings the group back, and so does one that has more completions than
minMember. Once all pods of a finished group are deleted, it stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

Json = dict[str, Any]

POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
"""Names the PodGroup, in the pod's own namespace, that the pod is a member of."""

PENDING, SCHEDULING, RUNNING, FINISHED, FAILED = "Pending", "Scheduling", "Running", "Finished", "Failed"
SCHEDULED = "Scheduled"


class Member(NamedTuple):
    """What the status of a group counts of one pod."""

    phase: str
    bound: bool
    deleting: bool = False


class _Counts(NamedTuple):
    present: int
    """Members that are not failed and not about to go."""
    scheduled: int
    running: int
    succeeded: int
    failed: int


def member_of(pod: Mapping[str, Any]) -> Member:
    """The part of a core/v1 Pod that counts."""
    phase = str(pod.get("status", {}).get("phase", ""))
    return Member(phase, bool(pod["spec"].get("nodeName")), bool(pod["metadata"].get("deletionTimestamp")))


def podgroup_status(group: Mapping[str, Any], members: Iterable[Member], now: float) -> Json:
    """The status that the PodGroup should have at `now` (seconds since 1970), given its pods.

    Pending: fewer than minMember pods exist. Scheduling: enough exist, not all of them run. Running: minMember run or
    have run. Finished: minMember have succeeded, and no member is left that has not. Failed: pods have failed, and too
    few are left.
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
    started = before.get("scheduleStartTime") or (_timestamp(now) if phase != PENDING else None)
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
    """The conditions there are, with Scheduled as it should be; its transition is stamped only if it changes."""
    kept: list[Json] = [dict(c) for c in (group.get("status") or {}).get("conditions") or ()]
    present = next((c for c in kept if c.get("type") == SCHEDULED), {})
    status, reason, message = _scheduled(counts, minimum)
    if is_over and present:
        return kept  # the pods may be gone by now; that does not undo what happened
    moved = present.get("status") == status and present.get("lastTransitionTime")
    wanted = {
        "type": SCHEDULED,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": moved or _timestamp(now),
        "observedGeneration": int(group["metadata"].get("generation") or 0),
    }
    return [c for c in kept if c.get("type") != SCHEDULED] + [wanted]


def _scheduled(counts: _Counts, minimum: int) -> tuple[str, str, str]:
    if counts.scheduled >= minimum:
        return "True", "MinMemberScheduled", f"{counts.scheduled} members are bound, {minimum} are needed"
    if counts.present < minimum:
        return "False", "MembersMissing", f"{counts.present} members exist, {minimum} are needed"
    return "False", "WaitingForNodes", f"{counts.scheduled} members are bound, {minimum} are needed"


def _timestamp(at: float) -> str:
    return datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
