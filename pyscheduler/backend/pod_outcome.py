"""Reads from a pod how it ended. One pure function; `outcomes.py` says what each outcome means."""

from __future__ import annotations

from pyscheduler.backend.outcomes import Outcome
from pyscheduler.backend.pods import PodState

IMAGE_ERRORS = frozenset({"ErrImagePull", "ImagePullBackOff", "ImageInspectError", "RegistryUnavailable"})
PERMANENT_IMAGE_ERRORS = frozenset({"InvalidImageName", "ErrImageNeverPull"})
"""These do not get better by waiting."""
CONFIG_ERRORS = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})

_BY_DISRUPTION = {
    "PreemptionByScheduler": Outcome.PREEMPTED,
    "DeletionByTaintManager": Outcome.NODE_LOST,
    "DeletionByPodGC": Outcome.NODE_LOST,
    "EvictionByEvictionAPI": Outcome.EVICTED,
    "TerminationByKubelet": Outcome.EVICTED,
}
"""By the reason of the condition DisruptionTarget (core/v1)."""
_BY_REASON = {
    "Evicted": Outcome.EVICTED,
    "Preempting": Outcome.PREEMPTED,
    "NodeLost": Outcome.NODE_LOST,
    "NodeShutdown": Outcome.DISRUPTED,
    "Shutdown": Outcome.DISRUPTED,
    "Terminated": Outcome.DISRUPTED,
    "DeadlineExceeded": Outcome.DEADLINE,
}
"""By status.reason, which the kubelet writes."""
_SIGNALLED = (128 + 9, 128 + 15)
"""Exit codes: SIGKILL and SIGTERM."""
_TIMESTAMP_RESOLUTION = 1.0
"""Timestamps of the API have whole seconds."""


def outcome_of(pod: PodState, ending: Outcome | None) -> Outcome:
    """How a pod that has stopped, or that is gone and was last seen like this, ended.

    `ending` is why we have ended it ourselves, if we have. A success counts whatever else happened; after that what we
    wanted; after that who took the pod away; and only then what its containers said, for those that are taken away end
    with errors too.
    """
    if pod.phase == "Succeeded":
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
    return Outcome.OOM_KILLED if pod.exit_reason == "OOMKilled" else Outcome.FAILED


def _was_stopped(pod: PodState) -> bool:
    """Whether its container ended by a signal as the kubelet sends them."""
    return pod.exit_code in _SIGNALLED and pod.exit_reason != "OOMKilled"


def _ended_before_deletion(pod: PodState) -> bool:
    """Whether its containers had ended by themselves when somebody asked for its deletion.

    Times alone do not tell: the API server (1.36.3) moves the time of a deletion to when the kubelet is through with
    the pod, where a finalizer keeps it.
    """
    if pod.phase != "Failed" or pod.finished_at is None or pod.delete_at is None:
        return False
    return pod.finished_at + _TIMESTAMP_RESOLUTION < pod.delete_at - pod.grace


def startup_failure(pod: PodState, started_for: float, patience: float) -> Outcome | None:
    """Why a pod that has not ended never will, None while there is hope.

    `started_for` is for how many seconds its node has known it, `patience` how long errors may last that can pass.
    """
    if pod.waiting in PERMANENT_IMAGE_ERRORS:
        return Outcome.IMAGE
    if started_for < patience:
        return None
    if pod.waiting in IMAGE_ERRORS:
        return Outcome.IMAGE
    return Outcome.CONFIG if pod.waiting in CONFIG_ERRORS else None
