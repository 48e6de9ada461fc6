"""What a hollow kubelet does about a pod now, and when it should look again: one pure function."""

from __future__ import annotations

import math
from typing import NamedTuple

from pyscheduler.embedded.client import Json
from pyscheduler.embedded.hollow.life import EXITED, FAILED, KILLED, SUCCEEDED, UP, Pace, Stage, plan_of, stage_at
from pyscheduler.embedded.hollow.room import Refusal
from pyscheduler.embedded.hollow.status import Place, refused_status, stage_status
from pyscheduler.embedded.hollow.wire import HollowPod

_TOO_LONG = {
    "reason": "DeadlineExceeded",
    "message": "Pod was active on the node longer than the specified deadline",
}


class Decision(NamedTuple):
    """At most one write, and the time of the next look (math.inf: only if the pod changes)."""

    status: Json | None = None
    """A strategic merge patch of the pod's status."""
    delete: bool = False
    """Delete the pod for good: its containers have stopped."""
    again: float = math.inf


def decide(pod: HollowPod, place: Place, refusal: Refusal | None, pace: Pace, now: float) -> Decision:
    """The next step for a pod on a living node. `refusal` stands if the node had no room when the pod came."""
    if pod.metadata.deletion_timestamp is not None:
        return _stop(pod, place, now)
    if pod.final:
        return Decision()
    if refusal is not None:
        return Decision(refused_status(refusal, place.seen))
    limit = pod.spec.active_deadline_seconds
    deadline = math.inf if limit is None else place.seen + limit
    stage = stage_at(plan_of(pod, pace, place.earlier), pace, place.seen, min(now, deadline))
    if now >= deadline and stage.phase not in (SUCCEEDED, FAILED):
        return Decision(stage_status(pod, _killed(place, deadline), place) | _TOO_LONG)
    return Decision(None if _shows(pod, stage) else stage_status(pod, stage, place), again=min(stage.until, deadline))


def _stop(pod: HollowPod, place: Place, now: float) -> Decision:
    """First the containers exit and the status says so, then the object goes, as with the real kubelet."""
    if pod.metadata.deletion_grace_period_seconds == 0:
        return Decision()  # deleted for good already; only finalizers of others keep it
    if pod.final:
        return Decision(delete=True)
    return Decision(stage_status(pod, _killed(place, now), place))


def _killed(place: Place, at: float) -> Stage:
    return Stage(FAILED, EXITED, "Error", at, exit_code=KILLED, last_run=(min(place.seen, at), at))


def _shows(pod: HollowPod, stage: Stage) -> bool:
    """Whether the pod's status tells that stage already."""
    containers = pod.status.container_statuses
    if pod.status.phase != stage.phase or not containers:
        return False
    # Somebody who watches over nodes may have declared the pod not ready while its node was silent.
    ready = any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions or ())
    return (
        stage.state in (containers[0].state or {})
        and containers[0].restart_count == stage.restarts
        and ready == (stage.state == UP)
    )
