"""QoSSort: among pods of one priority, those with firm resource promises go first."""

from __future__ import annotations

from pyscheduler.api import QoSClass, QueuedPod, QueueSortPlugin

_RANK = {QoSClass.GUARANTEED: 0, QoSClass.BURSTABLE: 1, QoSClass.BEST_EFFORT: 2}


class QoSSort(QueueSortPlugin):
    """Orders the queue by priority, then by quality-of-service class (Guaranteed, Burstable, BestEffort), then by when
    the pod was last put into it."""

    name = "QoSSort"

    def sort_key(self, queued: QueuedPod) -> tuple[int, int, float]:
        return -queued.pod.priority, _RANK[queued.pod.signature.qos], queued.timestamp
