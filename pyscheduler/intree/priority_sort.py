"""PrioritySort: order the active queue by priority, then by time."""

from __future__ import annotations

from pyscheduler.api import QueuedPod, QueueSortPlugin


class PrioritySort(QueueSortPlugin):
    """Order by spec.priority (missing counts as 0), highest first, then by the time of the last enqueue."""

    name = "PrioritySort"

    def sort_key(self, queued: QueuedPod) -> tuple[int, float]:
        return -queued.pod.priority, queued.timestamp
