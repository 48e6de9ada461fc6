"""What the queueing hints of several plugins have in common."""

from __future__ import annotations

from pyscheduler.api import ASSIGNED_POD, ClusterEvent, QueueingHint


def queue_if(helps: bool) -> QueueingHint:
    """QUEUE if the event may help the pod, SKIP otherwise."""
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def had_place(deleted: ClusterEvent) -> bool:
    """Whether a pod that is gone held a place on a node: it was on one, on its way to one, or nominated to one."""
    return deleted.resource == ASSIGNED_POD or bool(deleted.old.node_name or deleted.old.nominated_node_name)
