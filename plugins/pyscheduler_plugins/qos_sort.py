"""QoSSort: order the queue by priority, then by QoS class."""

from __future__ import annotations

from pyscheduler.api import QoSClass, QueuedPod, QueueSortPlugin

_RANK = {QoSClass.GUARANTEED: 0, QoSClass.BURSTABLE: 1, QoSClass.BEST_EFFORT: 2}


class QoSSort(QueueSortPlugin):
    """Queue order by priority, then by QoS class (Guaranteed, Burstable, BestEffort), then by queueing time."""

    name = "QoSSort"

    def sort_key(self, queued: QueuedPod) -> tuple[int, int, float]:
        return -queued.pod.priority, _RANK[queued.pod.signature.qos], queued.timestamp
