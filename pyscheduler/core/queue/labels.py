"""Event labels of kube-scheduler, which metrics use for the reasons why pods enter a queue."""

from __future__ import annotations

from functools import cache

from pyscheduler.api.events import Action, ClusterEvent

POD_ADD = "UnscheduledPodAdd"
POD_UPDATE = "UnscheduledPodUpdate"
ATTEMPT_FAILURE = "ScheduleAttemptFailure"
BACKOFF_COMPLETE = "BackoffComplete"
POP_FROM_BACKOFF = "PopFromBackoffQ"
FORCE_ACTIVATE = "ForceActivate"
UNSCHEDULABLE_TIMEOUT = "UnschedulableTimeout"
POD_POPPED = "PodPopped"
"""Label of the in-flight pods themselves in kube-scheduler's metric of in-flight events."""
NOMINATED_NODE_CHANGED = "NominatedNodeChanged"
"""Ours: a pod's nomination, or the node that it is nominated to, has changed."""
POD_GROUP_CHANGED = "PodGroupChanged"
"""Ours: a pod group has other members or requirements."""
QUOTA_CHANGED = "QuotaChanged"
"""Ours: a queue may allocate what it refused before."""
RECONFIGURED = "Reconfigured"
"""Ours: the profiles have changed."""
TOO_MANY_EVENTS = "TooManyEvents"
"""Ours: there were too many events to evaluate each for every pod."""


def label_of(event: ClusterEvent) -> str:
    """Return the event's own label, or its resource and action as in `NodeUpdateNodeTaint`."""
    return event.label or _label(event.resource, event.action)


@cache
def _label(resource: str, action: Action) -> str:
    return resource + "".join(part.capitalize() for part in (action.name or "").split("_"))
