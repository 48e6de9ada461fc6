"""Helpers shared by the queueing hints of several plugins."""

from __future__ import annotations

from pyscheduler.api import ASSIGNED_POD, ClusterEvent, QueueingHint


def queue_if(helps: bool) -> QueueingHint:
    """Return QUEUE if the event may make the pod schedulable, else SKIP."""
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def occupied_node(deleted: ClusterEvent) -> bool:
    """Return True if a deleted pod occupied a node: it was bound, assumed or nominated."""
    return deleted.resource == ASSIGNED_POD or bool(deleted.old.node_name or deleted.old.nominated_node_name)
