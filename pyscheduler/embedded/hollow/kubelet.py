"""What a hollow kubelet does about a pod now, and when it should look again: one pure function."""

from __future__ import annotations

import math
from typing import NamedTuple

from pyscheduler.embedded.client import Json
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

_TOO_LONG = {
    "reason": "DeadlineExceeded",
    "message": "Pod was active on the node longer than the specified deadline",
}


class SyncResult(NamedTuple):
    """At most one write, and the time of the next look (math.inf: only if the pod changes)."""

    status: Json | None = None
    """A strategic merge patch of the pod's status."""
    delete: bool = False
    """Delete the pod for good: its containers have stopped."""
    requeue_at: float = math.inf


def sync_pod(
    pod: HollowPod, place: PodPlacement, refusal: AdmissionFailure | None, timings: LifecycleTimings, now: float
) -> SyncResult:
    """The next step for a pod on a living node. `refusal` stands if the node had no room when the pod came."""
    if pod.metadata.deletion_timestamp is not None:
        return _stop(pod, place, now)
    if pod.final:
        return SyncResult()
    if refusal is not None:
        return SyncResult(admission_failure_status(refusal, place.seen))
    limit = pod.spec.active_deadline_seconds
    deadline = math.inf if limit is None else place.seen + limit
    stage = stage_at(plan_run(pod, timings, place.earlier), timings, place.seen, min(now, deadline))
    if now >= deadline and stage.phase not in (SUCCEEDED, FAILED):
        return SyncResult(stage_status(pod, _killed(place, deadline), place) | _TOO_LONG)
    return SyncResult(
        None if _shows(pod, stage) else stage_status(pod, stage, place), requeue_at=min(stage.until, deadline)
    )


def _stop(pod: HollowPod, place: PodPlacement, now: float) -> SyncResult:
    """First the containers exit and the status says so, then the object goes, as with the real kubelet."""
    if pod.metadata.deletion_grace_period_seconds == 0:
        return SyncResult()  # deleted for good already; only finalizers of others keep it
    if pod.final:
        return SyncResult(delete=True)
    return SyncResult(stage_status(pod, _killed(place, now), place))


def _killed(place: PodPlacement, at: float) -> PodStage:
    return PodStage(FAILED, CONTAINER_TERMINATED, "Error", at, exit_code=KILLED, last_run=(min(place.seen, at), at))


def _shows(pod: HollowPod, stage: PodStage) -> bool:
    """Whether the pod's status tells that stage already."""
    containers = pod.status.container_statuses
    if pod.status.phase != stage.phase or not containers:
        return False
    # Somebody who watches over nodes may have declared the pod not ready while its node was silent.
    ready = any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions or ())
    return (
        stage.state in (containers[0].state or {})
        and containers[0].restart_count == stage.restarts
        and ready == (stage.state == CONTAINER_RUNNING)
    )
