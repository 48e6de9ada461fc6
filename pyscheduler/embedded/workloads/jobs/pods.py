"""Properties of a Job's pod: its index, its tracking finalizer, its failure and finish time."""

from __future__ import annotations

from collections.abc import Iterable

from pyscheduler.embedded.objects import Json, condition, dig, seconds
from pyscheduler.embedded.workloads.actions import Patch
from pyscheduler.embedded.workloads.objects import is_deleting, key_of, phase, uid_of
from pyscheduler.kube.numbers import natural
from pyscheduler.kube.paths import PODS

FINALIZER = "batch.kubernetes.io/job-tracking"
"""Finalizer of a pod until the Job's status has counted it, so that no deletion loses a result."""
INDEX = "batch.kubernetes.io/job-completion-index"
INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"
NO_INDEX = -1
MAX_COUNT = 2**31 - 1


def is_tracked(pod: Json) -> bool:
    """Return True if the pod has the tracking finalizer: it is not counted yet."""
    return FINALIZER in (pod["metadata"].get("finalizers") or ())


def remove_finalizer_action(pod: Json) -> Patch:
    """Return the patch that removes the tracking finalizer from a pod that is counted or not to be counted."""
    meta = {"uid": uid_of(pod), "$deleteFromPrimitiveList/finalizers": [FINALIZER]}
    return Patch(PODS, key_of(pod), {"metadata": meta}, type="strategic-merge")


def is_final(pod: Json) -> bool:
    """Return True if the pod has Succeeded or Failed."""
    return phase(pod) in ("Succeeded", "Failed")


def is_terminating(pod: Json) -> bool:
    """Return True if the pod is being deleted and its containers may still run."""
    return is_deleting(pod) and not is_final(pod)


def replaces_only_failed(job: Json) -> bool:
    """Return True if a terminating pod counts as failed, and is replaced, only once it is Failed."""
    spec = job["spec"]
    return spec.get("podReplacementPolicy") == "Failed" or spec.get("podFailurePolicy") is not None


def is_failed(pod: Json, job: Json) -> bool:
    """Return True if the pod Failed or, unless only failed pods are replaced, is terminating."""
    if phase(pod) == "Failed":
        return True
    return not replaces_only_failed(job) and is_terminating(pod)


def is_indexed(job: Json) -> bool:
    """Return True if each pod has a completion index."""
    return bool(job["spec"].get("completionMode") == "Indexed")


def completions_of(job: Json) -> int | None:
    """Return spec.completions; None for a work queue."""
    wanted = job["spec"].get("completions")
    return None if wanted is None else int(wanted)


def index_of(pod: Json) -> int:
    """Return the pod's completion index, NO_INDEX if it is missing or malformed."""
    index = natural(_annotation(pod, INDEX))
    return NO_INDEX if index is None else index


def has_valid_index(pod: Json, job: Json) -> bool:
    """Return True if the index is valid, or the Job is not indexed."""
    return not is_indexed(job) or NO_INDEX < index_of(pod) < (completions_of(job) or 0)


def index_failures(pod: Json) -> int:
    """Return the number of counted failures of the index before this pod."""
    return _count(pod, INDEX_FAILURES)


def index_ignored(pod: Json) -> int:
    """Return the number of further failures that the Job's failure policy ignores."""
    return _count(pod, INDEX_IGNORED)


def finished_at(pod: Json) -> float:
    """Return when the pod finished: by its containers, else when it became unready, was deleted, or was created."""
    ends = list(_ends(pod))
    times = [at for at in ends if at is not None]
    if ends and len(times) == len(ends):
        return max(times)
    ready = condition(pod, "Ready")
    if ready.get("status") == "False" and (since := seconds(ready.get("lastTransitionTime"))) is not None:
        return since
    meta = pod["metadata"]
    if (deleted := seconds(meta.get("deletionTimestamp"))) is not None:
        return deleted - int(meta.get("deletionGracePeriodSeconds") or 0)
    return seconds(meta.get("creationTimestamp")) or 0.0


def _ends(pod: Json) -> Iterable[float | None]:
    sidecars = {c["name"] for c in pod["spec"].get("initContainers") or () if c.get("restartPolicy") == "Always"}
    inits = (s for s in dig(pod, "status", "initContainerStatuses") or () if s.get("name") in sidecars)
    for status in (*(dig(pod, "status", "containerStatuses") or ()), *inits):
        yield seconds(dig(status, "state", "terminated", "finishedAt"))


def _annotation(pod: Json, name: str) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(name, ""))


def _count(pod: Json, name: str) -> int:
    count = natural(_annotation(pod, name)) or 0
    return count if count <= MAX_COUNT else 0
