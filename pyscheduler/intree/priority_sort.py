"""PrioritySort: the more important pod first, then the one that has waited longer."""

from __future__ import annotations

from pyscheduler.api import QueuedPod, QueueSortPlugin


class PrioritySort(QueueSortPlugin):
    """Orders the active queue by spec.priority (none counts as 0), then by when the pod was last put into it."""

    name = "PrioritySort"

    def sort_key(self, queued: QueuedPod) -> tuple[int, float]:
        return -queued.pod.priority, queued.timestamp
