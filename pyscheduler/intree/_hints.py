"""What the queueing hints of several plugins have in common."""

from __future__ import annotations

from pyscheduler.api import ASSIGNED_POD, ClusterEvent, Hint


def queue_if(helps: bool) -> Hint:
    """QUEUE if the event may help the pod, SKIP otherwise."""
    return Hint.QUEUE if helps else Hint.SKIP


def had_place(deleted: ClusterEvent) -> bool:
    """Whether a pod that is gone held a place on a node: it was on one, on its way to one, or nominated to one."""
    return deleted.resource == ASSIGNED_POD or bool(deleted.old.node_name or deleted.old.nominated_node_name)
