"""PodStatus of a lifecycle stage, as a strategic merge patch.

The PodScheduled condition and the QoS class are written by other components; the merge preserves them.
"""

from __future__ import annotations

from typing import NamedTuple

from pyscheduler.api.objects import Container
from pyscheduler.api.resources import is_sidecar
from pyscheduler.embedded.hollow.node_capacity import AdmissionFailure
from pyscheduler.embedded.hollow.pod_lifecycle import (
    CONTAINER_RUNNING,
    CONTAINER_TERMINATED,
    CONTAINER_WAITING,
    FAILED,
    PENDING,
    RUNNING,
    SUCCEEDED,
    PodStage,
)
from pyscheduler.embedded.hollow.pod_types import HollowPod
from pyscheduler.embedded.objects import Json, timestamp


class PodPlacement(NamedTuple):
    """Addresses of a pod on its node, and the time at which the kubelet first saw it."""

    seen: float
    pod_ip: str
    host_ip: str
    earlier: int = 0
    """Number of pods of the same owner and index that failed before."""


def stage_status(pod: HollowPod, stage: PodStage, place: PodPlacement) -> Json:
    """Return the status of a pod in that stage."""
    status: Json = {
        "phase": stage.phase,
        "startTime": timestamp(place.seen),
        "hostIP": place.host_ip,
        "hostIPs": [{"ip": place.host_ip}],
        "conditions": _conditions(stage),
        "containerStatuses": [_container(pod, c, stage) for c in pod.spec.containers],
    }
    if pod.spec.init_containers:
        status["initContainerStatuses"] = [_init_container(pod, c, stage) for c in pod.spec.init_containers]
    if stage.state != CONTAINER_WAITING or stage.restarts:
        status["podIP"] = place.pod_ip
        status["podIPs"] = [{"ip": place.pod_ip}]
    return status


def admission_failure_status(failure: AdmissionFailure, seen: float) -> Json:
    """Return the status of a pod that the kubelet rejected."""
    return {
        "phase": FAILED,
        "reason": failure.reason,
        "message": failure.message,
        "startTime": timestamp(seen),
    }


def _conditions(stage: PodStage) -> list[Json]:
    started = stage.phase != PENDING
    ready, reason = stage.state == CONTAINER_RUNNING, ""
    if not ready:
        reason = {SUCCEEDED: "PodCompleted", FAILED: "PodFailed"}.get(stage.phase, "ContainersNotReady")
    why = {"reason": reason} if reason else {}
    at = timestamp(stage.began)
    initialized = {"reason": "PodCompleted"} if stage.phase == SUCCEEDED else {}
    return [
        _condition("PodReadyToStartContainers", stage.phase == RUNNING, at, {}),
        _condition("Initialized", started, at, initialized),
        _condition("Ready", ready, at, why),
        _condition("ContainersReady", ready, at, why),
    ]


def _condition(kind: str, true: bool, at: str, why: Json) -> Json:
    # Null removes the reason of an earlier stage: the merge would preserve it.
    return {"type": kind, "status": str(true), "lastTransitionTime": at, "reason": None, "message": None, **why}


def _container(pod: HollowPod, container: Container, stage: PodStage) -> Json:
    up = stage.state == CONTAINER_RUNNING
    status = _named(pod, container) | {"ready": up, "started": up, "restartCount": stage.restarts}
    ended = {CONTAINER_TERMINATED: _exit(pod, container, stage.exit_code, *stage.last_run)} if stage.last_run else {}
    if stage.state == CONTAINER_TERMINATED:
        return status | {"state": ended}
    if stage.state == CONTAINER_WAITING:
        return status | {"state": {CONTAINER_WAITING: {"reason": stage.reason}}, "lastState": ended}
    return status | {"state": {CONTAINER_RUNNING: {"startedAt": timestamp(stage.began)}}, "lastState": ended}


def _init_container(pod: HollowPod, container: Container, stage: PodStage) -> Json:
    """Return the status of an init container: finished when the pod starts. Sidecars run as app containers do."""
    if stage.phase == PENDING:
        state: Json = {CONTAINER_WAITING: {"reason": "PodInitializing"}}
        return _named(pod, container) | {"ready": False, "started": False, "restartCount": 0, "state": state}
    if is_sidecar(container) and stage.phase == RUNNING:
        state = {CONTAINER_RUNNING: {"startedAt": timestamp(stage.began)}}
        return _named(pod, container) | {"ready": True, "started": True, "restartCount": 0, "state": state}
    state = {CONTAINER_TERMINATED: _exit(pod, container, 0, stage.began, stage.began)}
    return _named(pod, container) | {"ready": True, "started": False, "restartCount": 0, "state": state}


def _named(pod: HollowPod, container: Container) -> Json:
    return {
        "name": container.name,
        "image": container.image,
        "imageID": f"hollow://{container.image}",
        "containerID": _container_id(pod, container),
    }


def _exit(pod: HollowPod, container: Container, code: int, started: float, finished: float) -> Json:
    return {
        "exitCode": code,
        "reason": "Error" if code else "Completed",
        "startedAt": timestamp(started),
        "finishedAt": timestamp(finished),
        "containerID": _container_id(pod, container),
    }


def _container_id(pod: HollowPod, container: Container) -> str:
    return f"hollow://{pod.metadata.uid}/{container.name}"
