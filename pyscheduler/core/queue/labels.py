"""How metrics name the reasons for which pods enter a queue: kube-scheduler's event labels."""

from __future__ import annotations

from functools import cache

from pyscheduler.api.events import Action, ClusterEvent

POD_ADD = "UnschedulablePodAdd"
POD_UPDATE = "UnschedulablePodUpdate"
ATTEMPT_FAILURE = "ScheduleAttemptFailure"
BACKOFF_COMPLETE = "BackoffComplete"
POP_FROM_BACKOFF = "PopFromBackoffQ"
FORCE_ACTIVATE = "ForceActivate"
UNSCHEDULABLE_TIMEOUT = "UnschedulableTimeout"
POD_POPPED = "PodPopped"
"""No event, but what kube-scheduler's count of events in flight calls a pod that is being attempted."""
NOMINATED_NODE_CHANGED = "NominatedNodeChanged"
"""Ours: the node that a pod is nominated to, or the nomination itself, is not what it was."""
RECONFIGURED = "Reconfigured"
"""Ours: other plugins may have other answers."""
TOO_MANY_EVENTS = "TooManyEvents"
"""Ours: more events than could be weighed for each pod."""


def label_of(event: ClusterEvent) -> str:
    """The event's own label, else its resource and action as in `NodeUpdateNodeTaint`."""
    return event.label or _label(event.resource, event.action)


@cache
def _label(resource: str, action: Action) -> str:
    return resource + "".join(part.capitalize() for part in (action.name or "").split("_"))
