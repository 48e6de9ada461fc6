"""Outcome of a pod, computed from its status. `outcomes.py` describes each outcome."""

from __future__ import annotations

from pyscheduler.backend.outcomes import Outcome
from pyscheduler.backend.pods import PodState
from pyscheduler.backend.settings import BackendSettings

IMAGE_ERRORS = frozenset({"ErrImagePull", "ImagePullBackOff", "ImageInspectError", "RegistryUnavailable"})
PERMANENT_IMAGE_ERRORS = frozenset({"InvalidImageName", "ErrImageNeverPull"})
"""Waiting reasons that do not go away by themselves."""
CRASH_LOOP = "CrashLoopBackOff"
CONFIG_ERRORS = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})

_BY_DISRUPTION = {
    "PreemptionByScheduler": Outcome.PREEMPTED,
    "DeletionByTaintManager": Outcome.NODE_LOST,
    "DeletionByPodGC": Outcome.NODE_LOST,
    "EvictionByEvictionAPI": Outcome.EVICTED,
    "TerminationByKubelet": Outcome.EVICTED,
}
"""Outcome by the reason of the condition DisruptionTarget (core/v1)."""
_BY_REASON = {
    "Evicted": Outcome.EVICTED,
    "Preempting": Outcome.PREEMPTED,
    "NodeLost": Outcome.NODE_LOST,
    "NodeShutdown": Outcome.DISRUPTED,
    "Shutdown": Outcome.DISRUPTED,
    "Terminated": Outcome.DISRUPTED,
    "DeadlineExceeded": Outcome.DEADLINE,
}
"""Outcome by status.reason, which the kubelet writes."""
_SIGNALLED = (128 + 9, 128 + 15)
"""Exit codes after SIGKILL and SIGTERM."""
_TIMESTAMP_RESOLUTION = 1.0
"""API timestamps have whole seconds."""


def outcome_of(pod: PodState, ending: Outcome | None) -> Outcome:
    """Return the outcome of a pod that has stopped, or of a deleted pod by its last state.

    `ending` is the backend's own reason to end it, if any. Order: success, `ending`, disruption or deletion of the
    pod, and last the exit codes, because containers of a disrupted pod fail too.
    """
    if pod.phase == "Succeeded" or (pod.main_ended and pod.exit_code == 0):
        return Outcome.SUCCEEDED
    if ending is not None:
        return ending
    if pod.disruption:
        return _BY_DISRUPTION.get(pod.disruption, Outcome.DISRUPTED)
    if pod.reason in _BY_REASON:
        return _BY_REASON[pod.reason]
    if pod.deleting and (_was_stopped(pod) or not _ended_before_deletion(pod)):
        return Outcome.DELETED
    if pod.phase != "Failed":
        return Outcome.GONE
    if pod.exit_code is None:
        return Outcome.NODE_REFUSED
    return container_outcome(pod)


def container_outcome(pod: PodState) -> Outcome:
    """Return the outcome of the task's own containers, which have ended."""
    if pod.exit_code == 0:
        return Outcome.SUCCEEDED
    return Outcome.OOM_KILLED if pod.exit_reason == "OOMKilled" else Outcome.FAILED


def _was_stopped(pod: PodState) -> bool:
    """Return True if the container ended by SIGTERM or SIGKILL, the signals of the kubelet."""
    return pod.exit_code in _SIGNALLED and pod.exit_reason != "OOMKilled"


def _ended_before_deletion(pod: PodState) -> bool:
    """Return True if the containers had ended before the pod's deletion was requested.

    Timestamps alone do not suffice: while a finalizer keeps the pod, the API server (1.36.3) moves the deletion time
    to when the kubelet has finished with the pod.
    """
    if pod.phase != "Failed" or pod.finished_at is None or pod.delete_at is None:
        return False
    return pod.finished_at + _TIMESTAMP_RESOLUTION < pod.delete_at - pod.grace


def startup_failure(pod: PodState, started_for: float, settings: BackendSettings) -> Outcome | None:
    """Return the outcome of a pod that cannot start, None while it still may.

    `started_for`: seconds since the kubelet accepted the pod.
    """
    if pod.waiting in PERMANENT_IMAGE_ERRORS:
        return Outcome.IMAGE
    if pod.waiting == CRASH_LOOP:
        most = settings.crash_restarts
        return Outcome.CRASH_LOOP if most is not None and pod.restarts >= most else None
    if started_for < settings.image_seconds:
        return None
    if pod.waiting in IMAGE_ERRORS:
        return Outcome.IMAGE
    return Outcome.CONFIG if pod.waiting in CONFIG_ERRORS else None
