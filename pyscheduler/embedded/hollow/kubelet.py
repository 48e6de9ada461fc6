"""Pod sync of a hollow kubelet as a pure function: the next write and the time of the next sync."""

from __future__ import annotations

import math
from typing import NamedTuple

from pyscheduler.embedded.hollow.node_capacity import AdmissionFailure
from pyscheduler.embedded.hollow.pod_lifecycle import (
    CONTAINER_RUNNING,
    CONTAINER_TERMINATED,
    FAILED,
    KILLED,
    SUCCEEDED,
    LifecycleTimings,
    PodStage,
    plan_run,
    stage_at,
)
from pyscheduler.embedded.hollow.pod_types import HollowPod
from pyscheduler.embedded.hollow.status import PodPlacement, admission_failure_status, stage_status
from pyscheduler.embedded.objects import Json

_DEADLINE_EXCEEDED = {
    "reason": "DeadlineExceeded",
    "message": "Pod was active on the node longer than the specified deadline",
}


class SyncResult(NamedTuple):
    """At most one write, and the time of the next sync (math.inf: only when the pod changes)."""

    status: Json | None = None
    """Strategic merge patch of the pod's status."""
    delete: bool = False
    """True to remove the pod object: its containers have stopped."""
    requeue_at: float = math.inf


def sync_pod(
    pod: HollowPod, place: PodPlacement, failure: AdmissionFailure | None, timings: LifecycleTimings, now: float
) -> SyncResult:
    """Return the next step for a pod on a live node. `failure` is set if the node had no room when the pod arrived."""
    if pod.metadata.deletion_timestamp is not None:
        return _stop(pod, place, now)
    if pod.final:
        return SyncResult()
    if failure is not None:
        return SyncResult(admission_failure_status(failure, place.seen))
    limit = pod.spec.active_deadline_seconds
    deadline = math.inf if limit is None else place.seen + limit
    stage = stage_at(plan_run(pod, timings, place.earlier), timings, place.seen, min(now, deadline))
    if now >= deadline and stage.phase not in (SUCCEEDED, FAILED):
        return SyncResult(stage_status(pod, _killed(place, deadline), place) | _DEADLINE_EXCEEDED)
    return SyncResult(
        None if _is_reported(pod, stage) else stage_status(pod, stage, place), requeue_at=min(stage.until, deadline)
    )


def _stop(pod: HollowPod, place: PodPlacement, now: float) -> SyncResult:
    """Write the status of stopped containers first, then delete the object, as the real kubelet does."""
    if pod.metadata.deletion_grace_period_seconds == 0:
        return SyncResult()  # already force-deleted; only finalizers keep the object
    if pod.final:
        return SyncResult(delete=True)
    return SyncResult(stage_status(pod, _killed(place, now), place))


def _killed(place: PodPlacement, at: float) -> PodStage:
    return PodStage(FAILED, CONTAINER_TERMINATED, "Error", at, exit_code=KILLED, last_run=(min(place.seen, at), at))


def _is_reported(pod: HollowPod, stage: PodStage) -> bool:
    """Return True if the pod's status shows that stage already."""
    containers = pod.status.container_statuses
    if pod.status.phase != stage.phase or not containers:
        return False
    # The node lifecycle controller may have set the pod to not ready while its node was down.
    ready = any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions or ())
    return (
        stage.state in (containers[0].state or {})
        and containers[0].restart_count == stage.restarts
        and ready == (stage.state == CONTAINER_RUNNING)
    )
